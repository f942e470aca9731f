"""The configuration of the network, its data and its training: every rule, and no values (those stand in conf/)."""

from typing import Annotated, Any, ClassVar, Generic, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, model_validator
from pydantic_core import PydanticCustomError

Fraction = Annotated[float, Field(ge=0, lt=1)]
Width = Annotated[int, Field(ge=1, le=65_536)]
Column = Annotated[str, Field(min_length=1)] | Annotated[int, Field(ge=0)]
Path = Annotated[str, Field(min_length=1)]

MOMENTUM_OPTIMIZERS = ("sgd", "rmsprop")


def refuse(message: str, *keys: str) -> PydanticCustomError:
    """The error of a rule between several keys; `keys` are their full dotted names."""
    return PydanticCustomError("cross_field", "{message}", {"message": message, "keys": list(keys)})


class Section(BaseModel):
    """A part of the configuration: frozen, exact types, no unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


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
    """Reads a sequence in both directions: classification, tagging."""

    shape: Literal["encoder"]


class DecoderConfig(ModelConfig):
    """Predicts each next token: language modelling."""

    shape: Literal["decoder"]
    tied_embeddings: bool


class EncoderDecoderConfig(ModelConfig):
    """Turns one sequence into another: translation and the like."""

    shape: Literal["encoder_decoder"]
    num_decoder_layers: Annotated[int, Field(ge=1, le=1000)] | None
    tied_embeddings: bool


class DataConfig(Section):
    """What all data have in common. A worker gets the paths as null: it cannot reach the source."""

    name: str
    path: Path | None = None
    train: Path | None = None
    validation: Path | None = None
    test: Path | None = None


class DigitsConfig(DataConfig):
    """scikit-learn's handwritten digits; reads no file of the user's."""

    name: Literal["digits"]
    path: None = None
    train: None = None
    validation: None = None
    test: None = None


class FilesConfig(DataConfig):
    """Data in files of the user's: one file, or separate files per part."""

    @model_validator(mode="after")
    def _source_is_given(self, info: ValidationInfo) -> Self:
        if not (info.context or {}).get("source_required"):
            return self
        parts = [self.train, self.validation, self.test]
        if self.path is None and not any(parts):
            raise refuse("no data given: set data.path, or data.train with data.validation or data.test", "data.path")
        if self.path is not None and any(parts):
            raise refuse(
                "one file or separate files, not both: leave out data.path, or data.train and its siblings",
                "data.path",
            )
        if self.path is None and self.train is None:
            raise refuse("must be given when data.validation or data.test is", "data.train")
        if self.path is None and not (self.validation or self.test):
            raise refuse(
                "one file alone is data.path; with data.train also give data.validation or data.test", "data.train"
            )
        return self


class TextClassificationConfig(FilesConfig):
    """One text and one label per example, from CSV, TSV or JSON lines."""

    name: Literal["text_classification"]
    format: Literal["auto", "csv", "tsv", "jsonl"]
    header: Literal["auto", "yes", "no"]
    text_column: Column | None
    label_column: Column | None
    tokens: Literal["words", "characters"]
    lowercase: bool
    min_count: Annotated[int, Field(ge=1)]
    max_size: Annotated[int, Field(ge=1)] | None
    max_length: Annotated[int, Field(ge=1, le=1_000_000)]


class LanguageModellingConfig(FilesConfig):
    """Running text, from plain text files."""

    name: Literal["language_modelling"]
    tokens: Literal["words", "characters"]
    lowercase: bool
    min_count: Annotated[int, Field(ge=1)]
    max_size: Annotated[int, Field(ge=1)] | None
    context: Annotated[int, Field(ge=1, le=1_000_000)]
    validation_fraction: Annotated[float, Field(gt=0, lt=1)]
    test_fraction: Fraction

    @model_validator(mode="after")
    def _training_text_is_left(self) -> Self:
        if self.validation_fraction + self.test_fraction >= 1:
            raise refuse(
                f"must leave a training part: given {self.validation_fraction} and {self.test_fraction}, "
                "their sum must be below 1",
                "data.validation_fraction",
                "data.test_fraction",
            )
        return self


