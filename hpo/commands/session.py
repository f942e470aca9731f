"""`hpo.open` and its session: a study whose trials are asked for and told, and trained elsewhere."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

from hpo.commands.arguments import refuse_without_effect
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
    """A trial that was asked for: what to train, and its learning curve; `trial["training.lr"]` is one value.

    Attributes:
        study: the name of its study.
        reference: what commands call that.
        trial: its number, from 0; in Python `number`.
        point: the values of what is searched, by dotted key.
        config: the whole configuration with them, as `hpo.search` gives it to a function; in JSON secrets by name.
        seed: for all randomness of the training.
        scale: at which of the study's scales, from 1; 0 where it has none.
        changes: what that scale changes of the configuration, by dotted key.
        amount: how far to train, counted from the start, such as epochs, under a strategy that trains by amounts; None
            = to the end.
        continues: the number of the earlier trial of the same point that it goes on from; None = from the start.
        trained: how far that was trained.
        metrics: what is to be told of it: the metrics in their order, then what else has a limit or is measured.
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
        """Add a point to the learning curve, and write it: `report(epoch=3, loss=0.2)`, or `report(0.3, step=5)`.

        Its place, `epoch` or else `step`, is later than that of the report before; without one, reports are counted on
        from `trained`.

        Raises:
            hpo.HpoError: the trial was told before, its place is not later, or these are no numbers.
        """
        try:
            reported = point_of(self._metric, point, step, numbers)
        except TypeError as error:
            raise ConfigError(f"trial {self.number}: {error}") from error
        self._outside.asking.report(self.number, reported)

    @property
    def should_stop(self) -> bool:
        """Whether `study.stop_rule=median` ends the training here; `session.tell(trial)` then tells it as stopped."""
        return self._outside.asking.stops(self.number)

    def number_in(self, outside: OutsideSession) -> int:
        """Return its number; ConfigError where it was asked for in another study than this one."""
        if self._outside.study_id != outside.study_id:
            raise ConfigError(
                f"trial {self.number}: is one of study '{self._outside.study.reference}', and was told to "
                f"'{outside.study.reference}'; tell it where it was asked for"
            )
        return self.number

    def to_dict(self) -> dict[str, Any]:
        """Return what `hpo ask --json` prints: objects as the study's files hold them, secrets by their names."""
        names = ("study", "reference", "seed", "scale", "changes", "amount", "continues", "trained", "metrics")
        return {"trial": self.number, **self._plain, **{name: getattr(self, name) for name in names}}

    @property
    def text(self) -> str:
        """Its values, with what its scale changes, how far it is trained where that is said, and what tells it."""
        further = f" from {self.trained}, where trial {self.continues} ended" if self.trained else ""
        amount = "" if self.amount is None else f", to be trained to {self.amount}{further}"
        values = (f"  {key} = {value}" for key, value in {**self.point, **self.changes}.items())
        then = f"then: hpo tell {self.reference} {self.number} {' '.join(f'{name}=VALUE' for name in self.metrics)}"
        return "\n".join(map(printable, [f"trial {self.number}{amount}", *values, then]))

    def show(self) -> None:
        """Print its text."""
        print(self.text)

    def __repr__(self) -> str:
        return f"trial {self.number}: {self.point}"


