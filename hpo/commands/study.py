"""A study as Python users see it: its trials, its best and its front, and what shows them."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpo.commands.best import Best, best_of, front_table
from hpo.commands.continued import ContinuedStudy
from hpo.commands.resume import changed_config, write_reports
from hpo.errors import StudyError, nearest
from hpo.report.figures import FIGURES, Drawn, draw_figures
from hpo.report.sections.report import report_schema
from hpo.report.subject import Subject
from hpo.session.script import run_shown
from hpo.show.lines import summary_html, summary_lines
from hpo.study.opening import change_choice
from hpo.study.study import PreparedStudy
from hpo.trials.table import trials_table

if TYPE_CHECKING:
    import pandas as pd

    from hpo.commands.serve import Page


class Study(ContinuedStudy):
    """A study in its folder, read anew at each question."""

    @property
    def trials(self) -> "pd.DataFrame":
        """One row per trial: number, state, score, the searched values, folds, seconds, error; as in trials.csv."""
        with self._read() as (study, _, verdict):
            table = trials_table(verdict.trials, study.space.keys, study.goal, study.layout)
            return table.infer_objects()

    @property
    def best(self) -> Best:
        """The winner, with several metrics the chosen one; StudyError where no trial is complete within the limits."""
        with self._read() as (study, _, verdict):
            return best_of(study, verdict)

    @property
    def front(self) -> "pd.DataFrame":
        """One row per trial within the limits that no other dominates, the best in the leading metric first.

        Columns: number; `is_chosen`, whether it is the best; each metric and what has a limit, by name, and of several
        folds or repeats its standard error over them, as `NAME_standard_error`, all in the search; of finalists each on
        their fresh seeds, as `NAME_on_fresh_seeds`; the searched values; amount, under a strategy that trains by
        amounts. Of two columns of the same name the second has `metric.` before it, or `space.` where it is of a
        searched value. The best is there even if fresh seeds chose one that another dominates in the search. With one
        metric it is the best alone.
        """
        with self._read() as (study, _, verdict):
            return front_table(study, verdict)

    def choose(self, how: str | Mapping[str, Any], *, save: bool = False) -> Best:
        """Return which one of the front is the best by another choice.

        With `study.finalists` the finalists are others by another choice: where not all of these were trained again on
        fresh seeds, it goes by the search's scores. With `save`, `resume` trains them, and then their fresh scores
        decide, perhaps for another one.

        Args:
            how: as `choose` of `hpo.search`: `"knee"`, `"first_within_limits"`, weights such as
                `{"accuracy": 0.7, "latency": 0.3}`, or `{"best": "accuracy", "within": {"latency": "5 %"}}`.
            save: whether it becomes the study's own, as by `hpo resume STUDY study.choose=...`: `best` is chosen by it
                from then on, `resume` trains what its winner lacks, such as its model, and that it was changed is kept
                with the study.

        Raises:
            hpo.HpoError: there is no such choice, or it names what is no metric of the study; no trial is complete
                within the limits; or, with `save`, the study runs just now.
        """
        config = changed_config(self._folder, {"study.choose": dict(how) if isinstance(how, Mapping) else how})
        with self._read(config) as (study, _, verdict):
            best = best_of(study, verdict)
        if save:
            change_choice(study)
            self.report()
        return best

    def report(
        self, *, publish: bool = False, checklist: bool = False, latex: bool = False, **said: str | None
    ) -> Path:
        """Write the report and return the path of its page.

        Args:
            publish: whether to copy what others need into studies/<name>/.
            checklist: whether to write checklist.md, too.
            latex: whether to write tables.tex, too.
            said: what only you know, by the keys of conf/report, such as `title="..."`.
        """
        paths = write_reports(str(self.folder), said, publish=publish, checklist=checklist, latex=latex).paths
        return next(path for path in paths if path.suffix == ".html")

    @staticmethod
    def report_schema() -> dict[str, Any]:
        """Return what report.json holds, as JSON Schema."""
        return report_schema()

    def plot(self, figure: str = "best_so_far") -> Any:
        """Return a figure of the report, as one of plotly, which a notebook shows: `best_so_far`, `importance`, ...

        A notebook keeps it as a picture, too, for GitHub and exports; all but `contours`, which need a browser.

        Raises:
            StudyError: there is no such figure, or this study has nothing to show there.
        """
        # Here, since it loads plotly.
        from hpo.report.pages.picture import NotebookFigure

        figures = {name.replace("-", "_"): name for name in FIGURES}
        if figure not in figures:
            raise StudyError(f"figure: must be one of {', '.join(figures)}, given {figure!r}{nearest(figure, figures)}")
        with self._read() as (study, record, verdict):
            (drawing,) = draw_figures(Subject.of(study, record, verdict), [figures[figure]])
        content = drawing.content
        if not isinstance(content, Drawn):
            raise StudyError(f"figure: {figure} has nothing to show: {content.reason}")
        return NotebookFigure(content.figure)

    def watch(self, height: int = 800) -> "Page":
        """Serve its live page beside this process, and return it: a notebook shows it in the cell.

        It follows a search that runs, here in a thread or in any other process, and changes nothing.

        Args:
            height: of the page in the cell, in pixels.

        Returns:
            The page, with its `address` for any browser of this machine; `close()`, or the end of this process, ends
            it.
        """
        from hpo.commands.serve import open_page

        return open_page(str(self.folder), height)

    def __repr__(self) -> str:
        return f"hpo.load({str(self._folder)!r})"

    def __str__(self) -> str:
        """Return how many trials there are, the winner with its point, and where the report is."""
        return "\n".join(summary_lines(self.status))

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the winner, and how many trials there are."""
        return summary_html(self.status)


def run(study: PreparedStudy, progress: bool) -> Study:
    """Run a prepared study to its budget, and return it as Python users see it; KeyboardInterrupt after a signal."""
    run_shown(study, progress)
    return Study(study.folder)