class TrainingConfig(Section):
    """The training. Keys, units and allowed values are explained in conf/training/default.yaml."""

    device: Literal["auto", "cpu", "cuda"]
    epochs: Annotated[int, Field(ge=1, le=1_000_000)]
    max_steps: Annotated[int, Field(ge=1)] | None
    batch_size: Annotated[int, Field(ge=1, le=1_000_000)]
    batching: Literal["shuffled", "by_length"]
    batch_tokens: Annotated[int, Field(ge=1)] | None
    accumulation: Annotated[int, Field(ge=1, le=1_000_000)]
    optimizer: Literal["sgd", "adam", "adamw", "adagrad", "rmsprop", "muon"]
    lr: Annotated[float, Field(gt=0, le=1000)]
    schedule: Literal["constant", "linear", "cosine", "inverse_sqrt", "plateau"]
    warmup_fraction: Fraction
    final_lr_fraction: Annotated[float, Field(ge=0, le=1)]
    plateau_factor: Annotated[float, Field(gt=0, lt=1)]
    plateau_patience: Annotated[int, Field(ge=1)]
    momentum: Fraction | None
    nesterov: bool
    beta1: Fraction
    beta2: Fraction
    epsilon: Annotated[float, Field(gt=0, le=1)]
    weight_decay: Annotated[float, Field(ge=0, le=100)]
    decay_biases_and_norms: bool
    l1: Annotated[float, Field(ge=0, le=100)]
    clip_norm: Annotated[float, Field(gt=0)] | None
    label_smoothing: Fraction
    patience: Annotated[int, Field(ge=1)] | None
    min_gain: Annotated[float, Field(ge=0)]
    evaluate_every_steps: Annotated[int, Field(ge=1)] | None
    precision: Literal["float32", "bfloat16", "float16"]
    compile: bool

    @model_validator(mode="after")
    def _settings_have_an_effect(self) -> Self:
        if self.momentum is not None and self.optimizer not in MOMENTUM_OPTIMIZERS:
            raise refuse(
                f"has no effect with training.optimizer={self.optimizer}: must be null, or choose one of "
                f"{', '.join(MOMENTUM_OPTIMIZERS)}",
                "training.momentum",
                "training.optimizer",
            )
        if self.nesterov and (self.optimizer != "sgd" or not self.momentum):
            raise refuse(
                "must be false unless training.optimizer=sgd and training.momentum is above 0",
                "training.nesterov",
                "training.momentum",
            )
        if self.batch_tokens is not None and self.batching != "by_length":
            raise refuse(
                f"has no effect with training.batching={self.batching}: must be null, or choose by_length",
                "training.batch_tokens",
                "training.batching",
            )
        if self.precision == "float16" and self.device == "cpu":
            raise refuse(
                "float16 needs a GPU: choose float32 or bfloat16, or training.device=cuda",
                "training.precision",
                "training.device",
            )
        return self


class TaggingConfig(FilesConfig):
    """One tag per word, from column files."""

    name: Literal["tagging"]
    word_column: Annotated[int, Field(ge=0)]
    tag_column: Annotated[int, Field(ge=0)]
    lowercase: bool
    min_count: Annotated[int, Field(ge=1)]
    max_size: Annotated[int, Field(ge=1)] | None
    ending_length: Annotated[int, Field(ge=0, le=100)]
    max_length: Annotated[int, Field(ge=1, le=1_000_000)]


class SearchedTargets(Section):
    """How a target is searched when a network decodes."""

    beam_size: Annotated[int, Field(ge=1, le=1000)]
    length_penalty: Annotated[float, Field(ge=0, le=10)]


