"""The configuration of convolutional networks."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from model.config.networks.network import BaseShape, Decoder, Encoder, EncoderDecoder, ModelConfig, Width
from model.config.section import refuse


class ConvolutionalBase(BaseShape):
    """The size of a convolutional base network; see `BaseShape`."""

    filters: Width = 256


class ConvolutionalConfig(ModelConfig):
    """The settings of a network of gated convolutional blocks."""

    base: ConvolutionalBase = ConvolutionalBase()
    family: Literal["convolutional"]
    filters: Width
    filter_width: Annotated[int, Field(ge=1, le=1024)]
    weight_norm: bool


class _Reading(ConvolutionalConfig):
    """The settings of a convolutional network with an encoder."""

    @model_validator(mode="after")
    def _is_centred(self) -> Self:
        if self.filter_width % 2 == 0:
            raise refuse(
                f"must be odd, given {self.filter_width}; the filters of an encoder are centred",
                "model.filter_width",
                "model.shape",
            )
        return self


class ConvolutionalEncoder(_Reading, Encoder):
    """The settings of a convolutional encoder, which reads a sequence in both directions."""


class ConvolutionalDecoder(ConvolutionalConfig, Decoder):
    """The settings of a decoder that predicts each token from the previous tokens that the filters reach."""


class ConvolutionalEncoderDecoder(_Reading, EncoderDecoder):
    """The settings of an encoder, and of a decoder whose blocks all attend to the encoder's output."""
