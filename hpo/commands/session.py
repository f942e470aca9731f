"""`hpo.open` and its session: ask-and-tell for a study whose trials are trained outside of hpo."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

from hpo.commands.arguments import name_or_path, refuse_without_effect
from hpo.commands.given.objective import space_of
from hpo.commands.given.objects import Objects, call_with
from hpo.commands.given.settings import made_config, settings_of
from hpo.commands.resume import changed_config
from hpo.commands.search import refusing_as_typed, with_its_trials
from hpo.config.composing.references import plain_config
from hpo.config.keys import at_path, path_of
from hpo.config.secrets import reveal_secrets
from hpo.errors import ConfigError, NoTrialError, printable
from hpo.objectives.outside import OUTSIDE
from hpo.session.outside import OutsideSession
from hpo.session.program import interrupted_in_one_line
from hpo.study.files.folder import find_study
from hpo.study.preparing.preparation import load_study, prepare_study
from hpo.study.study import PreparedStudy
from hpo.workers.objective.plain_function import point_of
from hpo.workers.training.tasks import Task

if TYPE_CHECKING:
    from hpo.commands.best import Best
    from hpo.commands.study import Study


class AskedTrial:
    """A trial to train outside of hpo. `trial["training.lr"]` is the value of one key of the trial's configuration.

    Attributes:
        study: the name of the trial's study.
        reference: the argument STUDY with which commands find the study (its name under runs/, or its folder).
        trial: the trial's number, from 0. `trial` is the name in JSON; the attribute in Python is `number`.
        point: the values of the searched hyperparameters, by dotted key.
        config: the complete configuration, as `hpo.search` gives it to a function; in JSON, with the names of
            environment variables instead of secrets.
        seed: the seed for all randomness of the training.
        scale: the number of the trial's scale, from 1; 0 = the study has no scales.
        changes: the values that the trial's scale sets in the configuration, by dotted key; empty without scales.
        amount: how far to train, counted from the start, such as a number of epochs; None = fully, because the
            strategy does not train partially.
        continues: the number of the earlier trial to continue, which has the same point; None = start anew.
        trained: how far the earlier trial was trained; 0 = there is no earlier trial to continue.
        metrics: the names of the values to report. The study's metrics are first, then the other names in
            `study.limits`, then the names in `study.measured`.
    """

    def __init__(self, outside: OutsideSession, task: Task, objects: Objects) -> None:
        trial, payload, study = outside.record.trial(task.trial), task.payload, outside.study
        self._outside, self._metric = outside, payload.metric
        config = reveal_secrets(payload.config, payload.known_secrets())
        self._plain = {"point": dict(trial.point), "config": payload.config}
        self.study, self.reference = study.config.study.name, study.reference
        self.number: int = trial.number
        self.point: dict[str, Any] = call_with(dict, objects.choices, {}, trial.point)
        self.config: dict[str, Any] = call_with(dict, objects.choices, objects.constants, config)
        self.seed: int = payload.seed
        self.scale: int = trial.scale
        scales = study.config.study.scales
        self.changes: dict[str, Any] = dict(scales[trial.scale - 1]) if scales else {}
        self.metrics = outside.record.goal.names
        self.amount, self.continues, self.trained = trial.amount, trial.continues, trial.trained

    def __getitem__(self, key: str) -> Any:
        path = path_of(self.config, key)
        if path is None:
            raise KeyError(key)
        return at_path(self.config, path)

    def report(self, point: Any = None, step: Any = None, /, **numbers: Any) -> None:
        """Add a report to the learning curve of this trial, as in `report(epoch=3, loss=0.2)`.

        A number without a name is the value of the metric (with several metrics, of the first): `report(0.3, step=5)`.
        Each `epoch` (or `step`) must be larger than in the previous report. Reports without `epoch` and `step` are
        numbered from `trained` + 1.

        Raises:
            hpo.HpoError: the trial has a result already, `epoch` or `step` is not larger than in the previous report,
                `step` is not a number, or the report is neither a number nor a mapping. Values that are not finite
                numbers are left out without an error.
        """
        try:
            reported = point_of(self._metric, point, step, numbers)
        except TypeError as error:
            raise ConfigError(f"trial {self.number}: {error}") from error
        self._outside.asking.report(self.number, reported)

    @property
    def should_stop(self) -> bool:
        """Whether `study.stop_rule=median` ends the training now; `tell(trial)` then records a stop."""
        return self._outside.asking.stops(self.number)

    def number_in(self, outside: OutsideSession) -> int:
        """Return the trial's number; ConfigError if the trial belongs to another study."""
        if self._outside.study_id != outside.study_id:
            raise ConfigError(
                f"trial {self.number}: belongs to study '{self._outside.study.reference}', and this session is of "
                f"study '{outside.study.reference}'; use a session of the trial's study"
            )
        return self.number

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that `hpo ask --json` prints.

        All values are JSON values. The names of environment variables replace secrets.
        """
        names = ("study", "reference", "seed", "scale", "changes", "amount", "continues", "trained", "metrics")
        return {"trial": self.number, **self._plain, **{name: getattr(self, name) for name in names}}

    @property
    def text(self) -> str:
        """The trial's values, the settings of its scale, how far to train, and the command that reports the result."""
        further = f" from {self.trained}, where trial {self.continues} ended" if self.trained else ""
        amount = "" if self.amount is None else f", train it to {self.amount}{further}"
        values = (f"  {key} = {value}" for key, value in {**self.point, **self.changes}.items())
        then = f"then: hpo tell {self.reference} {self.number} {' '.join(f'{name}=VALUE' for name in self.metrics)}"
        return "\n".join(map(printable, [f"trial {self.number}{amount}", *values, then]))

    def show(self) -> None:
        """Print the trial's values, and the command that reports the trial's result; see `text`."""
        print(self.text)

    def __repr__(self) -> str:
        return f"trial {self.number}: {self.point}"