class TranslationConfig(FilesConfig, SearchedTargets):
    """Pairs of sequences from tables or aligned files."""

    name: Literal["translation"]
    format: Literal["auto", "csv", "tsv", "jsonl", "aligned"]
    source_ending: Path | None
    target_ending: Path | None
    header: Literal["auto", "yes", "no"]
    source_column: Column | None
    target_column: Column | None
    tokens: Literal["words", "characters", "blanks", "subwords"]
    target_tokens: Literal["words", "characters", "blanks", "subwords"] | None
    shared_vocabulary: bool
    lowercase: bool
    min_count: Annotated[int, Field(ge=1)]
    max_size: Annotated[int, Field(ge=1)] | None
    max_length: Annotated[int, Field(ge=1, le=1_000_000)]

    @model_validator(mode="after")
    def _settings_fit(self) -> Self:
        endings = (self.source_ending, self.target_ending)
        if (self.format == "aligned") != all(endings) or (self.format != "aligned" and any(endings)):
            raise refuse(
                f"must both be given with data.format=aligned and null otherwise, given format {self.format}",
                "data.source_ending",
                "data.target_ending",
                "data.format",
            )
        if self.max_size is None and "subwords" in (self.tokens, self.target_tokens):
            raise refuse("must be given with subwords", "data.max_size", "data.tokens")
        if self.shared_vocabulary and self.target_tokens not in (None, self.tokens):
            raise refuse(
                "one vocabulary for both sides needs the same tokens: leave target_tokens null",
                "data.shared_vocabulary",
                "data.target_tokens",
            )
        return self


class GeneratedConfig(DataConfig, SearchedTargets):
    """Pairs of sequences of numbers, drawn from a seed."""

    name: Literal["generated"]
    path: None = None
    train: None = None
    validation: None = None
    test: None = None
    task: Literal["reverse", "copy", "sort", "modular_addition"]
    num_examples: Annotated[int, Field(ge=1, le=100_000_000)]
    num_symbols: Annotated[int, Field(ge=2, le=1_000_000)]
    min_length: Annotated[int, Field(ge=1)]
    max_length: Annotated[int, Field(ge=1, le=100_000)]
    seed: Annotated[int, Field(ge=0)]

    @model_validator(mode="after")
    def _lengths_rise(self) -> Self:
        if self.min_length > self.max_length:
            raise refuse(
                f"must not be above max_length, given {self.min_length} and {self.max_length}",
                "data.min_length",
                "data.max_length",
            )
        return self

    # What SequenceToSequence asks of every pair of sequences; here there is nothing to choose.
    tokens: ClassVar[str] = "blanks"
    target_tokens: ClassVar[None] = None
    shared_vocabulary: ClassVar[bool] = True
    lowercase: ClassVar[bool] = False
    min_count: ClassVar[int] = 1
    max_size: ClassVar[None] = None


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
    """Stands in when model.shape is none of the known ones, so that the error names that key and the choices."""

    model_config = ConfigDict(extra="allow")
    shape: Literal["encoder", "decoder", "encoder_decoder"]


class UnknownData(DataConfig):
    """Stands in when data.name is none of the known names, so that the error names that key and the choices."""

    model_config = ConfigDict(extra="allow")
    name: Literal["digits", "text_classification", "tagging", "language_modelling", "translation", "generated"]


Model = TypeVar("Model", bound=ModelConfig)
Data = TypeVar("Data", bound=DataConfig)


class Config(Section, Generic[Model, Data]):
    """The whole configuration of one training."""

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
    """The configuration as frozen, checked values.

    Args:
        config: a plain dict with `model`, `data` and `training`; other keys are not looked at.
        source_required: whether data from files must say which files (false in a worker).

    Raises:
        pydantic.ValidationError: each error's `loc` is the full key; rules between keys carry `ctx["keys"]`.
    """
    shape = SHAPES.get(_name(config, "model", "shape"), UnknownShape)
    data = DATA.get(_name(config, "data", "name"), UnknownData)
    known = {key: config[key] for key in ("model", "data", "training") if key in config}
    context = {"source_required": source_required}
    return Config[shape, data].model_validate(known, context=context)  # type: ignore[valid-type]


def _name(config: dict[str, Any], group: str, key: str) -> str:
    section = config.get(group)
    return str(section.get(key)) if isinstance(section, dict) else ""
