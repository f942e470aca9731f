"""A Hugging Face Trainer under a search: its learning curve, its checkpoints to go on from, its best model kept."""

import dataclasses
import functools
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from hpo.errors import ConfigError, nearest
from hpo.integrations.trainer_again import SearchedValues, make_again, own_arguments, own_state, parts_of
from hpo.workers.objective.objective import objective
from hpo.workers.objective.plain_function import RunningTrial

try:
    import torch
    from transformers import (
        PreTrainedModel,
        Trainer,
        TrainerCallback,
        TrainerControl,
        TrainerState,
        TrainingArguments,
        set_seed,
    )
    from transformers.trainer_callback import PrinterCallback, ProgressCallback
    from transformers.trainer_utils import number_of_arguments
except ImportError as error:
    raise ImportError(f"{error}; install it with: python -m pip install transformers accelerate peft") from error

# What transformers adds to the names of an evaluation's metrics.
_PREFIX = "eval_"


def training_arguments(trial: RunningTrial, **values: Any) -> TrainingArguments:
    """Return the arguments of this trial's training, and seed all generators, for the model that is made next.

    Args:
        trial: decides the seed.
        values: any of TrainingArguments, such as a configuration's; without others there is an evaluation an epoch,
            and nothing is shown or reported elsewhere.
    """
    seed = trial.seed % 2**32
    set_seed(seed)
    defaults = {"seed": seed, "eval_strategy": "epoch", "save_strategy": "no", "report_to": "none", **values}
    # The folder is there already, and nothing is written to it: `train` gives each training one of its own.
    return TrainingArguments(output_dir=tempfile.gettempdir(), **defaults)


def train(
    trainer: Trainer, trial: RunningTrial, compute_objective: Callable[[dict[str, float]], Any] | None = None
) -> dict[str, float]:
    """Train, report each evaluation, and return the metrics of the last, or of the best if that is loaded at the end.

    Evaluations are the points of the learning curve, counted from 1; with the usual `eval_strategy="epoch"` they are
    epochs. What counts is what `evaluate` returns; of several evaluation sets all metrics are one point, by the names
    of their sets, such as `a_f1`. Where the study keeps states, each is saved before it is reported, and a training
    goes on from the last. The model is kept, as a folder that `from_pretrained` reads, where the study keeps one. A
    training without a validation part, as of the final model, trains all epochs.

    Args:
        trainer: with its model and data; the folder of its arguments is set here.
        trial: the trial, as the objective gets it.
        compute_objective: as of `objective_of`.

    Returns:
        Metrics without their `eval_`: loss, runtime, and those of `compute_metrics`.
    """
    torch.set_num_threads(trial.threads)
    with ExitStack() as stack:
        folder = trial.resume_dir or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        trainer.args.output_dir = str(folder)
        if trial.resume_dir is not None:
            # Two, since one that is the best of its training is kept besides the last.
            trainer.args.save_total_limit = 2
        if trial.validation is not None and not len(trial.validation):
            trainer.args.eval_strategy = trainer.args.save_strategy = "no"
            trainer.args.load_best_model_at_end = False
        for shows in (PrinterCallback, ProgressCallback):
            trainer.remove_callback(shows)
        _refuse_short(trainer.args, trial)
        last, state = _last_checkpoint(folder)
        if trial.amount is not None and state is not None and len(_evaluations(state)) >= trial.amount:
            # It was saved, and the search does not know it yet: no step is left.
            trainer.args.max_steps = state.global_step
        callback = TrialCallback(trial, last)
        trainer.add_callback(callback)
        with _evaluations_told(trainer, callback, _scored_by(compute_objective, trial)):
            trainer.train(resume_from_checkpoint=last)
        if trainer.args.load_best_model_at_end and trainer.state.best_model_checkpoint:
            _reload(trainer.model, trainer.state.best_model_checkpoint)
        if trial.checkpoint_dir is not None:
            trainer.save_model(str(trial.checkpoint_dir))
    evaluations = _evaluations(trainer.state)
    best = trainer.state.best_global_step if trainer.args.load_best_model_at_end else None
    chosen = [metrics for step, metrics in evaluations if step == best] or [metrics for _, metrics in evaluations]
    return chosen[-1] if chosen else {}


