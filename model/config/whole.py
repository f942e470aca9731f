"""The complete configuration of one training, parsed from a plain dict."""

from typing import Any, Generic, Literal, Self, TypeVar

from pydantic import ConfigDict, model_validator

from model.config.data import (
    DataConfig,
    DigitsConfig,
    LanguageModellingConfig,
    TaggingConfig,
    TextClassificationConfig,
)
from model.config.network import DecoderConfig, EncoderConfig, EncoderDecoderConfig, ModelConfig
from model.config.pairs import GeneratedConfig, TranslationConfig
from model.config.section import Section, refuse
from model.config.training import TrainingConfig

SHAPES: dict[str, type[ModelConfig]] = {
    "encoder": EncoderConfig,
    "decoder": DecoderConfig,
    "encoder_decoder": EncoderDecoderConfig,
}
DATA: dict[str, type[DataConfig]] = {
    "digits": DigitsConfig,
    "text_classification": TextClassificationConfig,
    "tagging": TaggingConfig,
    "language_modelling": LanguageModellingConfig,
    "translation": TranslationConfig,
    "generated": GeneratedConfig,
}
SHAPE_OF_DATA = {
    "digits": "encoder",
    "text_classification": "encoder",
    "tagging": "encoder",
    "language_modelling": "decoder",
    "translation": "encoder_decoder",
    "generated": "encoder_decoder",
}


class UnknownShape(ModelConfig):
    """A placeholder for an unknown model.shape, so that the error names that key and the choices."""

    model_config = ConfigDict(extra="allow")
    shape: Literal["encoder", "decoder", "encoder_decoder"]


class UnknownData(DataConfig):
    """A placeholder for an unknown data.name, so that the error names that key and the choices."""

    model_config = ConfigDict(extra="allow")
    name: Literal["digits", "text_classification", "tagging", "language_modelling", "translation", "generated"]


Model = TypeVar("Model", bound=ModelConfig)
Data = TypeVar("Data", bound=DataConfig)


class Config(Section, Generic[Model, Data]):
    """The complete configuration of one training."""

    model: Model
    data: Data
    training: TrainingConfig

    @model_validator(mode="after")
    def _shape_fits_data(self) -> Self:
        needed = SHAPE_OF_DATA[self.data.name]
        if self.model.shape != needed:
            raise refuse(
                f"data={self.data.name} needs a network of another shape: choose model={needed}, "
                f"given model.shape={self.model.shape}",
                "model.shape",
                "data.name",
            )
        return self


def parse(config: dict[str, Any], *, source_required: bool = False) -> Config[Any, Any]:
    """Return the configuration as frozen, checked values.

    Args:
        config: a plain dict with `model`, `data` and `training`; other keys are ignored.
        source_required: whether data from files must say which files (false in a worker).

    Raises:
        pydantic.ValidationError: each error's `loc` is the full key; rules between keys carry `ctx["keys"]`.
    """
    shape = SHAPES.get(_name(config, "model", "shape"), UnknownShape)
    data = DATA.get(_name(config, "data", "name"), UnknownData)
    known = {key: config[key] for key in ("model", "data", "training") if key in config}
    context = {"source_required": source_required}
    # pydantic makes the class at run time from these two; a type checker knows only classes in the source.
    return Config[shape, data].model_validate(known, context=context)  # type: ignore[valid-type]


def _name(config: dict[str, Any], group: str, key: str) -> str:
    section = config.get(group)
    return str(section.get(key)) if isinstance(section, dict) else ""
