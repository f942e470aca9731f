"""Writes the report of a study: the table of trials, the figures, the page, and the winner's configuration."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hpo.config.documents import yaml_text
from hpo.config.files import write_atomically
from hpo.engine.record.record import Record
from hpo.engine.trials.table import trials_table, write_trials
from hpo.report.figures import draw_figures
from hpo.report.pages.checklist import render_checklist
from hpo.report.pages.latex import render_latex
from hpo.report.pages.markdown import render_report_markdown
from hpo.report.pages.report_page import render_report_page
from hpo.report.sections.report import ReportJson, summarise
from hpo.report.subject import Subject
from hpo.study.files.imports import write_imports
from hpo.study.notes import FinalModel, Notes
from hpo.study.study import Study
from hpo.study.winner.final_model import best_config
from hpo.study.winner.verdict import Verdict


@dataclass(frozen=True)
class WrittenReport:
    """What was written.

    Attributes:
        paths: the files, the one to look at first.
        summary: what report.json holds.
        metrics: the numbers that a tracker shows.
    """

    paths: tuple[Path, ...]
    summary: ReportJson
    metrics: Mapping[str, float]


def write_report(study: Study, record: Record, verdict: Verdict, has_page: bool = True) -> WrittenReport:
    """Write trials.csv, report.json, report.md, report.html and, where there is a winner, best.yaml into its folder.

    Args:
        study: the study.
        record: its record, for the notes.
        verdict: the verdict of its search.
        has_page: whether report.html is written, which takes seconds; else an older one, now outdated, is removed.
    """
    folder = study.folder
    trials, winner = verdict.trials, verdict.winner
    table = trials_table(trials, study.space.keys, study.config.study.metric, study.layout)
    write_trials(folder.trials_path, table)
    if imported := Notes(record).imports:
        write_imports(folder.imports_path, imported, study.space.keys)
    if winner is not None:
        text = yaml_text(best_config(study.as_of(Notes(record).allowed_changes, winner), winner))
        write_atomically(folder.best_path, text)
    # Its importances and contributions are worked out once, for report.json and the figures.
    subject = Subject.of(study, verdict, record.stretches)
    summary = summarise(study, record, verdict, subject, _hashes(study, verdict.model))
    json_path, markdown_path = folder.path / "report.json", folder.path / "report.md"
    folder.write_json(json_path, summary)
    write_atomically(markdown_path, render_report_markdown(summary))
    page_path = folder.path / "report.html"
    if has_page:
        write_atomically(page_path, render_report_page(summary, draw_figures(subject), table))
    else:
        page_path.unlink(missing_ok=True)
    paths = [
        *([page_path] if has_page else ()),
        markdown_path,
        json_path,
        folder.trials_path,
        folder.config_path,
        folder.environment_path,
    ]
    states = [trial.state for trial in trials]
    metrics = {"trials_proposed": float(len(states))}
    metrics |= {f"trials_{state}": float(states.count(state)) for state in ("complete", "failed")}
    if winner is not None:
        paths.append(folder.best_path)
        assert winner.score is not None
        metrics |= {"best_score": winner.score, "best_trial": float(winner.number)}
    return WrittenReport(tuple(paths), summary, metrics)


def write_checklist(study: Study) -> Path:
    """Write checklist.md from report.json, and return its path."""
    return _write_from_report(study, "checklist.md", render_checklist)


def write_latex(study: Study) -> Path:
    """Write tables.tex from report.json, and return its path."""
    return _write_from_report(study, "tables.tex", render_latex)


def _write_from_report(study: Study, name: str, render_text: Callable[[ReportJson], str]) -> Path:
    path = study.folder.path / name
    write_atomically(path, render_text(json.loads((study.folder.path / "report.json").read_text(encoding="utf-8"))))
    return path


def _hashes(study: Study, model: FinalModel | None) -> dict[str, str]:
    """Return the SHA-256 of the files beside the report, by the path within the study's folder.

    From them a reproduction detects a changed file. Not included are the report itself and files that a publication
    leaves out, except the winner's model.
    """
    folder = study.folder
    paths = [folder.trials_path, folder.config_path, folder.environment_path, folder.best_path, folder.imports_path]
    paths += sorted((folder.path / model.checkpoint_dir).glob("*")) if model else []
    return {path.relative_to(folder.path).as_posix(): _sha256(path) for path in paths if path.is_file()}


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
