"""The Transformer's configuration."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from model.config.networks.network import BaseShape, Decoder, Encoder, EncoderDecoder, ModelConfig, Width
from model.config.section import Fraction, refuse


class TransformerBase(BaseShape):
    """The size of a base Transformer; see `BaseShape`."""

    feed_forward_width: Width = 256


class TransformerConfig(ModelConfig):
    """The settings of a network of attention and feed-forward layers."""

    family: Literal["transformer"]
    num_key_heads: Annotated[int, Field(ge=1, le=1024)] | None
    qk_norm: bool
    base: TransformerBase = TransformerBase()
    num_heads: Annotated[int, Field(ge=1, le=1024)]
    key_width: Width | None
    value_width: Width | None
    feed_forward_width: Width
    nonlinearity: Literal["relu", "gelu", "tanh", "silu", "swiglu"]
    norm: Literal["layer", "rms"]
    norm_order: Literal["first", "last"]
    positions: Literal["none", "sinusoidal", "learned", "rotary", "alibi"]
    bias: bool
    attention_dropout: Fraction | None

    @model_validator(mode="after")
    def _heads_fit(self) -> Self:
        if (self.key_width is None or self.value_width is None) and self.d_model % self.num_heads:
            raise refuse(
                f"d_model must be a multiple of num_heads, given {self.d_model} and {self.num_heads}; change one of "
                "them, or set model.key_width and model.value_width",
                "model.d_model",
                "model.num_heads",
            )
        if self.num_heads % self.head_keys:
            raise refuse(
                f"num_heads must be a multiple of num_key_heads, given {self.num_heads} and {self.num_key_heads}",
                "model.num_key_heads",
                "model.num_heads",
            )
        if self.positions == "rotary" and self.head_key_width % 2:
            raise refuse(
                f"must be even, given {self.head_key_width}; rotary positions rotate pairs of numbers",
                "model.key_width",
                "model.positions",
            )
        return self

    @property
    def head_keys(self) -> int:
        """The number of key heads, which is also the number of value heads."""
        return self.num_key_heads or self.num_heads

    @property
    def head_key_width(self) -> int:
        """The width of the queries and keys in one attention head."""
        return self.key_width or self.d_model // self.num_heads

    @property
    def head_value_width(self) -> int:
        """The width of the values in one attention head."""
        return self.value_width or self.d_model // self.num_heads


class TransformerEncoder(TransformerConfig, Encoder):
    """The settings of a Transformer that reads a sequence in both directions."""


class TransformerDecoder(TransformerConfig, Decoder):
    """The settings of a Transformer that predicts each token from the previous tokens."""


class TransformerEncoderDecoder(TransformerConfig, EncoderDecoder):
    """The settings of an encoder, and of a decoder that attends to the encoder's output."""
