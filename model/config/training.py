"""The configuration of the training: every rule, and no values (they are in conf/training)."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from model.config.section import Fraction, Section, refuse

MOMENTUM_OPTIMIZERS = ("sgd", "rmsprop")

# How long a training goes on: a state is continued although these differ.
OF_LENGTH = ("epochs", "max_steps", "patience")


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
    lr: Annotated[float, Field(gt=0)]
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
    # These three have defaults, unlike all others, because configurations frozen before they existed lack them.
    cost_length: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    cost_number: Annotated[float, Field(ge=0)] | None = None
    cost_step: Annotated[float, Field(ge=0)] | None = None

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