@contextmanager
def _evaluations_told(
    trainer: Trainer, callback: "TrialCallback", scored: Callable[[dict[str, float]], dict[str, float]]
) -> Iterator[None]:
    """Let the callback have what `evaluate` returns while the trainer trains; with several sets it calls itself.

    `scored` adds the values of the study's metrics.
    """
    evaluate, depth = trainer.evaluate, 0

    @functools.wraps(evaluate)
    def evaluate_and_tell(*args: Any, **kwargs: Any) -> dict[str, float]:
        nonlocal depth
        depth += 1
        try:
            metrics: dict[str, float] = evaluate(*args, **kwargs)
        finally:
            depth -= 1
        if depth == 0 and trainer.is_in_train:
            metrics = scored(metrics)
            callback.evaluated(trainer.state, trainer.control, metrics)
        return metrics

    trainer.evaluate = evaluate_and_tell
    try:
        yield
    finally:
        del trainer.evaluate


def _scored_by(
    compute_objective: Callable[[dict[str, float]], Any] | None, trial: RunningTrial
) -> Callable[[dict[str, float]], dict[str, float]]:
    """Return what adds the values of a formula to the metrics of an evaluation, by the names of the study's metrics."""

    def scored(metrics: dict[str, float]) -> dict[str, float]:
        if compute_objective is None:
            return metrics
        # A copy, since Trainer's own default takes what it reads out of it.
        given, names = compute_objective(dict(metrics)), [f"{_PREFIX}{name}" for name in trial.metrics]
        values = list(given) if isinstance(given, list | tuple) else [given]
        if len(values) != len(names):
            raise ValueError(
                f"compute_objective: must return a value for each of the study's metrics, {', '.join(trial.metrics)}, "
                f"given {given!r}"
            )
        if known := [name for name in names if name in metrics]:
            raise ValueError(
                f"compute_objective: {known[0].removeprefix(_PREFIX)} is the name of a metric of the evaluation, too; "
                f"give the study's metric another name, such as metric='score'"
            )
        return metrics | dict(zip(names, map(float, values), strict=True))

    return scored


class TrialCallback(TrainerCallback):  # type: ignore[misc]  # transformers has no types
    """Report evaluations to the search, and end where it says; `train` adds it, last of all callbacks."""

    def __init__(self, trial: RunningTrial, checkpoint: str | None = None) -> None:
        self._trial, self._checkpoint = trial, checkpoint
        # How many points of the learning curve the search has.
        self._num_reported = trial.trained

    def on_train_begin(self, _: TrainingArguments, state: TrainerState, control: TrainerControl, **has: Any) -> None:
        """Report what a training that was interrupted had saved."""
        if self._checkpoint is not None:
            _reload(has["model"], self._checkpoint)
        self._report(state, control)

    def evaluated(self, state: TrainerState, control: TrainerControl, metrics: Mapping[str, float]) -> None:
        """Take what `evaluate` has returned: report it, or have the state saved first."""
        state.log_history.append({"step": state.global_step, **metrics})
        control.should_save = control.should_save or self._trial.resume_dir is not None
        if not control.should_save:
            self._report(state, control)

    def on_save(self, _: TrainingArguments, state: TrainerState, control: TrainerControl, **__: Any) -> None:
        """Report what is saved now."""
        self._report(state, control)

    def on_epoch_end(self, args: TrainingArguments, _: TrainerState, control: TrainerControl, **__: Any) -> None:
        """Save the state of a training that is not evaluated."""
        if args.eval_strategy == "no":
            control.should_save = self._trial.resume_dir is not None

    def _report(self, state: TrainerState, control: TrainerControl) -> None:
        evaluations = _evaluations(state)
        amount = self._trial.amount
        is_far_enough = amount is not None and len(evaluations) >= amount
        control.should_training_stop = control.should_training_stop or is_far_enough
        goes_on = state.global_step < state.max_steps and not control.should_training_stop
        for number, (_, metrics) in enumerate(evaluations, 1):
            if number > self._num_reported:
                self._num_reported = number
                self._trial.report(metrics, epoch=number, more=goes_on or number < len(evaluations))


