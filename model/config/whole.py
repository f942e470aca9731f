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
from model.config.metrics import MetricsConfig
from model.config.networks.convolutional import (
    ConvolutionalDecoder,
    ConvolutionalEncoder,
    ConvolutionalEncoderDecoder,
)
from model.config.networks.network import Encoder, ModelConfig
from model.config.networks.recurrent import RecurrentDecoder, RecurrentEncoder, RecurrentEncoderDecoder
from model.config.networks.transformer import TransformerDecoder, TransformerEncoder, TransformerEncoderDecoder
from model.config.pairs import GeneratedConfig, TranslationConfig
from model.config.section import Section, refuse
from model.config.training import MUP_OPTIMIZERS, TrainingConfig

FAMILIES: dict[str, dict[str, type[ModelConfig]]] = {
    "transformer": {
        "encoder": TransformerEncoder,
        "decoder": TransformerDecoder,
        "encoder_decoder": TransformerEncoderDecoder,
    },
    "recurrent": {
        "encoder": RecurrentEncoder,
        "decoder": RecurrentDecoder,
        "encoder_decoder": RecurrentEncoderDecoder,
    },
    "convolutional": {
        "encoder": ConvolutionalEncoder,
        "decoder": ConvolutionalDecoder,
        "encoder_decoder": ConvolutionalEncoderDecoder,
    },
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


class UnknownNetwork(ModelConfig):
    """A placeholder for a model of unknown family or shape.

    Validation refuses the placeholder, and the error names the wrong key and the allowed values.
    """

    model_config = ConfigDict(extra="allow")
    family: Literal["transformer", "recurrent", "convolutional"]
    shape: Literal["encoder", "decoder", "encoder_decoder"]
    base: Any = None


class UnknownData(DataConfig):
    """A placeholder for data with an unknown name.

    Validation refuses the placeholder, and the error names the wrong key and the allowed values.
    """

    model_config = ConfigDict(extra="allow")
    name: Literal["digits", "text_classification", "tagging", "language_modelling", "translation", "generated"]


Model = TypeVar("Model", bound=ModelConfig)
Data = TypeVar("Data", bound=DataConfig)


class Config(Section, Generic[Model, Data]):
    """The complete configuration of one training."""

    model: Model
    data: Data
    training: TrainingConfig
    metrics: MetricsConfig = MetricsConfig()

    @model_validator(mode="after")
    def _shape_fits_data(self) -> Self:
        needed = SHAPE_OF_DATA[self.data.name]
        if self.model.shape != needed:
            raise refuse(
                f"must be {needed} with data={self.data.name}, given {self.model.shape}; choose model={needed}, or a "
                f"network of another family, such as model=recurrent_{needed}",
                "model.shape",
                "data.name",
            )
        if self.model.parametrization == "mup" and (self.training.optimizer not in MUP_OPTIMIZERS or self.training.l1):
            raise refuse(
                f"must be 'standard' with training.optimizer={self.training.optimizer} and "
                f"training.l1={self.training.l1}; mup needs training.l1=0, and one of the optimizers "
                f"{', '.join(MUP_OPTIMIZERS)}",
                "model.parametrization",
                "training.optimizer",
                "training.l1",
            )
        if self.training.activation_checkpointing and self.model.family != "transformer":
            raise refuse(
                f"has no effect with model.family={self.model.family}; set training.activation_checkpointing to false",
                "training.activation_checkpointing",
                "model.family",
            )
        if self.training.batching == "packed" and self.model.family != "transformer":
            raise refuse(
                f"must be 'shuffled' or 'by_length' with model.family={self.model.family}, because packed batches "
                "need a Transformer's attention",
                "training.batching",
                "model.family",
            )
        if self.training.batching == "packed" and self.data.name in ("digits", "language_modelling"):
            raise refuse(
                f"must not be 'packed' with data={self.data.name}, because almost no batch of this data needs "
                "padding; choose 'shuffled'",
                "training.batching",
                "data.name",
            )
        if self.training.compile and isinstance(self.model, RecurrentEncoderDecoder) and self.model.goes_token_by_token:
            raise refuse(
                "must be false with a token-by-token decoder, which torch would recompile for every length; set "
                "training.compile to false, or choose model.attend=after and model.input_feeding=false",
                "training.compile",
                "model.attend",
                "model.input_feeding",
            )
        if isinstance(self.model, Encoder) and self.model.pooling != "mean" and self.data.name == "tagging":
            raise refuse(
                "must be 'mean' with data=tagging, because a tagger labels every word and does not use pooling",
                "model.pooling",
                "data.name",
            )
        return self

    @model_validator(mode="after")
    def _metrics_have_an_effect(self) -> Self:
        given = [
            f"metrics.{key}"
            for key in MetricsConfig.model_fields
            if getattr(self.metrics, key) != getattr(MetricsConfig(), key)
        ]
        if given and self.data.name != "translation":
            raise refuse("has an effect only with data=translation; leave it out", *given, "data.name")
        return self


def parse(config: dict[str, Any], *, source_required: bool = False) -> Config[Any, Any]:
    """Check the keys `model`, `data`, `training` and optionally `metrics` of a dict, and return the configuration.

    Other keys are ignored. With `source_required`, the configuration must name the files of the data.

    Raises:
        pydantic.ValidationError: the configuration is not valid. The `loc` of an error begins with the full key. An
            error of the type `cross_field` (a violated rule) instead lists the full keys in `ctx["keys"]`.
    """
    family = FAMILIES.get(_name(config, "model", "family"), {})
    shape = family.get(_name(config, "model", "shape"), UnknownNetwork)
    data = DATA.get(_name(config, "data", "name"), UnknownData)
    known = {key: config[key] for key in Config.model_fields if key in config}
    context = {"source_required": source_required}
    config_type = Config[shape, data]  # type: ignore[valid-type]  # pydantic makes this class at run time
    return config_type.model_validate(known, context=context)


def _name(config: dict[str, Any], group: str, key: str) -> str:
    section = config.get(group)
    return str(section.get(key, "")) if isinstance(section, dict) else ""
