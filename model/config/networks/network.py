"""What the configurations of all families share, and what each shape adds."""

from typing import Annotated, Literal, Self

from pydantic import Field, ValidationError, model_validator

from model.config.section import Fraction, Section, refuse

Width = Annotated[int, Field(ge=1, le=65_536)]
Layers = Annotated[int, Field(ge=1, le=1000)]


# What says how a network grows with its size.
_GROWTH = ("parametrization", "base", "gain_rate", "embedding_rate")


class BaseShape(Section):
    """The shape at which a network of the maximal update parametrization is as without it."""

    d_model: Width = 128
    num_layers: Layers = 2


class ModelConfig(Section):
    """The network. Keys, units and allowed values are explained in conf/model, in a file for each family and shape."""

    family: str
    shape: str
    num_layers: Layers
    d_model: Width
    dropout: Fraction
    embedding_dropout: Fraction | None
    parametrization: Literal["standard", "mup"]
    # Without mup these have no effect: a rule refuses all but the defaults, which conf/model repeats.
    base: BaseShape = BaseShape()
    gain_rate: Annotated[float, Field(gt=0, le=1000)] = 4.0
    embedding_rate: Annotated[float, Field(gt=0, le=1000)] | None = None

    def at_base(self) -> Self:
        """Return the configuration at the widths of the base, with as many layers as it has."""
        own = self.model_dump(exclude=set(_GROWTH))
        return self.model_validate(own | {"parametrization": "standard"} | self.base.model_dump(exclude={"num_layers"}))

    @model_validator(mode="after")
    def _has_a_base(self) -> Self:
        if self.parametrization == "standard":
            fields = type(self).model_fields
            given = [f"model.{key}" for key in _GROWTH[1:] if getattr(self, key) != fields[key].default]
            if given:
                raise refuse(
                    "has no effect with model.parametrization=standard: must be left out, or choose mup",
                    *given,
                    "model.parametrization",
                )
            return self
        try:
            self.at_base()
        except ValidationError as error:
            widths = self.base.model_dump(exclude={"num_layers"})
            raise refuse(
                f"there must be such a network at the base, {widths}: {error.errors()[0]['msg']}",
                *(f"model.base.{key}" for key in widths),
            ) from error
        return self


class Encoder(ModelConfig):
    """A network that reads a whole sequence: classification, tagging."""

    shape: Literal["encoder"]
    pooling: Literal["mean", "first", "max"]


class Writing(ModelConfig):
    """A network that predicts tokens."""

    tied_embeddings: bool
    head_scale: Annotated[float, Field(gt=0, le=1000)]


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
