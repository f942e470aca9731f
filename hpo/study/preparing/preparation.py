"""Prepares a new or an existing study: runs the preflight checks, and creates nothing."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from hpo.config.composing.references import references_to, refuse_secrets
from hpo.config.goals import SCALE, changed_keys
from hpo.config.keys import differences, flatten, replaced
from hpo.config.shipped import MLFLOWS_OWN, shipped
from hpo.config.study_config import StudyConfig
from hpo.engine.strategies import find_strategy
from hpo.engine.strategies.first import FirstPoints
from hpo.errors import ConfigError, HpoError, StudyError
from hpo.study.basis.configurations import refuse_other_config, sources_of
from hpo.study.basis.described import Described
from hpo.study.basis.units import Units
from hpo.study.files.folder import RUNS, StudyFolder, find_study, short_path
from hpo.study.files.imports import Imports, imported_text, read_imports, table_path
from hpo.study.files.made_here import function_of
from hpo.study.preparing.checks import (
    notes_on_data,
    notes_on_measured,
    notes_on_space,
    refuse_bad_data,
    refuse_bad_parts,
    refuse_incomparable_metric,
)
from hpo.study.preparing.scales import notes_on_scales, refuse_imports_of_other_scales, with_scales
from hpo.study.study import PreparedStudy, is_outside
from hpo.trials.space.peers import as_number
from hpo.trials.space.reader import leaves, overridden, parted, space_from_dict
from hpo.trials.space.space import Space
from hpo.trials.space.written import as_meant
from hpo.workers.objective.objective import Objective
from hpo.workers.objective.pickled_function import PickledFunction
from hpo.workers.objective.resolution import resolve
from hpo.workers.training.splits import make_plan

_log = logging.getLogger(__name__)


def prepare_study(config: StudyConfig, pickled: PickledFunction | None = None, is_again: bool = False) -> PreparedStudy:
    """Run the preflight checks, and return the prepared study; create nothing.

    Args:
        pickled: the study's objective, if the objective was given from Python.
        is_again: whether the study repeats a recorded study. If so, accept a metric whose unit changes between trials.

    Raises:
        HpoError: a check fails.
    """
    return _with_data(_without_data(config, pickled, is_again))


def with_its_tracker(config: StudyConfig) -> StudyConfig:
    """Return the configuration, in which an existing study's MLflow server and experiment replace default values.

    The study's values may come from environment variables of MLflow that are no longer set. This function keeps all
    runs of the study on one server.
    """
    folder = StudyFolder(RUNS / config.study.name)
    if not folder.exists:
        return config
    defaults = shipped("track", "mlflow")
    before, now = folder.config().track.model_dump(), config.track.model_dump()
    restored = {key: before[key] for key in MLFLOWS_OWN if now[key] == defaults[key] != before[key]}
    if not restored or before["name"] != now["name"]:
        return config
    where = ", ".join(f"track.{key}={value}" for key, value in restored.items())
    _log.warning("study '%s' continues with its earlier MLflow settings: %s", config.study.name, where)
    return config.model_copy(update={"track": config.track.model_copy(update=restored)})


def refuse_bad_search(
    config: StudyConfig, pickled: PickledFunction | None = None, is_again: bool = False
) -> StudyConfig:
    """Run the checks of `prepare_study` that need no data, and return the configuration.

    Raises:
        HpoError: a check fails.
    """
    study = _without_data(config, pickled, is_again)
    _read_imports_of(study)
    return study.config


def _without_data(config: StudyConfig, pickled: PickledFunction | None, is_again: bool) -> PreparedStudy:
    folder = StudyFolder(RUNS / config.study.name)
    study = _check(config, folder, pickled)
    if not (folder.exists or is_again):
        refuse_incomparable_metric(study)
    return study


def _check(config: StudyConfig, folder: StudyFolder, pickled: PickledFunction | None) -> PreparedStudy:
    """Build a study from its configuration, run the checks that need no data, and return the study."""
    if is_outside(config):
        # In ask-and-tell the caller decides which results a proposal knows, so the order is free.
        config = config.with_study(order="free")
    objective = resolve(config.objective, str(Path.cwd()), config.secrets, pickled)
    objective.refuse_bad_config(config.objective_config)
    own = objective.search_description(config.objective_config)
    config = config.model_copy(update={"space": overridden(as_meant(replaced({}, own.space)), config.space)})
    config = _with_defaults(config, objective)
    config = with_scales(config, objective)
    space = space_from_dict(config.space, flatten(config.objective_config), own.points)
    config = _with_references(config, space)
    described = Described.of(objective.method(config.objective_config), None, None, own)
    strategy = find_strategy(config.strategy, space, config.study.seed)
    study = PreparedStudy(config, folder, objective, space, strategy, described, own)
    refuse_bad_parts(study)
    return study


def _with_data(study: PreparedStudy) -> PreparedStudy:
    """Read a study's data, run the checks that need data, and return the study with the data."""
    config, own = study.config, study.own
    examples = study.objective.examples(config.objective_config)
    if examples is None and (config.split.folds or 1) > 1:
        raise ConfigError(
            f"split.folds: must be 1, given {config.split.folds}; {study.objective.owner} has no describe_data, so "
            f"there are no data to split; set split.folds=1, or give `data` from Python"
        )
    imports, strategy = _read_imports_of(study), study.strategy
    if isinstance(strategy, FirstPoints):
        strategy = replace(strategy, imported=frozenset(trial.key for trial in imports.trials))
    plan = make_plan(examples, config.split) if examples else None
    notes = (
        *notes_on_space(study),
        *notes_on_measured(study),
        *notes_on_scales(config, study.strategy, imports.trials),
        *_notes_on_imports(study, imports),
        *notes_on_data(examples, plan),
    )
    own = replace(own, notes=(*own.notes, *notes))
    described = Described.of(study.described.method, examples, plan, own)
    study = replace(study, strategy=strategy, described=described, own=own, imports=imports)
    study = replace(study, examples=examples, plan=plan)
    refuse_bad_data(study)
    return study