class Session:
    """An open study for ask-and-tell. `for trial in session` yields trials until there are no more.

    `tell` writes each result to the study's record before it returns. While the session is open, no other process can
    ask or tell. Use the session only in the thread that opened it. Use a `with` block, or call `close` at the end.
    """

    def __init__(self, study: PreparedStudy, objects: Objects | None = None, **options: Any) -> None:
        self._outside = OutsideSession(study, **options)
        self._objects = objects or Objects()
        self.name, self._folder = study.config.study.name, study.folder

    @property
    def study(self) -> "Study":
        """The study, as `hpo.load` returns it."""
        from hpo.commands.study import Study

        self._outside.refuse_elsewhere()
        return Study(self._folder)

    def ask(self) -> AskedTrial:
        """Return a new trial, proposed from the results so far. The trial counts towards the budget.

        Raises:
            hpo.NoTrialError: the budget or the space is used up, `study.target` or `study.stop_without_gain` ends the
                search, or the strategy waits for the results of open trials, for example at the end of a round. The
                message says which is the case.
        """
        return self.open_trial(self._outside.ask())

    def add(self, point: Mapping[str, Any]) -> None:
        """Add a point of your own, with values by dotted key, as the next trial; missing keys get their defaults.

        Raises:
            hpo.HpoError: the point is outside of the space, or was tried or added before. A point whose last trial
                failed may be added again.
        """
        self._outside.add(point)

    def tell(
        self, trial: AskedTrial | int, result: Any = None, *, error: str | BaseException | None = None
    ) -> dict[str, Any]:
        """Record the result of an open trial, and return its `state`, `score` and `error`.

        Args:
            trial: the trial, or its number.
            result: the score; or a dict of the metrics, optionally with `seconds`, the training time; or the values of
                several metrics in their order. None = the best reported value, or with `score="last"` the last reported
                value. With None, a trial whose `should_stop` is true is recorded as stopped. If a metric is NaN or
                infinite, the trial fails.
            error: the error of a failed trial, as a text or an exception; give no result then.

        Raises:
            hpo.HpoError: the trial is not open, or belongs to another study, or a metric is missing. Nothing was
                written.
        """
        number = trial.number_in(self._outside) if isinstance(trial, AskedTrial) else trial
        if result is not None and error is not None:
            raise ConfigError("error: a failed trial has no result; give a result or an error, not both")
        self._outside.asking.tell(number, result, error)
        ended = self._outside.record.trial(number)
        return {"state": ended.state, "score": ended.score, "error": ended.outcomes[0].error}

    @property
    def open_trials(self) -> list[AskedTrial]:
        """The trials without a result, of this session and of earlier ones; `tell` accepts a result for each."""
        return [self.open_trial(number) for number in sorted(self._outside.asking.open)]

    def open_trial(self, number: int) -> AskedTrial:
        """Return an open trial by its number; StudyError if the trial is not open."""
        return AskedTrial(self._outside, self._outside.asking.task(number), self._objects)

    @property
    def is_over(self) -> bool:
        """Whether the study is finished: `ask` has no new trial, and none is open. The check takes as long as `ask`."""
        return self._outside.is_over

    @property
    def best(self) -> "Best":
        """The best trial so far; StudyError if no trial is complete and within the limits."""
        return self.study.best

    def close(self) -> None:
        """Write the report, send missing trials to MLflow, and release the study for other processes."""
        self._outside.close()

    def __iter__(self) -> Iterator[AskedTrial]:
        """Yield trials until there are no more; NoTrialError if the strategy waits for the results of open trials."""
        while True:
            try:
                yield self.ask()
            except NoTrialError as error:
                if error.is_waiting:
                    raise
                return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@interrupted_in_one_line()
