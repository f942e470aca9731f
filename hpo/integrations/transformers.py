"""Trains trials with a Hugging Face Trainer: reports evaluations, continues from checkpoints, saves the best model."""

import dataclasses
import functools
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from hpo.errors import ConfigError, nearest
from hpo.workers.objective.objective import objective
from hpo.workers.objective.plain_function import RunningTrial

try:
    import torch
    from transformers import (
        EarlyStoppingCallback,
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

    from hpo.integrations.trainer_again import SearchedValues, keys_read, make_again, own_arguments, own_state, parts_of
except ImportError as error:
    raise ImportError(f"{error}; install it with: python -m pip install transformers accelerate peft") from error

# The prefix that transformers adds to the names of an evaluation's metrics.
_PREFIX = "eval_"


def training_arguments(trial: RunningTrial, **values: Any) -> TrainingArguments:
    """Seed all random generators, and return the arguments of this trial's training. Create the model after this call.

    Args:
        trial: the trial, whose seed is used.
        values: arguments of TrainingArguments, for example from the configuration. By default, there is one evaluation
            per epoch, there are no checkpoints, and nothing is reported to other tools.
    """
    seed = trial.seed % 2**32
    set_seed(seed)
    defaults = {"seed": seed, "eval_strategy": "epoch", "save_strategy": "no", "report_to": "none", **values}
    # Nothing is written to this folder, because `train` sets a separate one for each training.
    return TrainingArguments(output_dir=tempfile.gettempdir(), **defaults)


def train(
    trainer: Trainer, trial: RunningTrial, compute_objective: Callable[[dict[str, float]], Any] | None = None
) -> dict[str, float]:
    """Train, report each evaluation, and return the metrics of the last evaluation.

    With `load_best_model_at_end`, return the metrics of the best evaluation. Each evaluation is a step of the learning
    curve, counted from 1; with the usual `eval_strategy="epoch"`, each epoch has one evaluation. A step has the metrics
    that `evaluate` returns. With several evaluation sets, a step has the metrics of all sets, and each metric begins
    with the name of its set, such as `a_f1`. If the study stores states, a state is saved before each report, and a
    training continues from the last state. If the study stores models, the model is saved as a folder for
    `from_pretrained`. A training without a validation split, such as the training of the final model, trains all
    epochs.

    Args:
        trainer: the trainer with its model and data; this function sets its output folder.
        trial: the trial, as the objective gets it.
        compute_objective: see `objective_of`.

    Returns:
        The metrics without the prefix `eval_`: loss, runtime, the metrics of `compute_metrics`, and the values of
        `compute_objective`; also the number of trained `parameters`. Empty if the training has no evaluation.

    Raises:
        ValueError: the training would end before `strategy.max_amount`, or the values of `compute_objective` do not fit
            the study's metrics.
    """
    torch.set_num_threads(trial.threads)
    with ExitStack() as stack:
        folder = trial.resume_dir or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        trainer.args.output_dir = str(folder)
        if trial.resume_dir is not None:
            # The best checkpoint is kept in addition to the last one.
            trainer.args.save_total_limit = 2
        if trial.validation is not None and not len(trial.validation):
            trainer.args.eval_strategy = trainer.args.save_strategy = "no"
            trainer.args.load_best_model_at_end = False
            trainer.remove_callback(EarlyStoppingCallback)
        for kind in (PrinterCallback, ProgressCallback):
            trainer.remove_callback(kind)
        _refuse_short(trainer.args, trial)
        last, state = _last_checkpoint(folder)
        if trial.amount is not None and state is not None and len(_evaluations(state)) >= trial.amount:
            # All steps are trained and saved, but the last evaluation was not reported.
            trainer.args.max_steps = state.global_step
        callback = TrialCallback(trial, last)
        trainer.add_callback(callback)
        with _report_evaluations(trainer, callback, _make_scorer(compute_objective, trial)):
            trainer.train(resume_from_checkpoint=last)
        if trainer.args.load_best_model_at_end and trainer.state.best_model_checkpoint:
            _reload(trainer.model, trainer.state.best_model_checkpoint)
        if trial.checkpoint_dir is not None:
            trainer.save_model(str(trial.checkpoint_dir))
    evaluations = _evaluations(trainer.state)
    best = trainer.state.best_global_step if trainer.args.load_best_model_at_end else None
    chosen = [metrics for step, metrics in evaluations if step == best] or [metrics for _, metrics in evaluations]
    parameters = sum(weight.numel() for weight in trainer.model.parameters() if weight.requires_grad)
    return {"parameters": parameters, **chosen[-1]} if chosen else {}


@contextmanager
def _report_evaluations(
    trainer: Trainer, callback: "TrialCallback", add_scores: Callable[[dict[str, float]], dict[str, float]]
) -> Iterator[None]:
    """Inside the context, pass the metrics of every evaluation during the training to the callback.

    With several evaluation sets, `evaluate` calls itself for each set; only the metrics of the outer call are passed
    on. The callback gets the result of `add_scores` for these metrics (see `_make_scorer`).
    """
    evaluate, depth = trainer.evaluate, 0

    @functools.wraps(evaluate)
    def evaluate_and_report(*args: Any, **kwargs: Any) -> dict[str, float]:
        nonlocal depth
        depth += 1
        try:
            metrics: dict[str, float] = evaluate(*args, **kwargs)
        finally:
            depth -= 1
        if depth == 0 and trainer.is_in_train:
            metrics = add_scores(metrics)
            callback.add_evaluation(trainer.state, trainer.control, metrics)
        return metrics

    trainer.evaluate = evaluate_and_report
    try:
        yield
    finally:
        del trainer.evaluate


def _make_scorer(
    compute_objective: Callable[[dict[str, float]], Any] | None, trial: RunningTrial
) -> Callable[[dict[str, float]], dict[str, float]]:
    """Return a function that takes and returns the metrics of an evaluation, and adds the study's metrics to them.

    `compute_objective` returns the values of the study's metrics; None = the function adds nothing.
    """

    def add_scores(metrics: dict[str, float]) -> dict[str, float]:
        if compute_objective is None:
            return metrics
        # Trainer's own default removes values from its argument, so it gets a copy.
        given, names = compute_objective(dict(metrics)), [f"{_PREFIX}{name}" for name in trial.metrics]
        values = list(given) if isinstance(given, list | tuple) else [given]
        if len(values) != len(names):
            raise ValueError(
                f"compute_objective: must return a value for each of the study's metrics ({', '.join(trial.metrics)}), "
                f"but it returned {given!r}"
            )
        if known := [name for name in names if name in metrics]:
            raise ValueError(
                f"compute_objective: {known[0].removeprefix(_PREFIX)} is also the name of a metric of the evaluation; "
                f"give the study's metric another name, such as metric='score'"
            )
        return metrics | dict(zip(names, map(float, values), strict=True))

    return add_scores


class TrialCallback(TrainerCallback):  # type: ignore[misc]  # transformers has no types
    """Reports evaluations, and ends the training at the trial's amount. Must come after all other callbacks."""

    def __init__(self, trial: RunningTrial, checkpoint: str | None = None) -> None:
        self._trial, self._checkpoint = trial, checkpoint
        # The number of evaluations that are already reported.
        self._num_reported = trial.earlier_amount

    def on_train_begin(self, _: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Report the evaluations that an interrupted training has saved; reload its weights (see `_reload`)."""
        if self._checkpoint is not None:
            _reload(kwargs["model"], self._checkpoint)
        self._report(state, control)

    def add_evaluation(self, state: TrainerState, control: TrainerControl, metrics: Mapping[str, float]) -> None:
        """Add the metrics of an evaluation. Report the evaluation now or, if a save follows, after the save."""
        state.log_history.append({"step": state.global_step, **metrics})
        control.should_save = control.should_save or self._trial.resume_dir is not None
        if not control.should_save:
            self._report(state, control)

    def on_save(self, _: TrainingArguments, state: TrainerState, control: TrainerControl, **__: Any) -> None:
        """Report the evaluations that the saved state contains."""
        self._report(state, control)

    def on_epoch_end(self, args: TrainingArguments, _: TrainerState, control: TrainerControl, **__: Any) -> None:
        """In a training without evaluations, request a save of the state if the study stores states."""
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
    """Return an objective for `hpo.search` that trains like this trainer; use it instead of `hyperparameter_search`.

    A key of the space is a field of `TrainingArguments`, or a key that `model_init(trial)` reads (see
    `SearchedValues`). The trainer's arguments form the default configuration, which is the first point if it is in the
    space. Every trial has a new trainer of the same class. The new trainer gets copies of the attributes that a
    subclass of Trainer or the user has added to `trainer`, such as class weights. The setting `study.checkpoints` says
    how many of the best trials have their models stored, as folders for `from_pretrained`. `study.best.model_dir` is
    the folder of the best model.

    Args:
        trainer: a trainer with `model_init`.
        compute_objective: as in `hyperparameter_search`. The function gets the metrics of `evaluate`, such as
            `eval_loss`. It returns one value for each of the study's metrics, in the order of these metrics. If this
            function is given, the names of the study's metrics must differ from the names that `evaluate` returns
            (without `eval_`).

    Raises:
        ConfigError: the trainer has no `model_init`.

    Example:
        >>> space = {"learning_rate": hpo.log(1e-5, 1e-3), "num_train_epochs": [1, 2, 3]}
        >>> study = hpo.search(objective_of(trainer), space, metric="accuracy", direction="maximize", trials=20)
    """
    if trainer.model_init is None:
        raise ConfigError(
            "trainer: must have a model_init, because every trial needs a new model; set Trainer(model_init=...)"
        )
    kind, given, described = type(trainer), trainer.args, trainer.args.to_dict()
    takes_trial = number_of_arguments(trainer.model_init) == 1
    model_init, parts, own = trainer.model_init, parts_of(trainer), own_state(trainer)
    constants = own_arguments(given)
    # The keys that model_init may read; None = any key.
    readable = keys_read(model_init) if takes_trial else []

    def refuse_unread(key: str) -> None:
        raise ConfigError(
            f"{key}: is not an argument of {type(given).__name__}, and model_init does not read it"
            f"{nearest(key, [*described, *(readable or ())]) or f'; read trial[{key!r}] in model_init(trial)'}"
        )

    def check(config: Mapping[str, Any]) -> None:
        for key in config:
            if key not in described and readable is not None and key not in readable:
                refuse_unread(key)

    def default_config(space: Mapping[str, Any]) -> dict[str, Any]:
        return constants | {key: described[key] for key in space if described.get(key) is not None}

    def arguments(config: Mapping[str, Any], **values: Any) -> TrainingArguments:
        evaluation = {"eval_strategy": "epoch"} if given.eval_strategy == "no" else {}
        own = {**described, **values}
        changed = {key: value for key, value in config.items() if key in own and value != own[key]}
        return dataclasses.replace(given, **{**values, **evaluation, **changed})

    @objective(continues=True, reports_again=True, check=check, describe_length=lambda c: _length(arguments(c)))
    def train_again(config: Mapping[str, Any], trial: RunningTrial) -> dict[str, float]:
        args = arguments(config, seed=trial.seed % 2**32, report_to="none")
        values = SearchedValues(config)
        init = functools.partial(model_init, values) if takes_trial else model_init
        again = make_again(kind, args, init, parts, own)
        for key in values.data:
            if key not in described and key not in values.read and nearest(key, described):
                refuse_unread(key)
        return train(again, trial, compute_objective)

    train_again.default_config = default_config  # type: ignore[attr-defined]  # `hpo.search` reads this attribute
    return train_again


def _reload(model: Any, checkpoint: str) -> None:
    """Load weights as `from_pretrained` does; do nothing if the model is no PreTrainedModel.

    Trainer silently ignores weights that `save_pretrained` has renamed (huggingface/transformers#43701).
    """
    if isinstance(model, PreTrainedModel):
        model.load_state_dict(type(model).from_pretrained(checkpoint).state_dict())


def _last_checkpoint(folder: Path) -> tuple[str | None, TrainerState | None]:
    """Return the last complete checkpoint in the folder, and its state; None for both if there is no such checkpoint.

    A checkpoint with a state is complete, because transformers writes the state last.
    """
    for checkpoint in sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name.split("-")[1]), reverse=True):
        try:
            return str(checkpoint), TrainerState.load_from_json(str(checkpoint / "trainer_state.json"))
        except (OSError, ValueError):
            pass  # A crash interrupted the writing of this checkpoint; try the one before.
    return None, None


def _evaluations(state: TrainerState) -> list[tuple[int, dict[str, float]]]:
    """Return the step and the metrics of each evaluation so far; if a step was logged twice, the last values count."""
    evaluations = dict[int, dict[str, float]]()
    for entry in state.log_history:
        metrics = {name.removeprefix(_PREFIX): value for name, value in entry.items() if name.startswith(_PREFIX)}
        if metrics:
            evaluations.setdefault(entry["step"], {}).update(metrics)
    return list(evaluations.items())


def _length(args: TrainingArguments) -> float:
    """Return an upper bound on the number of evaluations, without the one before the training (`eval_on_start`).

    Return infinity, which means no bound, if the number depends on the data, or if the training has no evaluations.
    """
    length = math.inf
    if args.eval_strategy == "epoch":
        # Every epoch has at least one step.
        length = args.max_steps if args.max_steps > 0 else math.ceil(args.num_train_epochs)
    elif args.eval_strategy == "steps" and args.max_steps > 0:
        every = args.eval_steps or args.logging_steps
        length = args.max_steps / every if every >= 1 else 1 / every
    return length


def _refuse_short(args: TrainingArguments, trial: RunningTrial) -> None:
    """Raise ValueError if the training would end before the strategy's largest amount."""
    if trial.max_amount is not None and (length := _length(args)) < trial.max_amount:
        ends = f"max_steps={args.max_steps}" if args.max_steps > 0 else f"num_train_epochs={args.num_train_epochs:g}"
        raise ValueError(
            f"TrainingArguments({ends}) ends after {length:g} evaluations, before "
            f"strategy.max_amount={trial.max_amount}; train longer, or give a smaller strategy.max_amount"
        )
