"""`hpo.Study`: the commands of a study as methods, and its trials, winner, Pareto front and figures."""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from hpo.commands.archive import Archived, archive
from hpo.commands.best import Best, best_of, front_table, winner_of
from hpo.commands.callbacks import Callback, given_callbacks
from hpo.commands.evaluation import Evaluation, evaluate
from hpo.commands.exchange import Exported, Synced, export, sync
from hpo.commands.remove import Freed, Removed, clean, remove
from hpo.commands.replay import replay
from hpo.commands.report import Reported, report
from hpo.commands.reproduce import Reproduction, reproduce
from hpo.commands.resume import changed_config, extend, resume
from hpo.commands.show import Details, Logs, logs, show
from hpo.commands.steer import Answer, Noted, add, note, retry, stop
from hpo.commands.train import train_tree
from hpo.commands.trained_model import Attention, Predictions, attention, predict
from hpo.commands.watch import LivePage, open_page
from hpo.config.study_config import StudyConfig
from hpo.errors import StudyError, TrackError, nearest
from hpo.files import write_atomically
from hpo.report.figures import FIGURES, Drawn, draw_figures
from hpo.report.sections.report import report_schema
from hpo.report.subject import Subject
from hpo.session.callbacks import Steering
from hpo.session.program import interrupted_in_one_line
from hpo.session.running import run_shown
from hpo.show.lines import summary_html, summary_lines
from hpo.study.files.folder import StudyFolder
from hpo.study.files.user_notes import UserNote, read_notes, tags
from hpo.study.opening import change_choice, opened_run
from hpo.study.preparing.preparation import known_study
from hpo.study.results.run import StudyRun
from hpo.study.study import PreparedStudy
from hpo.study.view.reader import StudyReader
from hpo.study.view.view import StudyView
from hpo.study.winner.estimates import ScoresOnTest
from hpo.study.winner.final_model import best_config
from hpo.trials.curve_table import curves_table
from hpo.trials.table import trials_table

if TYPE_CHECKING:
    import pandas as pd


_Method = TypeVar("_Method", bound=Callable[..., Any])


def _documented_by(command: Callable[..., Any]) -> Callable[[_Method], _Method]:
    """Give a method the docstring of a command, without Examples, and without arguments that the method lacks."""

    def document(method: _Method) -> _Method:
        text = inspect.cleandoc(command.__doc__ or "").partition("\n\nExamples:")[0]
        for name in inspect.signature(command).parameters.keys() - inspect.signature(method).parameters.keys():
            text = re.sub(rf"\n    {name}: .*(?:\n {{8}}.*)*", "", text)
        method.__doc__ = text
        return method

    return document