def _with_defaults(config: StudyConfig, objective: Objective) -> StudyConfig:
    """Return the configuration with the objective's defaults for the keys that the space or the scales change."""
    if objective.describe_defaults is None:
        return config
    references = config.study.references or {}
    searched = [".".join(path) for path, _ in leaves(parted(config.space)[0])]
    varied = dict.fromkeys(key for key in (*searched, *changed_keys(config.study.scales)) if key != SCALE)
    # Skip a key to which others refer: the objective need not read it itself.
    keys = [key for key in varied if not references_to(references, [key])]
    defaults = objective.describe_defaults(config.objective_config, keys)
    own = replaced(config.objective_config, {key: as_number(value) for key, value in defaults.items()})
    return config.model_copy(update={"objective_config": own})


def _with_references(config: StudyConfig, space: Space) -> StudyConfig:
    """Return the configuration; in `study.references`, keep only the references to keys that trials change.

    For example, with the reference `${model.d_model}` for the key `data.dim`, trials set `data.dim` to the value of
    `model.d_model`.

    Raises:
        ConfigError: a key that has a reference is given another value, such as `data.dim` = 32 if `model.d_model` = 64.
    """
    section = config.study
    if section.references is None:
        return config
    references = references_to(section.references, [*space.keys, *changed_keys(section.scales)])
    refuse_secrets(references)
    config = config.with_study(references=references or None)
    for key, (given, resolved) in differences(config.objective_config, config.trial_config({})).items():
        raise ConfigError(
            f"{key}: must be {resolved!r}, given {given!r}; study.references sets {key} to the value of another key; "
            f"give {key}={resolved!r}, or remove {key} from study.references"
        )
    return config


def _read_imports_of(study: PreparedStudy) -> Imports:
    """Return the trials that a new study imports; return no trials for an existing study, which already has them."""
    section = study.config.study
    if section.imports is None or study.folder.exists:
        return Imports()
    for path in map(table_path, section.imported):
        if (folder := StudyFolder(path.parent)).exists and folder.environment_path.exists():
            folder.refuse_other_format()
        try:
            source_config = folder.config()
        except HpoError:  # a table without a study
            continue
        refuse_imports_of_other_scales(path, source_config, study.config)
        _refuse_imports_in_other_units(path, source_config, study)
    return read_imports(section.imported, study.space, study.goal, section.imports_fill)


def _notes_on_imports(study: PreparedStudy, imports: Imports) -> tuple[str, ...]:
    """Return a line about imported trials: their number, their metrics, and whether the strategy learns from them."""
    if not imports.trials:
        return ()
    name, metrics = study.config.strategy["name"], ", ".join(study.goal.names)
    # A strategy with amounts compares trials at the same step of their curves, and imported trials have no curve.
    # Only a ladder starts from fully trained trials of its smaller scales.
    learns = name == "ladder" or (study.strategy.learns != "never" and study.full_amount is None)
    use = "learns from the imported trials"
    if not learns:
        use = "does not learn from the imported trials, and does not propose their points again"
    unnamed = [table.source for table in imports.tables if not table.has_metrics]
    scores = "these trials" if len(imports.tables) == 1 else f"the trials of {' and '.join(unnamed)}"
    assumption = f"; the files do not name the metrics of {scores}, so the scores count as {metrics}" if unnamed else ""
    return (
        f"study.imports: {imported_text(imports.counts(), len(imports.trials))}{assumption}; strategy={name} {use}",
    )


