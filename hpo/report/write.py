"""Writes a study's report, and publishes the files with which others can read, reproduce and replay the study."""

import hashlib
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hpo.config.documents import yaml_text
from hpo.errors import StudyError
from hpo.files import write_atomically
from hpo.report.figures import Drawing, draw_figures, left_out
from hpo.report.pages.checklist import render_checklist
from hpo.report.pages.latex import render_latex
from hpo.report.pages.report_page import render_report_markdown, render_report_page
from hpo.report.sections.report import ReportJson, summarise
from hpo.report.subject import Subject, score_of
from hpo.study.files.folder import TEST_LOG, StudyFolder, refuse_link
from hpo.study.files.imports import write_imports
from hpo.study.notes import FinalModel
from hpo.study.results.run import StudyRun
from hpo.study.study import PreparedStudy
from hpo.study.winner.final_model import best_config
from hpo.trials.curve_table import curves_table
from hpo.trials.estimate import ExpectedScore
from hpo.trials.table import trials_table, write_trials

STUDIES = Path("studies")
CURVES = "curves.csv"

# The published files of a study. They leave out the database, the weights and the data, because `hpo reproduce` and
# `hpo search --replay` do not need them.
_STUDY_FILES = (
    *("config.yaml", "trials.csv", CURVES, "imports.csv", "report.md", "report.json", "environment.json"),
    *("best.yaml", "test.json", TEST_LOG),
)
# The published files of a comparison. They leave out the page, because it contains plotly (5 MB) and `hpo compare`
# writes it again from the other files.
_COMPARISON_FILES = (
    *("comparison.md", "comparison.json", "comparison.csv", "comparison.yaml"),
    *("searches.csv", "environment.json"),
)


@dataclass(frozen=True)
class WrittenReport:
    """A written report: its files in reading order, the content of report.json, and metrics for a tracker."""

    paths: tuple[Path, ...]
    summary: ReportJson
    metrics: Mapping[str, float]


def write_report(study: PreparedStudy, run: StudyRun, has_page: bool = True) -> WrittenReport:
    """Write the report's files into the study's folder.

    The files are trials.csv, curves.csv, report.json, report.md and report.html. If the study has imported trials, also
    write imports.csv. If there is a winner, also write best.yaml. If `has_page` is False, delete report.html
    instead of writing it. Writing it takes seconds.
    """
    folder = study.folder
    trials, winner = run.trials, run.winner
    table = trials_table(trials, study.space.keys, study.goal, study.layout)
    write_trials(folder.trials_path, table)
    write_trials(folder.path / CURVES, curves_table(trials, study.layout))
    if imported := run.notes.imports:
        write_imports(folder.imports_path, imported, study.space.keys, study.goal)
    if winner is not None:
        text = yaml_text(best_config(study.as_of(run.notes.allowed_changes, winner), winner))
        write_atomically(folder.best_path, text)
    # One subject for report.json and the figures, so that importances and contributions are computed once.
    subject = Subject.of(study, run)
    summary = summarise(study, run, subject, _hashes(study, run.model))
    json_path, markdown_path, page_path = (folder.path / f"report.{kind}" for kind in ("json", "md", "html"))
    folder.write_json(json_path, summary)
    write_atomically(markdown_path, render_report_markdown(summary))
    if has_page:
        order = [trial.number for trial in subject.in_order]
        write_atomically(page_path, render_report_page(summary, _drawings(study, subject), table, order))
    else:
        page_path.unlink(missing_ok=True)
    paths = [page_path] if has_page else []
    paths += [markdown_path, json_path, folder.trials_path, folder.config_path, folder.environment_path]
    metrics = {"trials_proposed": float(len(trials))}
    for state in ("complete", "failed", "stopped"):
        if (number := sum(trial.state == state for trial in trials)) or state != "stopped":
            metrics[f"trials_{state}"] = float(number)
    if winner is not None:
        paths.append(folder.best_path)
        metrics |= {"best_score": score_of(run.fresh_winner or winner), "best_trial": float(winner.number)}
    if expected := ExpectedScore.of(summary):
        metrics["expected_score"] = expected.value
    return WrittenReport(tuple(paths), summary, metrics)


def _drawings(study: PreparedStudy, subject: Subject) -> tuple[Drawing, ...]:
    """Return the page's figures; with `report.figures=false`, return placeholders that name the drawing command."""
    if study.config.report.figures:
        return draw_figures(subject)
    how = f"hpo report {study.reference} report.figures=true draws the figures"
    return left_out(subject.goal, f"report.figures is false; {how}")


def write_checklist(study: PreparedStudy, report: ReportJson) -> Path:
    """Write checklist.md and return its path."""
    path = study.folder.path / "checklist.md"
    write_atomically(path, render_checklist(report))
    return path


def write_latex(study: PreparedStudy, report: ReportJson) -> Path:
    """Write tables.tex and return its path."""
    path = study.folder.path / "tables.tex"
    write_atomically(path, render_latex(report))
    return path


def _hashes(study: PreparedStudy, model: FinalModel | None) -> dict[str, str]:
    """Return the SHA-256 of files next to the report, by path. A reproduction compares these hashes."""
    folder = study.folder
    paths = [folder.trials_path, folder.config_path, folder.environment_path, folder.best_path, folder.imports_path]
    paths += sorted((folder.path / model.checkpoint_dir).rglob("*")) if model else []
    by_name = {path.relative_to(folder.path).as_posix(): path for path in paths if path.is_file()}
    return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in by_name.items()}


def publish(study: PreparedStudy) -> list[Path]:
    """Copy the study's files into `studies/<name>/`, replace an older publication, and return the copies' paths.

    Raises:
        StudyError: the study's own folder is the target, the target is a link, or a link leads out of the study's
            folder.
    """
    return _copy_files(study.folder.path, study.config.study.name, _STUDY_FILES)


def publish_comparison(folder: Path, name: str) -> list[Path]:
    """Copy a comparison into `studies/<name>/` as `publish` does, but leave out the comparison's page of 5 MB."""
    return _copy_files(folder, name, _COMPARISON_FILES)


def _copy_files(folder: Path, name: str, files: Sequence[str]) -> list[Path]:
    target = STUDIES / name
    refuse_link(target)
    StudyFolder(folder).refuse_links()
    if target.resolve() == folder.resolve():
        raise StudyError(f"publish: {target} cannot be copied to itself; give a study or comparison that is in runs/")
    target.mkdir(parents=True, exist_ok=True)
    # Other users may read published files, unlike the files in runs/.
    for place in (STUDIES, target):
        place.chmod(0o755)
    published = []
    for file in files:
        # A link would redirect the copy to another path.
        (target / file).unlink(missing_ok=True)
        if (folder / file).exists():
            shutil.copyfile(folder / file, target / file)
            (target / file).chmod(0o644)
            published.append(target / file)
    return published
