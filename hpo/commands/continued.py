"""What is trained of a study after its search: its test, its continuation, its winner and its trials once more."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from hpo.commands.best import front_on_test, winner_of
from hpo.commands.resume import changed_config, prepare_to_extend, prepare_to_resume, read_results, score_on_test
from hpo.commands.steer import SteeredStudy, raise_budget
from hpo.commands.train import draw_attention, find_model, train_tree
from hpo.config.study_config import StudyConfig
from hpo.session.script import run_shown
from hpo.study.notes import Notes
from hpo.study.preparing.preparation import known_study
from hpo.study.study import PreparedStudy
from hpo.study.winner.final_model import best_config
from hpo.study.winner.verdict import Verdict
from hpo.trials.record.record import Record

if TYPE_CHECKING:
    import pandas as pd


class ContinuedStudy(SteeredStudy):
    """A study that goes on, is tested and trained again; `hpo.Study` has all of this, too."""

    def test(
        self, again: bool = False, with_default: bool = True, data: Mapping[str, str] | None = None
    ) -> Mapping[str, float]:
        """Open the test part, once, with the winner; return its metrics. The report says how often it was opened.

        Args:
            again: open a test part that was opened before.
            with_default: whether the default configuration is trained and scored beside it.
            data: where the data lie now, if they were moved, by key: `{"data.path": "there.csv"}`. The content must
                be the same; the place is kept with the study.
        """
        _, result, _ = score_on_test(str(self.folder), again, with_default, data)
        metrics: Mapping[str, float] = result["metrics"]
        return metrics

    def test_front(
        self, again: bool = False, with_default: bool = True, data: Mapping[str, str] | None = None
    ) -> "pd.DataFrame":
        """Open the test part, once, with every trial of the front of several metrics; arguments as of `test`.

        Returns:
            A row per trial, the chosen one first, with `trial`, `is_chosen`, what it has on the test part, `error`, and
            as `validation.NAME` what it had in the search. `metric.` is put before what is called as another column.
        """
        _, result, _ = score_on_test(str(self.folder), again, with_default, data, with_front=True)
        return front_on_test(result)

    def resume(
        self,
        trials: int | None = None,
        *,
        minutes: float | None = None,
        workers: int | None = None,
        settings: Mapping[str, Any] | None = None,
        data: Mapping[str, str] | None = None,
        name: str | None = None,
        allow_changes: bool = False,
        progress: bool = True,
    ) -> Self:
        """Go on with the search, also with a larger budget or other workers, and return the study.

        One that another process runs goes on there to a larger budget, the only change it takes; this returns at once.

        Args:
            trials: as of `hpo.search`.
            minutes: the same.
            workers: the same.
            settings: other keys that no trial depends on.
            data: as of `test`.
            name: go on with a copy of this name, which is a study of its own; None = with the study itself.
            allow_changes: go on although something has changed since; the report says what.
            progress: whether it is shown.
        """
        asked = {"study.trials": trials, "study.minutes": minutes, "dispatch.workers": workers}
        changes = {**(settings or {}), **{key: value for key, value in asked.items() if value is not None}}
        config = changed_config(self._folder, changes, data)
        if name is None and raise_budget(self._folder, config) is not None:
            return self
        return self._run(prepare_to_resume(self._folder, config, name, allow_changes), progress)

    def extend(
        self,
        changes: Mapping[str, Any] | None = None,
        *,
        best: int | None = None,
        trials: Sequence[int] = (),
        climb: bool = False,
        data: Mapping[str, str] | None = None,
        name: str | None = None,
        progress: bool = True,
    ) -> Self:
        """Train the best trials further, or longer from the start, as a study of its own, and return that.

        Args:
            changes: what is trained differently, by dotted key: `{"training.epochs": 60}`; None = nothing: trials that
                a strategy stopped or trained in part are trained to their end.
            best: how many trials, the best first; None = 5.
            trials: these instead, by number.
            climb: search at what is changed, such as a larger network, in windows around the best: `changes` are one
                scale more of a ladder that knows this study's trials; `study.trials` among them says how many it adds.
            data: as of `test`, but kept with the new study.
            name: the new study's; None = the old one's with `-extended`.
            progress: whether it is shown.
        """
        changes = {**(changes or {}), **({"study.name": name} if name else {})}
        return self._run(prepare_to_extend(self._folder, changes, best, trials, data, climb), progress)

    def train(self, *, progress: bool = True) -> dict[str, float]:
        """Train the winner's configuration once more, to its end, on the first fold, and return its metrics.

        It is what `hpo train --config best.yaml` does, also for a function that was given from Python.

        Args:
            progress: whether the learning curve is printed.

        Raises:
            hpo.HpoError: no trial is complete, or the training failed.
        """
        with self._read() as (study, record, verdict):
            winner = winner_of(study, verdict)
            tree = best_config(study.as_of(Notes(record).allowed_changes, winner), winner)
        return train_tree(tree, progress, self._folder.function_path if study.objective.kept else None)

    def reproduce(self, trial: int | str = "best", **options: Any) -> "pd.DataFrame":
        """Train recorded trials again in this process: see `hpo.reproduce`, whose options it takes."""
        from hpo.commands.reproduce import reproduce

        return reproduce(str(self.folder), trial, **options)

    def replay(self, *overrides: str, **options: Any) -> "pd.DataFrame":
        """Run its whole search again and compare the trials: see `hpo.replay`, whose options it takes."""
        from hpo.commands.replay import replay

        return replay(str(self.folder), *overrides, **options)

    def predict(self, inputs: Sequence[Any], **options: Any) -> list[str]:
        """Return one text per input from the winner's model; options as of `hpo predict`."""
        return find_model(str(self.folder)).predict(inputs, options)

    def attention(self, text: str, target: str | None = None, output: Path | str | None = None) -> list[dict[str, Any]]:
        """Return what the winner attends to while it reads a text: a map per layer, with `heads` and their tokens.

        Args:
            text: what it reads.
            target: what a decoder reads; None = what it predicts.
            output: a picture to write, .png or .html.
        """
        path = None if output is None else Path(output)
        return [dict(one) for one in draw_attention(str(self.folder), text, target, path)]

    def _run(self, study: PreparedStudy, progress: bool) -> Self:
        run_shown(study, progress)
        return type(self)(study.folder)

    @contextmanager
    def _read(self, config: StudyConfig | None = None) -> Iterator[tuple[PreparedStudy, Record, Verdict]]:
        study = known_study(str(self.folder), config)
        with read_results(study) as (record, verdict):
            yield study, record, verdict