class Study:
    """A handle on a study's folder. Each access reads the folder again. Most methods are commands of `hpo`."""

    def __init__(self, folder: StudyFolder) -> None:
        self._folder = folder

    @property
    def name(self) -> str:
        """The study's name."""
        return self._folder.config().study.name

    @property
    def folder(self) -> Path:
        """The study's folder."""
        return self._folder.path

    @property
    def notes(self) -> list[UserNote]:
        """The notes on the study, the earliest first, each with `time`, `user`, `text` and `tags`."""
        return read_notes(self._folder)

    @property
    def tags(self) -> dict[str, str]:
        """The tags of the study, each with its last value."""
        return tags(self._folder)

    @_documented_by(clean)
    def clean(self, *, dry_run: bool = False, states: bool = False, logs: bool = False, files: bool = False) -> Freed:
        """Delete files that no study needs; see `hpo clean`."""
        return clean([self.folder], dry_run=dry_run, states=states, logs=logs, files=files)

    @_documented_by(archive)
    def archive(self, file: str | Path) -> Archived:
        """Write a study into one archive, `NAME.tar.gz`, with the SHA-256 of each file; see `hpo.unarchive`."""
        return archive(self.folder, file)

    def remove(self, *, mirror: bool = False, runs: bool = True) -> Removed:
        """Delete the study and its runs in MLflow, without a question.

        Args:
            mirror: also remove the copy at study.mirror.
            runs: also remove the runs in MLflow.

        Raises:
            hpo.HpoError: the study is running, or MLflow or the mirror cannot be reached.
        """
        return remove([self.folder], yes=True, mirror=mirror, runs=runs)

    @_documented_by(export)
    def export(self, url: str, name: str | None = None) -> Exported:
        """Copy a study into another Optuna storage, for optuna-dashboard and `optuna.load_study`."""
        return export(self.folder, url, name)

    @_documented_by(logs)
    def logs(self, trial: int | None = None, *, tail: int | None = None) -> Logs:
        """Show the output of a study's trainings; with dispatch=local only the output of Python code is recorded."""
        return logs(self.folder, trial, tail=tail)

    @_documented_by(sync)
    def sync(self, uri: str | None = None, overrides: Sequence[str] = ()) -> Synced:
        """Send the trials and files of a study that are missing in MLflow; change nothing that MLflow has already."""
        synced = sync(self.folder, uri, overrides)
        if synced.there is None:
            # Raise an error, because Python callers see no exit code.
            raise TrackError(f"study '{synced.study}': {synced}")
        return synced

    @property
    def config(self) -> dict[str, Any]:
        """The complete configuration."""
        return self._folder.config().to_dict()

    @property
    def scales(self) -> list[dict[str, Any]] | None:
        """The changes of the configuration at each scale, by dotted key; None = the study has no scales.

        The smallest scale is first, the target last. A trial with `study.scale` n was trained at `scales[n - 1]`.
        """
        return self._folder.config().study.scales

    @property
    def status(self) -> StudyView:
        """The view of the study now: state, process, progress, best trial so far, possible actions."""
        return StudyReader(self._folder, self._folder.reference).view()

    @_documented_by(show)
    def show(self, trial: int | None = None) -> Details:
        """Show the state, best trial, running trials, failures and cautions of a study, or show one of its trials."""
        return show(self.folder, trial)

    @_documented_by(note)
    def note(self, text: str = "", *, tag: Mapping[str, str] | None = None) -> Noted:
        """Add a note or tags to a study; without arguments, show its notes."""
        return note(self.folder, text, tag=tag)

    @_documented_by(add)
    def add(self, point: Mapping[str, Any]) -> Answer:
        """Add a point of your own to a running or stopped search, as its next new trial."""
        return add(self.folder, point)

    @_documented_by(retry)
    def retry(self, trial: int | None = None) -> Answer:
        """Retry the failed trials of a running or stopped search, after you have fixed the cause."""
        return retry(self.folder, trial)

    @_documented_by(stop)
    def stop(self, trial: int | None = None, *, now: bool = False) -> Answer:
        """End a running search at once or after its running trials have ended, or stop one of its trials."""
        return stop(self.folder, trial, now=now)

    @_documented_by(evaluate)
    def test(
        self,
        again: bool = False,
        with_default: bool = True,
        data: Mapping[str, str] | None = None,
        *,
        front: bool = False,
    ) -> Evaluation:
        """Score the winner on the test split, once, and record this test evaluation."""
        return evaluate(self.folder, again, with_default, data, front=front)

    @property
    def test_result(self) -> ScoresOnTest:
        """The scores from `test`, in the attributes `metrics`, `default` and `difference`.

        `metrics` has the scores of the winner, and `default` has the scores of the default configuration. `difference`
        has the scores of the winner minus the scores of the default configuration.

        Each of the three has an entry per metric: the `value`; `low` and `high`, the ends of the value's 95 % interval
        (None = no interval); `n`, the number of test examples; and a `note` on the source of the interval, or on how to
        get an interval. Raise StudyError if `test` has not been called.
        """
        result = self._folder.test_result()
        if result is None:
            raise StudyError(f"test_result: study '{self.name}' has no test scores yet; use study.test()")
        return ScoresOnTest.of(result)

    def test_front(
        self, again: bool = False, with_default: bool = True, data: Mapping[str, str] | None = None
    ) -> "pd.DataFrame":
        """Call `test` with `front=True`, and return the table `front`; the arguments are those of `test`."""
        return self.test(again, with_default, data, front=True).front

    @_documented_by(resume)
    @interrupted_in_one_line()
    def resume(
        self,
        trials: int | None = None,
        overrides: Sequence[str] = (),
        *,
        minutes: float | None = None,
        workers: int | None = None,
        settings: Mapping[str, Any] | None = None,
        data: Mapping[str, str] | None = None,
        callbacks: Sequence[Callback] = (),
        name: str | None = None,
        allow_changes: bool = False,
        trust: bool = False,
        progress: Literal["auto", "json", "none"] | bool = "auto",
    ) -> Self:
        """Continue a study from its frozen configuration; later edits of configuration files have no effect."""
        resumed = resume(
            self.folder,
            trials,
            overrides,
            minutes=minutes,
            workers=workers,
            settings=settings,
            data=data,
            callbacks=given_callbacks(callbacks, SteeredStudy),
            name=name,
            allow_changes=allow_changes,
            trust=trust,
            progress=progress,
        )
        return type(self)(StudyFolder(resumed.folder))

    @_documented_by(extend)
    @interrupted_in_one_line()
    def extend(
        self,
        changes: Mapping[str, Any] | None = None,
        overrides: Sequence[str] = (),
        *,
        best: int | None = None,
        trials: Sequence[int] = (),
        climb: bool = False,
        data: Mapping[str, str] | None = None,
        name: str | None = None,
        progress: Literal["auto", "json", "none"] | bool = "auto",
    ) -> Self:
        """Train the best trials of a study longer, or with a changed configuration, in a new study."""
        extended = extend(
            self.folder,
            changes,
            overrides,
            best=best,
            trials=trials,
            climb=climb,
            data=data,
            name=name,
            progress=progress,
        )
        return type(self)(StudyFolder(extended.folder))

    def train(self, *, progress: Literal["auto", "json", "none"] | bool = "auto") -> dict[str, float]:
        """Train the winner's configuration once more, fully, on the first fold, and return the metrics.

        This does the same as `hpo train --config best.yaml`, and also works for a function from Python.

        Args:
            progress: how to print the learning curve, as in `hpo.train`.

        Raises:
            hpo.HpoError: no trial is complete, or the training failed.
        """
        with self._read() as (study, run):
            winner = winner_of(study, run)
            tree = best_config(study.as_of(run.notes.allowed_changes, winner), winner)
        return train_tree(tree, progress, self._folder.function_path if study.objective.pickled else None)

    @_documented_by(reproduce)
    def reproduce(
        self,
        trial: str | int = "best",
        data: Mapping[str, str] | None = None,
        *,
        folds: Sequence[int] | None = None,
        tolerance: float | None = None,
        trust: bool = False,
        uri: str = "sqlite:///mlflow.db",
        progress: Literal["auto", "json", "none"] | bool = "auto",
    ) -> Reproduction:
        """Train recorded trials again in this process, and compare the new scores with the recorded scores."""
        return reproduce(
            self.folder, trial, data, folds=folds, tolerance=tolerance, trust=trust, uri=uri, progress=progress
        )

    @_documented_by(replay)
    def replay(
        self, *overrides: str, trust: bool = False, progress: Literal["auto", "json", "none"] | bool = "auto"
    ) -> "pd.DataFrame":
        """Run a study's whole search again, as `hpo search --replay` does, and compare the trials."""
        return replay(self.folder, *overrides, trust=trust, progress=progress)

    @_documented_by(predict)
    def predict(
        self,
        inputs: Sequence[Any] | None = None,
        *,
        input_: str | Path | None = None,
        text: str | None = None,
        output: str | Path | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        max_tokens: int | None = None,
        seed: int | None = None,
        **options: Any,
    ) -> Predictions:
        """Classify, tag, translate or continue texts with a study's winner or any checkpoint."""
        return predict(
            self.folder,
            inputs,
            input_=input_,
            text=text,
            output=output,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            max_tokens=max_tokens,
            seed=seed,
            **options,
        )

    @_documented_by(attention)
    def attention(
        self,
        text: str | None = None,
        target: str | None = None,
        output: str | Path | None = None,
        *,
        input_: str | Path | None = None,
    ) -> Attention:
        """Draw the attention of each head of a study's winner, or of any checkpoint, for one text."""
        return attention(self.folder, text, target, output, input_=input_)

    @contextmanager
    def _read(self, config: StudyConfig | None = None) -> Iterator[tuple[PreparedStudy, StudyRun]]:
        study = known_study(str(self.folder), config)
        with opened_run(study) as run:
            yield study, run

    @property
    def trials(self) -> "pd.DataFrame":
        """One row per trial: number, state, score, the searched values, folds, seconds, error; as in trials.csv.

        The last columns have other numbers that the objective returned, and the notes from `trial.note`.
        """
        with self._read() as (study, run):
            table = trials_table(run.trials, study.space.keys, study.goal, study.layout)
            return table.infer_objects()

    @property
    def curves(self) -> "pd.DataFrame":
        """One row per report of an ended training: trial, fold and the reported values.

        If the study has repeats, each row also has the repeat. The same table is in curves.csv.
        """
        with self._read() as (study, run):
            return curves_table(run.trials, study.layout).infer_objects()

    @property
    def best(self) -> Best:
        """The winner; with several metrics, the trial chosen from the Pareto front.

        Raise StudyError if no complete trial keeps the limits.
        """
        with self._read() as (study, run):
            return best_of(study, run)

    @property
    def front(self) -> "pd.DataFrame":
        """The Pareto front: one row per trial that keeps the limits and that no other trial dominates.

        The first row is the best trial in the leading metric. The winner always has a row. If fresh seeds chose a
        winner outside of the search's front, its row is the last. With one metric, the table has only the winner.

        Columns:
            number: the number of the trial.
            is_chosen: whether the trial is the winner.
            NAME: in the search, the value of the metric NAME. Other returned numbers also have a column if they have a
                limit or are in `study.measured`.
            NAME_standard_error: the standard error of NAME over folds and repeats, if there are several.
            NAME_on_fresh_seeds: the value of NAME on fresh seeds, with `study.finalists`.
            KEY: each searched value.
            amount, reached: under a strategy that trains partially, how far to train the trial, and how far it has been
                trained.

        If two columns would have the same name, the second gets the prefix `metric.`, or `space.` for a searched value.
        """
        with self._read() as (study, run):
            return front_table(study, run)

    def choose(self, how: str | Mapping[str, Any], *, save: bool = False) -> Best:
        """Return the winner that another rule chooses from the Pareto front.

        With `study.finalists`, another rule may select other finalists. If one of these finalists has no score on fresh
        seeds, the scores of the search decide. With `save`, the next `resume` trains the missing finalists on fresh
        seeds. Then the scores on fresh seeds decide, and the winner may change.

        Args:
            how: the rule, as `choose` of `hpo.search`: `"knee"`, `"first_within_limits"`, weights such as
                `{"accuracy": 0.7, "latency": 0.3}`, or `{"best": "accuracy", "within": {"latency": "5 %"}}`.
            save: whether the study uses this rule from now on, as after `hpo resume STUDY study.choose=...`. The study
                records the change, `best` follows the rule, and `resume` trains the winner's model.

        Raises:
            hpo.HpoError: the rule is not allowed, or names a metric that the study does not have; no complete trial
                keeps the limits; or, with `save`, the study is running.
        """
        config = changed_config(self._folder, {"study.choose": dict(how) if isinstance(how, Mapping) else how})
        with self._read(config) as (study, run):
            best = best_of(study, run)
        if save:
            change_choice(study)
            self.report()
        return best

    @_documented_by(report)
    def report(
        self, *, publish: bool = False, checklist: bool = False, latex: bool = False, **said: str | bool | None
    ) -> Reported:
        """Write report.html, report.md, report.json and trials.csv of a study, finished or not."""
        reported = report(self.folder, publish=publish, checklist=checklist, latex=latex, schema=False, **said)
        assert isinstance(reported, Reported)
        return reported

    @staticmethod
    def report_schema() -> dict[str, Any]:
        """Return the JSON Schema of report.json."""
        return report_schema()

    def plot(self, figure: str = "best_so_far", file: str | Path | None = None) -> Any:
        """Return a figure of the report, such as `best_so_far` or `importance`, as a plotly figure.

        A notebook also saves a static picture of the figure, for GitHub and exports. It saves no picture of the figure
        `contours`, because drawing contours needs a browser.

        Args:
            figure: the name of the figure.
            file: also write the figure to this `.pdf`, `.png` or `.svg` file, in a form for papers: about 6.5 inches
                wide, with text of 10 points. An existing file is replaced. `contours` needs the package kaleido and
                Chrome.

        Raises:
            StudyError: the figure does not exist, has nothing to show for this study, or the file cannot be written.
        """
        # Import it only here, because it loads plotly.
        from hpo.report.pages.picture import FILE_FORMATS, NotebookFigure, draw_for_paper

        path = None if file is None else Path(file).expanduser()
        if path is not None and path.suffix.lower().removeprefix(".") not in FILE_FORMATS:
            endings = ", ".join(f".{each}" for each in FILE_FORMATS)
            raise StudyError(f"file: must end with one of {endings}, given '{path}'")
        figures = {name.replace("-", "_"): name for name in FIGURES}
        if figure not in figures:
            raise StudyError(f"figure: must be one of {', '.join(figures)}, given {figure!r}{nearest(figure, figures)}")
        with self._read() as (study, run):
            (drawing,) = draw_figures(Subject.of(study, run), [figures[figure]])
        content = drawing.content
        if not isinstance(content, Drawn):
            raise StudyError(f"figure: {figure} has nothing to show: {content['missing']}")
        drawn = NotebookFigure(content.figure)
        if path is not None:
            picture = draw_for_paper(drawn, figure, path.suffix.lower().removeprefix("."))
            try:
                write_atomically(path, picture)
            except OSError as error:
                raise StudyError(f"file: '{path}' cannot be written: {error.strerror}") from error
        return drawn

    def watch(self, height: int = 800) -> LivePage:
        """Serve the study's live page in a separate process, and return the page; a notebook shows it in the cell.

        The search may run in a thread of this process or in any other process. The page changes nothing.

        Args:
            height: the height of the page in the cell, in pixels.

        Returns:
            The page, with its `address` for a browser on this machine. The page ends at `close()`, or with this
            process.
        """
        return open_page(str(self.folder), height)

    def __fspath__(self) -> str:
        return str(self.folder)

    def __repr__(self) -> str:
        return f"hpo.load({str(self._folder)!r})"

    def __str__(self) -> str:
        """Return the number of trials, the winner with its point, and the path of the report."""
        return "\n".join(summary_lines(self.status))

    def _repr_html_(self) -> str:
        """Return the winner and the number of trials, for a notebook."""
        return summary_html(self.status)