def objective_of(
    trainer: Trainer, compute_objective: Callable[[dict[str, float]], Any] | None = None
) -> Callable[..., Any]:
    """Return the objective that trains as this trainer does, for `hpo.search`, in place of `hyperparameter_search`.

    What is searched are its TrainingArguments, and what `model_init(trial)` reads (see `SearchedValues`). Its own
    arguments are the default configuration, which is tried first where the space has it. Every trial has a trainer of
    its own, with the state that the class has added to that of Trainer. The models of the best trials are kept, as
    folders that `from_pretrained` reads: `study.best.model_dir`, and as many as `study.checkpoints` says.

    Args:
        trainer: made with `model_init`.
        compute_objective: as of `hyperparameter_search`: from what `evaluate` returns (`eval_loss` and so on) the value
            of the study's metric, or several in the order of its metrics. Then these have names of their own.

    Raises:
        ConfigError: it has no `model_init`.

    Example:
        >>> space = {"learning_rate": hpo.log(1e-5, 1e-3), "num_train_epochs": [1, 2, 3]}
        >>> study = hpo.search(objective_of(trainer), space, metric="accuracy", direction="maximize", trials=20)
    """
    if trainer.model_init is None:
        raise ConfigError("trainer: has no model_init, and every trial needs a new model; give Trainer(model_init=...)")
    kind, given, described = type(trainer), trainer.args, trainer.args.to_dict()
    takes_trial = number_of_arguments(trainer.model_init) == 1
    model_init, parts, own = trainer.model_init, parts_of(trainer), own_state(trainer)
    constants = own_arguments(given)

    def check(config: Mapping[str, Any]) -> None:
        for key in config:
            if key not in described and not takes_trial:
                raise ConfigError(
                    f"space: '{key}' is no argument of {type(given).__name__}, and model_init takes no trial"
                    f"{nearest(key, described) or f'; write model_init(trial), and read trial[{key!r}] there'}"
                )

    def default_config(space: Mapping[str, Any]) -> dict[str, Any]:
        return constants | {key: described[key] for key in space if described.get(key) is not None}

    def arguments(config: Mapping[str, Any], **values: Any) -> TrainingArguments:
        shown = {"eval_strategy": "epoch"} if given.eval_strategy == "no" else {}
        changed = {key: value for key, value in config.items() if key in described and value != described[key]}
        return dataclasses.replace(given, **{**values, **shown, **changed})

    @objective(continues=True, reports_again=True, check=check, describe_length=lambda c: _length(arguments(c)))
    def train_again(config: Mapping[str, Any], trial: RunningTrial) -> dict[str, float]:
        args = arguments(config, seed=trial.seed % 2**32, report_to="none")
        values = SearchedValues(config)
        init = functools.partial(model_init, values) if takes_trial else model_init
        again = make_again(kind, args, init, parts, own)
        for key in values.data:
            if key not in described and key not in values.read and (meant := nearest(key, described)):
                kind_of_args = type(given).__name__
                raise ConfigError(f"{key}: is no argument of {kind_of_args} and model_init does not read it{meant}")
        return train(again, trial, compute_objective)

    train_again.default_config = default_config  # type: ignore[attr-defined]  # `hpo.search` looks for it
    return train_again


def _reload(model: Any, checkpoint: str) -> None:
    """Load weights as `from_pretrained` does.

    The Trainer itself leaves out, silently, what `save_pretrained` has renamed (huggingface/transformers#43701).
    """
    if isinstance(model, PreTrainedModel):
        model.load_state_dict(type(model).from_pretrained(checkpoint).state_dict())


def _last_checkpoint(folder: Path) -> tuple[str | None, TrainerState | None]:
    """Return the last one in the folder that is whole, and its state, which transformers writes last."""
    for checkpoint in sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name.split("-")[1]), reverse=True):
        try:
            return str(checkpoint), TrainerState.load_from_json(str(checkpoint / "trainer_state.json"))
        except (OSError, ValueError):
            pass  # Its writing was cut off; the one before is there.
    return None, None


def _evaluations(state: TrainerState) -> list[tuple[int, dict[str, float]]]:
    """Return the step and the metrics of each evaluation so far; of one step what was logged last counts."""
    evaluations = dict[int, dict[str, float]]()
    for entry in state.log_history:
        metrics = {name.removeprefix(_PREFIX): value for name, value in entry.items() if name.startswith(_PREFIX)}
        if metrics:
            evaluations.setdefault(entry["step"], {}).update(metrics)
    return list(evaluations.items())


def _length(args: TrainingArguments) -> float:
    """Return after how many evaluations training ends at the latest; infinite where the data decide."""
    length = math.inf
    if args.eval_strategy == "epoch":
        # Every epoch has a step at least.
        length = args.max_steps if args.max_steps > 0 else math.ceil(args.num_train_epochs)
    elif args.eval_strategy == "steps" and args.max_steps > 0:
        every = args.eval_steps or args.logging_steps
        length = args.max_steps / every if every >= 1 else 1 / every
    return length


def _refuse_short(args: TrainingArguments, trial: RunningTrial) -> None:
    """Raise ValueError for a training that ends before the largest amount: it would be taken for a full one."""
    if trial.max_amount is not None and (length := _length(args)) < trial.max_amount:
        ends = f"max_steps={args.max_steps}" if args.max_steps > 0 else f"num_train_epochs={args.num_train_epochs:g}"
        raise ValueError(
            f"TrainingArguments({ends}) ends after {length:g} evaluations, before strategy.max_amount="
            f"{trial.max_amount}; train longer, or give a smaller max_amount"
        )