@refusing_as_typed()
def open(  # noqa: A001 -- it is called hpo.open
    space: Mapping[str, Any] | Callable[..., Any] | None = None,
    *,
    name: str,
    config: Mapping[str, Any] | None = None,
    trials: int | None = None,
    strategy: str | Mapping[str, Any] | None = None,
    metric: str | Mapping[str, Literal["maximize", "minimize"]] | None = None,
    direction: Literal["maximize", "minimize"] | None = None,
    limits: Mapping[str, Any] | None = None,
    measured: Sequence[str] | None = None,
    choose: str | Mapping[str, Any] | None = None,
    scales: Sequence[Mapping[str, Any]] | None = None,
    score: Literal["best", "last"] | None = None,
    seed: int | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Session:
    """Open a study for ask-and-tell: you train its trials by any means, and report the results.

    Create the study, or continue the existing study of this name. Open trials stay
    open. The study is like any other study: it has a record and a report, its trials appear in MLflow, and
    `hpo compare` accepts it.

    Args:
        space: the search space, as in `hpo.search`; None = the space of the existing study of this name.
        name: the study's name, a folder under runs/.
        config, trials, strategy, metric, direction, limits, measured, choose, scales, score, seed, settings: as in
            `hpo.search`. Without `space`, give only `trials` and `settings`.

    Returns:
        The session, which holds the study's lock until it is closed.

    Raises:
        hpo.HpoError: an argument is not allowed, or another process has the study open. Nothing was created.
    """
    arguments: dict[str, Any] = {"trials": trials, "seed": seed, "direction": direction, "score": score}
    arguments |= {"limits": limits, "measured": measured, "choose": choose, "scales": scales}
    settings = settings_of(settings, metric, **arguments, name=None if space is None else name)
    if space is None:
        refuse_without_effect({"config": config, "strategy": strategy}, "on an existing study, without space")
        name = name_or_path(name)
        return Session(load_study(name, changed_config(find_study(name), settings)))
    plain, references = plain_config(config)
    objects = Objects()
    plain = {} if plain is None else plain
    searched, constants = objects.space(space_of(space), plain), objects.config(plain)
    settings = {"dispatch": "local", **settings}
    strategy = "ladder" if strategy is None and scales is not None else strategy
    study = made_config(OUTSIDE, searched, constants, references, strategy, settings)
    return Session(prepare_study(with_its_trials(study)), objects)