class SteeredStudy(Study):
    """The study that callbacks receive; an action takes effect at once, at the current time of the study's clock."""

    def __init__(self, steering: Steering) -> None:
        super().__init__(steering.study.folder)
        self._steering = steering

    def add(self, point: Mapping[str, Any]) -> Answer:
        """Add a point of your own as the next trial; see `Study.add`."""
        return Answer(self.name, self._steering.add(point), point=point)

    def retry(self, trial: int | None = None) -> Answer:
        """Retry the failed trials, or one of them; see `Study.retry`."""
        return Answer(self.name, self._steering.retry(trial), trial)

    def stop(self, trial: int | None = None, *, now: bool = False) -> Answer:
        """End the search: start no new trial, finish the running trials, and write the report.

        The arguments `trial` and `now` of `Study.stop` are not allowed here. They end trainings that are in progress.
        A replay could not end these trainings at the same step, because their progress differs from run to run.

        Raises:
            hpo.HpoError: `trial` or `now` is given.
        """
        if trial is not None or now:
            raise StudyError(
                "stop: a callback can only end the whole search, because a replay could not stop trainings at the same "
                "step; leave out the arguments `trial` and `now`"
            )
        self._steering.end()
        return Answer(self.name, "no new trial starts; the search ends after the running ones")


@interrupted_in_one_line()
def run(study: PreparedStudy, progress: Literal["auto", "json", "none"] | bool) -> Study:
    """Run a prepared study until its search ends, and return the study. After a signal, raise KeyboardInterrupt."""
    run_shown(study, progress)
    return Study(study.folder)
