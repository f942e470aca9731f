"""The configuration of the training: keys and rules; the values are in conf/training."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from model.config.section import Fraction, Section, refuse

MOMENTUM_OPTIMIZERS = ("sgd", "rmsprop", "muon")

MUP_OPTIMIZERS = ("adamw", "muon")

GPU_PRECISIONS = ("tf32", "float16")

# The default share of steps in which schedule=wsd lowers the learning rate. With a fifth of the steps, the result is as
# good as with a cosine over all steps: Hägele et al. 2024, "Scaling laws and compute-optimal training beyond fixed
# training durations", section 3.
DECAY = 0.2

# The settings that may change between a training and its continuation: its length, and how often its state is saved.
OF_LENGTH = ("epochs", "max_steps", "patience", "save_minutes")


class TrainingConfig(Section):
    """The settings of the training; conf/training/default.yaml describes keys, units and allowed values."""

    device: Literal["auto", "cpu", "cuda"]
    epochs: Annotated[int, Field(ge=1, le=1_000_000)]
    max_steps: Annotated[int, Field(ge=1)] | None
    batch_size: Annotated[int, Field(ge=1, le=1_000_000)]
    batching: Literal["shuffled", "by_length", "packed"]
    batch_tokens: Annotated[int, Field(ge=1)] | None
    accumulation: Annotated[int, Field(ge=1, le=1_000_000)]
    optimizer: Literal["sgd", "adam", "adamw", "adagrad", "rmsprop", "muon"]
    lr: Annotated[float, Field(gt=0)]
    schedule: Literal["constant", "linear", "cosine", "inverse_sqrt", "wsd", "plateau"]
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
    precision: Literal["auto", "float32", "tf32", "bfloat16", "float16"]
    compile: bool
    decay_fraction: Annotated[float, Field(gt=0, le=1)] | None
    z_loss: Annotated[float, Field(ge=0, le=1)]
    ema: Annotated[float, Field(gt=0, lt=1)] | None
    ema_warmup: bool
    activation_checkpointing: bool
    deterministic: bool
    evaluation_tokens: Annotated[int, Field(ge=1)]
    save_minutes: Annotated[float, Field(gt=0, le=1_000_000)]
    cost_length: Annotated[int, Field(ge=1, le=1_000_000)]
    cost_spread: Annotated[float, Field(ge=0, le=10)]
    cost_vocabulary: Annotated[int, Field(ge=0, le=10_000_000)]
    cost_number: Annotated[float, Field(ge=0)]
    cost_step: Annotated[float, Field(ge=0)]

    @model_validator(mode="after")
    def _settings_have_an_effect(self) -> Self:
        if self.momentum is not None and self.optimizer not in MOMENTUM_OPTIMIZERS:
            raise refuse(
                f"has no effect with training.optimizer={self.optimizer}; set training.momentum to null, or choose "
                f"one of the optimizers {', '.join(MOMENTUM_OPTIMIZERS)}",
                "training.momentum",
                "training.optimizer",
            )
        if self.nesterov and (self.optimizer != "sgd" or not self.momentum):
            raise refuse(
                "must be false, because Nesterov momentum needs training.optimizer=sgd and training.momentum above 0",
                "training.nesterov",
                "training.momentum",
            )
        if self.decay_fraction is not None and self.schedule != "wsd":
            raise refuse(
                f"has no effect with training.schedule={self.schedule}; set training.decay_fraction to null, or "
                "choose training.schedule=wsd",
                "training.decay_fraction",
                "training.schedule",
            )
        if self.schedule == "wsd" and self.warmup_fraction + self.decay > 1:
            raise refuse(
                "training.warmup_fraction + training.decay_fraction must be at most 1 with training.schedule=wsd, "
                f"given {self.warmup_fraction} + {self.decay}; lower one of the two settings "
                f"(training.decay_fraction=null means {DECAY})",
                "training.warmup_fraction",
                "training.decay_fraction",
            )
        if self.batch_tokens is not None and self.batching != "by_length":
            raise refuse(
                f"has no effect with training.batching={self.batching}; set training.batch_tokens to null, or "
                "choose training.batching=by_length",
                "training.batch_tokens",
                "training.batching",
            )
        if self.precision in GPU_PRECISIONS and self.device == "cpu":
            raise refuse(
                f"{self.precision} needs a GPU; choose auto, float32 or bfloat16, or set training.device=cuda",
                "training.precision",
                "training.device",
            )
        if self.deterministic and self.device == "cpu":
            raise refuse(
                "has no effect on a CPU, which is always deterministic; set training.deterministic to false, or choose "
                "another device",
                "training.deterministic",
                "training.device",
            )
        return self

    @property
    def decay(self) -> float:
        """The share of all steps in which schedule=wsd lowers the learning rate."""
        return DECAY if self.decay_fraction is None else self.decay_fraction