def _refuse_imports_in_other_units(path: Path, config: StudyConfig, study: PreparedStudy) -> None:
    """Raise ConfigError if a metric has another unit in the imported trials than in this study."""
    folder, objective = StudyFolder(path.parent), study.config.objective
    if config.objective != objective:
        return
    units, others = Units.of(study.described.method, objective), Units.at(folder, config)
    for metric in study.goal.names:
        for key, (ours, theirs) in units.differences(metric, others).items():
            raise ConfigError(
                f"study.imports: scores of {path} and of this study cannot be compared, because the unit of {metric} "
                f"depends on {key}: {key} is {theirs!r} in the imported study, and {ours!r} in this study; give "
                f"{key}={theirs!r}, or import nothing"
            )


def load_study(
    name: str,
    config: StudyConfig | None = None,
    allow_changes: bool = False,
    elsewhere: Mapping[str, str] | None = None,
) -> PreparedStudy:
    """Return an existing study with its data; use `known_study` if no data are necessary.

    The data may have changed since the study began; `open_study` and `read_study` compare the data with the record.

    Args:
        name: the study's name under runs/, or its folder.
        config: the configuration; None = the frozen configuration. Without `allow_changes`, only `FREE_KEYS` (such
            as the budget and the workers) may differ from the frozen configuration.
        allow_changes: whether the study may continue although its basis has changed.
        elsewhere: new paths of the study's data sources, by key.

    Raises:
        HpoError: a check fails, `config` differs from the frozen configuration in a key that must not differ, the
            folder is a published copy, or this user does not trust the study's pickled objective.
    """
    folder = find_study(name)
    frozen = folder.config()
    _refuse_published(folder, frozen)
    if not allow_changes:
        refuse_other_config(frozen, config or frozen, name)
    config = at_places(config or frozen, elsewhere or {})
    try:
        study = _with_data(_check(config, folder, function_of(folder, frozen, name)))
    except HpoError as error:
        missing = missing_sources(config)
        if not missing:
            raise
        raise type(error)(f"{error}; if the data are elsewhere now, give {missing[0]}=PATH") from error
    return replace(study, allow_changes=allow_changes)


def _refuse_published(folder: StudyFolder, config: StudyConfig) -> None:
    """Raise StudyError for a folder that `hpo report --publish` wrote, because such a folder has no record."""
    has_record = config.study.storage is not None or any(folder.path.glob(f"{folder.database_path.name}*"))
    if has_record or not (folder.path / "report.json").exists() or (folder.path / "report.html").exists():
        return
    raise StudyError(
        f"study: {folder} was published without its record, and this command needs the record; use `hpo show`, "
        f"`hpo reproduce` or `hpo search --replay`, or run `hpo resume {config.study.name}` where the original study is"
    )


def known_study(name: str, config: StudyConfig | None = None) -> PreparedStudy:
    """Return an existing study without its data; this is enough to read or report it, but not to train or test.

    Args:
        name: the study's name under runs/, or its folder.
        config: the configuration, which may differ from the frozen configuration only in `FREE_KEYS`; None = the
            frozen configuration.

    Raises:
        HpoError: as for `load_study`.
    """
    folder = find_study(name)
    frozen = folder.config()
    _refuse_published(folder, frozen)
    refuse_other_config(frozen, config or frozen, name)
    described = Described.at(short_path(folder.described_path))
    if described is None:
        raise StudyError(f"{short_path(folder.described_path)}: is missing; restore the file")
    config = config or frozen
    objective = resolve(config.objective, str(Path.cwd()), config.secrets, function_of(folder, config, name))
    space = space_from_dict(config.space, flatten(config.objective_config), described.points)
    strategy = find_strategy(config.strategy, space, config.study.seed)
    return PreparedStudy(config, folder, objective, space, strategy, described)


def at_places(config: StudyConfig, places: Mapping[str, str]) -> StudyConfig:
    """Return the configuration with these new paths of data sources, by key; StudyError if a key is no data source."""
    sources = sources_of(config)
    for key in places:
        if key not in sources:
            raise StudyError(
                f"{key}: is not a data source of the study; its data sources are {', '.join(sources) or 'none'}"
            )
    return config.model_copy(update={"objective_config": config.trial_config(places)})


def missing_sources(config: StudyConfig) -> list[str]:
    """Return the keys of those data sources of a study whose files do not exist."""
    return [key for key, path in sources_of(config).items() if not Path(path).exists()]
