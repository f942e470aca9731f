"""The configuration of the network: every rule, and no values (they are in conf/model)."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from model.config.section import Fraction, Section, refuse

Width = Annotated[int, Field(ge=1, le=65_536)]


class ModelConfig(Section):
    """The network. Keys, units and allowed values are explained in conf/model/encoder.yaml."""

    shape: str
    num_layers: Annotated[int, Field(ge=1, le=1000)]
    num_heads: Annotated[int, Field(ge=1, le=1024)]
    d_model: Width
    key_width: Width | None
    value_width: Width | None
    feed_forward_width: Width
    nonlinearity: Literal["relu", "gelu", "tanh", "silu", "swiglu"]
    norm: Literal["layer", "rms"]
    norm_order: Literal["first", "last"]
    positions: Literal["none", "sinusoidal", "learned", "rotary", "alibi"]
    bias: bool
    dropout: Fraction
    attention_dropout: Fraction | None
    embedding_dropout: Fraction | None

    @model_validator(mode="after")
    def _heads_fit(self) -> Self:
        if (self.key_width is None or self.value_width is None) and self.d_model % self.num_heads:
            raise refuse(
                f"must divide without remainder, given d_model {self.d_model} and num_heads {self.num_heads}: "
                "change one of them, or set model.key_width and model.value_width",
                "model.d_model",
                "model.num_heads",
            )
        if self.positions == "rotary" and self.head_key_width % 2:
            raise refuse(
                f"rotary positions turn pairs of numbers: must be even, given a key width of {self.head_key_width}",
                "model.key_width",
                "model.positions",
            )
        return self

    @property
    def head_key_width(self) -> int:
        """Numbers per head in a query or a key."""
        return self.key_width or self.d_model // self.num_heads

    @property
    def head_value_width(self) -> int:
        """Numbers per head in a value."""
        return self.value_width or self.d_model // self.num_heads


class EncoderConfig(ModelConfig):
    """A network that reads a sequence in both directions: classification, tagging."""

    shape: Literal["encoder"]


class DecoderConfig(ModelConfig):
    """A network that predicts each next token: language modelling."""

    shape: Literal["decoder"]
    tied_embeddings: bool


class EncoderDecoderConfig(ModelConfig):
    """A network that turns one sequence into another, as in translation."""

    shape: Literal["encoder_decoder"]
    num_decoder_layers: Annotated[int, Field(ge=1, le=1000)] | None
    tied_embeddings: bool
