"""The configuration of convolutional networks."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from model.config.networks.network import BaseShape, Decoder, Encoder, EncoderDecoder, ModelConfig, Width
from model.config.section import refuse


class ConvolutionalBase(BaseShape):
    """The base shape of a convolutional network."""

    filters: Width = 256


class ConvolutionalConfig(ModelConfig):
    """Blocks of convolutions with gates."""

    base: ConvolutionalBase = ConvolutionalBase()
    family: Literal["convolutional"]
    filters: Width
    filter_width: Annotated[int, Field(ge=1, le=1024)]
    weight_norm: bool


class _Reading(ConvolutionalConfig):
    """A convolutional network with an encoder."""

    @model_validator(mode="after")
    def _is_centred(self) -> Self:
        if self.filter_width % 2 == 0:
            raise refuse(
                f"must be odd, because an encoder's filters are centred, given {self.filter_width}",
                "model.filter_width",
                "model.shape",
            )
        return self


class ConvolutionalEncoder(_Reading, Encoder):
    """Reads a sequence in both directions."""


class ConvolutionalDecoder(ConvolutionalConfig, Decoder):
    """Predicts each token from the tokens before it, as far back as its filters reach."""


class ConvolutionalEncoderDecoder(_Reading, EncoderDecoder):
    """An encoder, and a decoder that attends to its output in every block."""
