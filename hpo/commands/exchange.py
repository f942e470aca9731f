"""What other programs get of a study, and give to one: MLflow, Optuna storages, Ray Tune, tables."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hpo.commands.resume import changed_config
from hpo.config.directions import known_direction
from hpo.config.goals import Direction
from hpo.config.keys import flatten
from hpo.config.study_config import study_name
from hpo.errors import ConfigError, StudyError
from hpo.integrations.exchange.csv_table import read_csv
from hpo.integrations.exchange.imported import Imported, import_folder, renamed, write_import
from hpo.integrations.exchange.ray_folder import read_ray
from hpo.report.write import WrittenReport, write_report
from hpo.study.basis.described import Described
from hpo.study.files.folder import find_study, short_path
from hpo.study.opening import read_study, stored_record
from hpo.study.preparing.preparation import known_study
from hpo.study.study import PreparedStudy
from hpo.study.winner.full_training import further_trainings, join_trainings
from hpo.study.winner.verdict import read_verdict
from hpo.track.projection import send_study
from hpo.trials.record.record import Record
from hpo.trials.space.reader import space_from_dict
from hpo.trials.trial import TaskLayout

# The options that have an effect for each source.
_OPTIONS = {"optuna": ("study",), "ray": ("metric", "direction"), "csv": ("metric", "direction", "keys")}


class Sent(NamedTuple):
    """What was sent of a study, and whether MLflow took all of it."""

    study: PreparedStudy
    record: Record
    report: WrittenReport
    is_all: bool


def send(name: str, overrides: Sequence[str] = ()) -> Sent:
    """Send what MLflow does not have of a study, and wait for it."""
    study = known_study(name, changed_config(find_study(name), ["track.name=mlflow", *overrides]))
    with study.folder.lock():
        record = read_study(study)
        verdict = read_verdict(study, record)
        report = write_report(study, record, verdict)
        # The command waits without a limit while data still arrives.
        return Sent(study, record, report, send_study(study, record, verdict, report, math.inf))


def export_study(study: str, url: str, name: str | None = None) -> tuple[str, int, int]:
    """Copy a study; return its name there, and the numbers of trials copied and left out."""
    # Here, since these two load Optuna, which nothing else here needs.
    from hpo.integrations.exchange.optuna_storage import export_study as copy_study
    from hpo.trials.record.storage import read_record

    folder = find_study(study)
    config = folder.config()
    name = name or config.study.name
    space = space_from_dict(config.space, flatten(config.objective_config))
    described = Described.at(short_path(folder.described_path))
    if described is None:
        raise StudyError(f"{short_path(folder.described_path)}: is missing; restore the file")
    layout = TaskLayout(described.folds, config.study.repeats)
    source = stored_record(config, folder, space, layout)
    # Also because a copy of a record that has lost trials would silently lack them.
    record = read_record(source)
    further = further_trainings(config, record)
    trials = join_trainings(record.trials(), further)
    record.close()
    trained_further = [trials[each.number] for each in further]
    constraints = {trial.number: beyond for trial in trials if (beyond := source.goal.beyond(trial))}
    return name, *copy_study(source.url, source.name, url, name, trained_further, layout, constraints)


def import_trials(
    name: str,
    *,
    csv: Path | str | None = None,
    optuna: str | None = None,
    ray: Path | str | None = None,
    study: str | None = None,
    metric: str | None = None,
    direction: Direction | None = None,
    keys: Sequence[str] | None = None,
    rename: Mapping[str, str] | None = None,
) -> Path:
    """Take over finished trials made elsewhere, as `hpo import` does, for `settings={"study.imports": name}`.

    Args:
        name: a folder under runs/ that is made.
        csv: a table with a header and one row per trial; with the column `metric`.
        optuna: an Optuna storage, such as `"sqlite:///old.db"` or `"journal://old.log"`.
        ray: the folder of a Ray Tune experiment; with the result `metric` that was searched for.
        study: the name of the study in an Optuna storage that has several.
        metric: the column or result that is the score.
        direction: which way is better; with `csv` and `ray` needed but for a few names such as `val_loss`.
        keys: the columns that are hyperparameters; None = all others.
        rename: from old names of hyperparameters and metrics to new.

    Returns:
        The table of the trials.
    """
    sources = {"optuna": optuna, "ray": None if ray is None else str(ray), "csv": None if csv is None else str(csv)}
    options = {"study": study, "metric": metric, "direction": direction, "keys": keys}
    return take_over(name, sources, options, rename or {})[0]


def take_over(
    name: str, sources: Mapping[str, str | None], options: Mapping[str, Any], rename: Mapping[str, str]
) -> tuple[Path, Imported]:
    """Write trials from one of the sources to runs/<name>, as `import_trials`; return the table's path and the trials.

    What was not given of the sources and options is None.
    """
    given = {source: place for source, place in sources.items() if place is not None}
    if len(given) != 1:
        raise ConfigError(f"one of optuna, ray and csv must be given, given {', '.join(given) or 'none'}")
    ((source, place),) = given.items()
    for option, value in options.items():
        if value is not None and option not in _OPTIONS[source]:
            raise ConfigError(f"{option}: has no effect with {source}; remove it")
    metric, direction, keys = options["metric"], options["direction"], options["keys"]
    if isinstance(keys, str):
        raise ConfigError(f"keys: must be a list of columns, given {keys!r}")
    if direction not in (None, "maximize", "minimize"):
        raise ConfigError(f"direction: must be maximize or minimize, given {direction!r}")
    if source == "optuna":
        from hpo.integrations.exchange.optuna_storage import read_optuna, refuse_record

        refuse_record(place)
    path = import_folder(study_name(name, "name"))
    if source == "optuna":
        imported = read_optuna(place, options["study"])
    elif source == "csv":
        metric = metric or "score"
        imported = read_csv(Path(place).expanduser(), metric, keys, _direction(metric, direction))
    elif metric:
        imported = read_ray(Path(place).expanduser(), metric, _direction(metric, direction))
    else:
        raise ConfigError("metric: must name the result that was searched for, such as val_loss")
    imported = renamed(imported, rename)
    write_import(path, imported)
    return path / "trials.csv", imported


def _direction(metric: str, given: Direction | None) -> Direction:
    if (direction := given or known_direction(metric)) is None:
        raise ConfigError(
            f"direction: is missing, and the metric {metric!r} does not say which way is better; give minimize or "
            f"maximize"
        )
    return direction
