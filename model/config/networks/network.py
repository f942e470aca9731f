"""The settings that all networks share, and the settings of encoders, decoders and encoder-decoders."""

from typing import Annotated, Literal, Self

from pydantic import Field, ValidationError, model_validator

from model.config.section import Fraction, Section, refuse

Width = Annotated[int, Field(ge=1, le=65_536)]
Layers = Annotated[int, Field(ge=1, le=1000)]


# The keys of `ModelConfig` that configure the parametrization.
_GROWTH = ("parametrization", "base", "gain_rate", "embedding_rate")


class BaseShape(Section):
    """The size of the base network; mup scales learning rates and initial weights relative to this size."""

    d_model: Width = 128
    num_layers: Layers = 2


class ModelConfig(Section):
    """The settings of the network; for each kind of network, a file in conf/model describes keys, units and values."""

    family: str
    shape: str
    num_layers: Layers
    d_model: Width
    dropout: Fraction
    embedding_dropout: Fraction | None
    parametrization: Literal["standard", "mup"]
    # The next settings have an effect only with mup. Without mup, `_has_a_base` allows only these defaults, which
    # conf/model repeats.
    base: BaseShape = BaseShape()
    gain_rate: Annotated[float, Field(gt=0, le=1000)] = 4.0
    embedding_rate: Annotated[float, Field(gt=0, le=1000)] | None = None

    def at_base(self) -> Self:
        """Return this configuration with the widths of the base network, and with the standard parametrization.

        The number of layers does not change.
        """
        own = self.model_dump(exclude=set(_GROWTH))
        return self.model_validate(own | {"parametrization": "standard"} | self.base.model_dump(exclude={"num_layers"}))

    @model_validator(mode="after")
    def _has_a_base(self) -> Self:
        if self.parametrization == "standard":
            fields = type(self).model_fields
            given = [f"model.{key}" for key in _GROWTH[1:] if getattr(self, key) != fields[key].default]
            if given:
                raise refuse(
                    "has no effect with model.parametrization=standard; leave it out, or choose "
                    "model.parametrization=mup",
                    *given,
                    "model.parametrization",
                )
            return self
        try:
            self.at_base()
        except ValidationError as error:
            widths = self.base.model_dump(exclude={"num_layers"})
            raise refuse(
                f"must describe a valid base network, given {widths}: {error.errors()[0]['msg']}",
                *(f"model.base.{key}" for key in widths),
            ) from error
        return self


class Encoder(ModelConfig):
    """The settings of a network that encodes a whole sequence, for classification and tagging."""

    shape: Literal["encoder"]
    pooling: Literal["mean", "first", "max"]


class Writing(ModelConfig):
    """The settings of a network that predicts tokens."""

    tied_embeddings: bool
    head_scale: Annotated[float, Field(gt=0, le=1000)]


class Decoder(Writing):
    """The settings of a network that predicts each next token, for language modelling."""

    shape: Literal["decoder"]


class EncoderDecoder(Writing):
    """The settings of a network that turns one sequence into another, for example in translation."""

    shape: Literal["encoder_decoder"]
    num_decoder_layers: Layers | None

    @property
    def decoder_layers(self) -> int:
        """The number of layers of the decoder."""
        return self.num_decoder_layers or self.num_layers
