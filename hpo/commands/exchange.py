"""`sync`, `export` and `import`: exchange of studies with MLflow, Optuna, Ray Tune and CSV files."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from hpo.commands.arguments import Fields, Overrides, StudyRef, Word, list_of, refuse_without_effect, unique
from hpo.commands.given.objects import named
from hpo.config.goals import Direction
from hpo.config.keys import flatten
from hpo.config.secrets import hide_secrets
from hpo.config.study_config import study_name
from hpo.errors import ConfigError, StudyError, printable
from hpo.study.files.folder import find_study, short_path

# The options that apply to each source. Any other option has no effect with the source.
_OPTIONS = {"optuna": ("study",), "ray": ("metric", "direction"), "csv": ("metric", "direction", "keys")}


@dataclass(frozen=True)
class Synced(Fields):
    """The trials and files of a study in MLflow after `sync`.

    Attributes:
        study: the study's name.
        reference: the argument STUDY with which commands find the study (its name under runs/, or its folder).
        uri: the address of MLflow.
        recorded: how many ended trials the record has.
        there: how many ended trials MLflow has; `null` = unknown, because MLflow did not receive everything.
        missing: files of the report that MLflow does not have.
    """

    study: str
    reference: str
    uri: str
    recorded: int
    there: int | None = None
    missing: Sequence[str] = ()

    @property
    def exit_code(self) -> int:
        """The exit code: 0 if MLflow has all trials of the record and all files of the report, else 1."""
        return 0 if self.there == self.recorded and not self.missing else 1

    def __str__(self) -> str:
        if self.there is None:
            return f"could not send all {self.recorded} trials and the report to {self.uri}"
        if not self.exit_code:
            return f"{self.recorded} trials are in {self.uri}"
        lines = [f"{self.uri} has {self.there} trials of this study, the record has {self.recorded}"]
        if self.there > self.recorded:
            again = f"`hpo resume {self.reference} --as NEW`"
            lines.append(
                f"a copy of this study has sent trials to the MLflow run of this study; {again} makes a new run"
            )
        if self.missing:
            lines.append(f"missing in MLflow: {', '.join(self.missing)}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Exported(Fields):
    """A study's copy in another Optuna storage.

    Attributes:
        study: the study's name in the other storage.
        url: the address of the other storage.
        trials: how many trials were copied.
        left_out: how many trials were not copied, because they are not finished.
    """

    study: str
    url: str
    trials: int
    left_out: int

    def __str__(self) -> str:
        unfinished = f" ({self.left_out} unfinished left out)" if self.left_out else ""
        return f"{self.trials} trials{unfinished}: study '{self.study}' in {self.url}"


@dataclass(frozen=True)
class ImportedTrials(Fields):
    """Trials imported from Optuna, Ray Tune or a CSV file; `os.fspath` returns the path of `table`.

    Attributes:
        name: the name that selects these trials in `study.imports`.
        table: the table of the trials.
        trials: how many trials were imported, including failed trials.
        failed: how many of these trials failed.
        unfinished: how many trials were left out, because they are not finished.
        pruned: how many trials were left out, because a pruner stopped them.
        metrics: the directions of the metrics by name, the leading metric first.
        left_out: hyperparameters that were left out, because some of their values are lists or mappings.
        constraints: the names of the Optuna study's constraints, which do not become limits.
    """

    name: str
    table: Path
    trials: int
    failed: int
    unfinished: int
    pruned: int
    metrics: Mapping[str, Direction]
    left_out: Sequence[str]
    constraints: Sequence[str]

    def __fspath__(self) -> str:
        return str(self.table)

    def __str__(self) -> str:
        counts = {"unfinished": self.unfinished, "pruned": self.pruned}
        left_out = "".join(f", {count} {name} left out" for name, count in counts.items() if count)
        goal = ", ".join(f"{name} ({direction})" for name, direction in self.metrics.items())
        lines = [
            f"{self.trials} trials, {self.failed} failed{left_out}: {short_path(self.table)}",
            f"metric: {printable(goal)}",
        ]
        if self.left_out:
            lines.append(
                f"hyperparameters left out, because some values are lists or mappings: {', '.join(self.left_out)}"
            )
        if self.constraints:
            names = printable(", ".join(self.constraints))
            limits = "to limit a metric, set study.limits={METRIC: ...}"
            lines.append(f"constraints that do not become limits: {names}; {limits}")
        return "\n".join([*lines, f"to use these trials in a search: hpo search study.imports={self.name} ..."])


def sync(study: StudyRef, uri: Annotated[str | None, Word(is_hidden=True)] = None, overrides: Overrides = ()) -> Synced:
    """Send the trials and files of a study that are missing in MLflow; change nothing that MLflow has already.

    Args:
        uri: the address of another MLflow; None = the address in the study's configuration.
        overrides: track.uri=..., the address of another MLflow.

    Raises:
        hpo.HpoError: the study is running, an override changes a key outside of `track`, or (only from Python)
            MLflow cannot be reached.

    Examples:
        hpo sync digits                                       to the study's own MLflow
        hpo sync digits track.uri=http://127.0.0.1:5000
    """
    from hpo.commands.resume import changed_config
    from hpo.report.write import write_report
    from hpo.study.opening import read_study
    from hpo.study.preparing.preparation import known_study
    from hpo.study.results.run import StudyRun
    from hpo.track.make import tracking_uri
    from hpo.track.projection import send_study
    from hpo.track.store import read_contents

    for override in overrides:
        if not override.startswith("track."):
            key = override.partition("=")[0]
            raise ConfigError(f"{key}: has no effect on `hpo sync`, which reads only keys of track; leave {key} out")
    changes = ["track.name=mlflow", *overrides, *([] if uri is None else [f"track.uri={uri}"])]
    known = known_study(str(study), changed_config(find_study(str(study)), changes))
    with known.folder.lock():
        run = StudyRun.of(known, read_study(known))
        report = write_report(known, run)
        # Wait without a limit, as long as MLflow receives data.
        is_all = send_study(known, run, report, math.inf)
    address, recorded = hide_secrets(known.config.track.uri, {}), len(run.record.history())
    sent = Synced(known.config.study.name, known.reference, address, recorded)
    if not is_all:
        return sent
    trials, files = read_contents(tracking_uri(known.config), run.notes.study_id or "")
    return replace(sent, there=trials, missing=[path.name for path in report.paths if path.name not in files])


def export(
    study: StudyRef,
    url: Annotated[str, Word("URL", option="--optuna")],
    name: Annotated[str | None, Word(option="--name")] = None,
) -> Exported:
    """Copy a study into another Optuna storage, for optuna-dashboard and `optuna.load_study`.

    Args:
        url: the storage, such as sqlite:///shared.db.
        name: the name of the copy (default: the study's name).

    Raises:
        hpo.HpoError: a storage cannot be opened, or the other storage has a study of this name already.

    Examples:
        hpo export digits --optuna sqlite:///shared.db
        hpo export digits --optuna postgresql://user:password@host/optuna --name digits-2026
    """
    from hpo.integrations.exchange.optuna_storage import export_study
    from hpo.study.basis.described import Described
    from hpo.study.opening import stored_record
    from hpo.study.results.run import StudyRun
    from hpo.trials.record.storage import read_record
    from hpo.trials.space.reader import space_from_dict
    from hpo.trials.trial import TaskLayout

    folder = find_study(str(study))
    config = folder.config()
    name = name or config.study.name
    space = space_from_dict(config.space, flatten(config.objective_config))
    described = Described.at(short_path(folder.described_path))
    if described is None:
        raise StudyError(f"{short_path(folder.described_path)}: is missing; restore the file")
    layout = TaskLayout(described.folds, config.study.repeats)
    source = stored_record(config, folder, space, layout)
    # This refuses a record that has lost trials, which the copy would silently lack.
    run = StudyRun(folder, config, space, read_record(source), described)
    run.record.close()
    counts = export_study(source, run, url, name)
    return Exported(name, hide_secrets(url, {}), *counts)


def _new_names(text: str) -> dict[str, str]:
    pairs = [pair.partition("=") for pair in list_of(str)(text)]
    for old, _, new in pairs:
        if not old.strip() or not new.strip():
            raise ConfigError(f"--rename: must be OLD=NEW, or several of these separated by commas, given '{text}'")
    return unique(((old.strip(), new.strip()) for old, _, new in pairs), "--rename")


def import_trials(
    name: str,
    *,
    optuna: Annotated[str | None, Word("URL")] = None,
    ray: Annotated[str | Path | None, Word("FOLDER")] = None,
    csv: Annotated[str | Path | None, Word("FILE")] = None,
    study: Annotated[str | None, Word("OTHER")] = None,
    metric: Annotated[str | None, Word("NAME")] = None,
    direction: Direction | None = None,
    keys: Annotated[Sequence[str] | None, Word("A,B", read=list_of(str))] = None,
    rename: Annotated[Mapping[str, str] | None, Word("OLD=NEW,...", read=_new_names)] = None,
) -> ImportedTrials:
    """Import the finished trials of a study from another tool; a search with `study.imports=NAME` uses these trials.

    One of --optuna, --ray and --csv is needed.

    Args:
        name: the new folder under runs/.
        optuna: the URL of an Optuna storage, such as sqlite:///old.db or journal://old.log.
        ray: the folder of a Ray Tune experiment, with its JSON files.
        csv: a table with a header and one row per trial.
        study: with --optuna, the study's name; needed if the storage has several studies.
        metric: with --ray, the name of the result; with --csv, the column of the score (default: score).
            The trials.csv of an hpo study needs neither metric nor direction.
        direction: with --ray or --csv, maximize or minimize; optional for metrics with known names, such as val_loss.
        keys: with --csv, the columns of hyperparameters (default: the columns named params_... or config/...).
            If the table has no such columns, the default is all columns, except the metric's column and columns with a
            known name (number, state, seconds, fold_... and so on).
        rename: new names of hyperparameters and metrics.

    Raises:
        hpo.HpoError: the folder exists, an argument is not allowed, or the trials cannot be read.

    Examples:
        hpo import old --optuna sqlite:///old.db --study transformer --rename lr=training.lr
        hpo import sweep --ray ~/ray_results/train_2026 --metric val_loss --direction minimize
        hpo import table --csv results.csv --metric dev_bleu --keys training.lr,model.num_layers
        hpo search study.name=new study.imports=old
    """
    from hpo.integrations.exchange.imported import direction_of, import_folder, renamed, write_import

    sources = {"optuna": optuna, "ray": ray, "csv": csv}
    given = {source: str(place) for source, place in sources.items() if place is not None}
    if len(given) != 1:
        raise ConfigError(f"optuna, ray, csv: give one of them, given {', '.join(given) or 'none'}")
    ((source, place),) = given.items()
    options = {"study": study, "metric": metric, "direction": direction, "keys": keys}
    others = {name: value for name, value in options.items() if name not in _OPTIONS[source]}
    refuse_without_effect(others, f"with {source}")
    if isinstance(keys, str):
        raise ConfigError(f"keys: must be a list of columns, given {keys!r}")
    if direction not in (None, "maximize", "minimize"):
        raise ConfigError(f"direction: must be maximize or minimize, given {direction!r}")
    if source == "optuna":
        from hpo.integrations.exchange.optuna_storage import read_optuna, refuse_record

        # Check this before the name, because a study of this toolkit needs no import under any name.
        refuse_record(place)
    path = import_folder(study_name(name, "name"))
    if source == "optuna":
        imported = read_optuna(place, study)
    elif source == "csv":
        from hpo.integrations.exchange.csv_table import read_csv
        from hpo.study.files.imports import metrics_of_table
        from hpo.trials.goal import Goal
        from hpo.trials.table import metric_columns, read_rows

        table = Path(place).expanduser()
        theirs = {} if metric or direction or table.name != "trials.csv" else metrics_of_table(table)
        metrics: dict[str, Direction | None] = {metric or "score": direction}
        names: dict[str, str] = {}
        if theirs:
            # The column `score` has the leading metric.
            row = next(iter(read_rows(table, ("score",))), {})
            names = {column: name for name, column in metric_columns(row, Goal(theirs)).items()}
            metrics = {column: theirs[name] for column, name in names.items()}
        imported = read_csv(table, metrics, keys)
        imported = renamed(
            imported, {old: new for old, new in names.items() if old not in named("rename", rename or {})}
        )
    elif metric:
        from hpo.integrations.exchange.ray_folder import read_ray

        imported = read_ray(Path(place).expanduser(), metric, direction_of(metric, direction))
    else:
        raise ConfigError("metric: is missing; give the name of the result that was optimized, such as val_loss")
    imported = renamed(imported, named("rename", rename or {}))
    write_import(path, imported)
    return ImportedTrials(
        name=name,
        table=(path / "trials.csv").absolute(),
        trials=len(imported.attempts),
        failed=imported.num_failed,
        unfinished=imported.num_unfinished,
        pruned=imported.num_pruned,
        metrics=imported.metrics,
        left_out=imported.left_out,
        constraints=imported.constraints,
    )