class Session:
    """A study that is asked and told, until it is closed; `for trial in session` asks until there is no further trial.

    Each answer is written to the study's record before `tell` returns. While it is open, no other process can ask or
    tell, and it is used in the thread that opened it. Used with `with`, or closed by `close`.
    """

    def __init__(self, study: PreparedStudy, objects: Objects | None = None, **options: Any) -> None:
        self._outside = OutsideSession(study, **options)
        self._objects = objects or Objects()
        self.name, self._folder = study.config.study.name, study.folder

    @property
    def study(self) -> "Study":
        """The study, as `hpo.load` returns it: its trials, best, figures and report."""
        from hpo.commands.study import Study

        self._outside.refuse_elsewhere()
        return Study(self._folder)

    def ask(self) -> AskedTrial:
        """Return a new trial, proposed from what was told so far, and counted by the budget.

        Raises:
            hpo.NoTrialError: the budget or the space is used up; or the strategy waits until what is open is told, as
                at the end of a round. One line says which.
        """
        return self.open_trial(self._outside.ask())

    def add(self, point: Mapping[str, Any]) -> None:
        """Let a point of your own be asked for next, by dotted key; what it leaves out has its default.

        Raises:
            hpo.HpoError: it is none of the space, or was tried or added before.
        """
        self._outside.add(point)

    def tell(
        self, trial: AskedTrial | int, result: Any = None, *, error: str | BaseException | None = None
    ) -> dict[str, Any]:
        """Write what came of an open trial, and return what it is now: `state`, `score` and `error`.

        Args:
            trial: it, or its number.
            result: the score; a dict of numbers with the metrics, and if you like `seconds`, how long it took; or with
                several metrics their values in order. None = of what was reported the best, or with `score="last"` the
                last; a trial that `should_stop` becomes a stopped one. A metric that is NaN or infinite is a failure.
            error: why it failed, as a text or an exception; it has no result then.

        Raises:
            hpo.HpoError: the trial is not open or another study's, or a metric is missing. Nothing was written.
        """
        number = trial.number_in(self._outside) if isinstance(trial, AskedTrial) else trial
        if result is not None and error is not None:
            raise ConfigError("error: a trial that failed has no result; give one of both")
        self._outside.asking.tell(number, result, error)
        told = self._outside.record.trial(number)
        return {"state": told.state, "score": told.score, "error": told.outcomes[0].error}

    @property
    def open_trials(self) -> list[AskedTrial]:
        """The trials that were asked for, here or in an earlier session, and not told; each may still be told."""
        return [self.open_trial(number) for number in sorted(self._outside.asking.open)]

    def open_trial(self, number: int) -> AskedTrial:
        """Return one of them; StudyError where it is none."""
        return AskedTrial(self._outside, self._outside.asking.task(number), self._objects)

    @property
    def is_over(self) -> bool:
        """Whether no trial is open, and none can be asked for; it takes as long as a question."""
        return self._outside.is_over

    @property
    def best(self) -> "Best":
        """The best so far; StudyError where no trial is complete within the limits."""
        return self.study.best

    def close(self) -> None:
        """Write the report, send what MLflow lacks, and let other processes ask and tell; once."""
        self._outside.close()

    def __iter__(self) -> Iterator[AskedTrial]:
        """Yield trials until there is no further one; NoTrialError where the strategy waits for those that are open."""
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
    """Open a study whose trials are asked for and told: they are trained elsewhere, by whatever means.

    A new study, or one that exists unchanged, which goes on: what was asked for and not told is still open. It is a
    study as every other: record, report, MLflow, `hpo compare`.

    Args:
        space: as of `hpo.search`; None = that of the study of this name, which exists.
        name: the study's, a folder under runs/.
        config, trials, strategy, metric, direction, limits, measured, choose, scales, score, seed, settings: as of
            `hpo.search`; of a study that exists and whose space is not given only `trials` and `settings`.

    Returns:
        The session, which has the study's lock until it is closed.

    Raises:
        hpo.HpoError: something given cannot be, or another process has the study; nothing was created.
    """
    asked: dict[str, Any] = {"trials": trials, "seed": seed, "direction": direction, "score": score}
    asked |= {"limits": limits, "measured": measured, "choose": choose, "scales": scales}
    strategy = "ladder" if strategy is None and scales is not None else strategy
    settings = settings_of(settings, metric, **asked)
    if space is None:
        refuse_without_effect({"config": config, "strategy": strategy}, "on a study that exists, without space")
        folder = find_study(name)
        return Session(load_study(name, changed_config(folder, settings)))
    plain, references = plain_config(config)
    objects = Objects()
    plain = {} if plain is None else plain
    searched, constants = objects.space(space_of(space), plain), objects.config(plain)
    settings = {"dispatch": "local", "study.name": name, **settings}
    made = made_config(OUTSIDE, searched, constants, references, strategy, settings)
    return Session(prepare_study(with_its_trials(made)), objects)
