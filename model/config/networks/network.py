"""What the configurations of all families share, and what each shape adds."""

from typing import Annotated, Literal

from pydantic import Field

from model.config.section import Fraction, Section

Width = Annotated[int, Field(ge=1, le=65_536)]
Layers = Annotated[int, Field(ge=1, le=1000)]


class ModelConfig(Section):
    """The network. Keys, units and allowed values are explained in conf/model, in a file for each family and shape."""

    family: str
    shape: str
    num_layers: Layers
    d_model: Width
    dropout: Fraction
    embedding_dropout: Fraction | None


class Encoder(ModelConfig):
    """A network that reads a whole sequence: classification, tagging."""

    shape: Literal["encoder"]
    # Has a default, unlike all others, because configurations frozen before it existed lack it.
    pooling: Literal["mean", "first", "max"] = "mean"


class Writing(ModelConfig):
    """A network that predicts tokens."""

    tied_embeddings: bool
    # Has a default, unlike all others, because configurations frozen before it existed lack it.
    head_scale: Annotated[float, Field(gt=0, le=1000)] | None = None


class Decoder(Writing):
    """A network that predicts each next token: language modelling."""

    shape: Literal["decoder"]


class EncoderDecoder(Writing):
    """A network that turns one sequence into another, as in translation."""

    shape: Literal["encoder_decoder"]
    num_decoder_layers: Layers | None

    @property
    def decoder_layers(self) -> int:
        """Layers of the decoder."""
        return self.num_decoder_layers or self.num_layers
