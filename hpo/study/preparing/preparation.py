"""Makes a study, a new or an existing one: checks everything that can be checked, and creates nothing."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from hpo.config.composing.references import references_to, refuse_secrets
from hpo.config.goals import SCALE, changed_keys
from hpo.config.keys import differences, flatten, replaced
from hpo.config.shipped import MLFLOWS_OWN, shipped, with_mlflows_own
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
    """Check everything that can be checked without creating anything, and return the study; HpoError for a fault.

    `kept` is its objective, if that was given from Python; `is_again`: whether it is read or run again as another has
    made it.
    """
    return _with_data(_without_data(config, pickled, is_again))


def with_its_tracker(config: StudyConfig) -> StudyConfig:
    """Return a search's configuration with the MLflow in which its study was begun, where the user names no other.

    MLflow's own variables of the environment may be others now, and a study is shown in one place.
    """
    folder = StudyFolder(RUNS / config.study.name)
    if not folder.exists:
        return config
    unsaid = with_mlflows_own(shipped("track", "mlflow"))
    then, now = folder.config().track.model_dump(), config.track.model_dump()
    pickled = {key: then[key] for key in MLFLOWS_OWN if now[key] == unsaid[key] != then[key]}
    if not pickled or then["name"] != now["name"]:
        return config
    where = ", ".join(f"track.{key}={value}" for key, value in pickled.items())
    _log.warning("study '%s' continues in the MLflow in which it began: %s", config.study.name, where)
    return config.model_copy(update={"track": config.track.model_copy(update=pickled)})


def refuse_bad_search(
    config: StudyConfig, pickled: PickledFunction | None = None, is_again: bool = False
) -> StudyConfig:
    """Raise HpoError, as `prepare_study` does, for what can be refused without its data; return the configuration."""
    study = _without_data(config, pickled, is_again)
    _imports(study)
    return study.config


def _without_data(config: StudyConfig, pickled: PickledFunction | None, is_again: bool) -> PreparedStudy:
    folder = StudyFolder(RUNS / config.study.name)
    study = _check(config, folder, pickled)
    if not (folder.exists or is_again):
        refuse_incomparable_metric(study)
    return study


def _check(config: StudyConfig, folder: StudyFolder, pickled: PickledFunction | None) -> PreparedStudy:
    """Return the study, checked without its data."""
    if is_outside(config):
        # What is known follows from who asks, and when.
        config = config.model_copy(update={"study": config.study.model_copy(update={"order": "free"})})
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
    """Return a study with its data, checked with them."""
    config, own = study.config, study.own
    examples = study.objective.examples(config.objective_config)
    if examples is None and (config.split.folds or 1) > 1:
        raise ConfigError(
            f"split.folds: has no effect: {study.objective.owner} has no describe_data for the data to "
            f"split, given {config.split.folds}; set split.folds=1, or from Python give `data`"
        )
    imports, strategy = _imports(study), study.strategy
    if isinstance(strategy, FirstPoints):
        strategy = replace(strategy, imported=frozenset(trial.key for trial in imports.trials))
    plan = make_plan(examples, config.split) if examples else None
    said = (
        *notes_on_measured(study),
        *notes_on_scales(config, study.strategy, imports.trials),
        *_notes_on_imports(study, imports),
        *notes_on_data(examples, plan),
    )
    own = replace(own, notes=(*own.notes, *said))
    described = Described.of(study.described.method or {}, examples, plan, own)
    study = replace(study, examples=examples, plan=plan, described=described, own=own, imports=imports)
    study = replace(study, strategy=strategy)
    refuse_bad_data(study)
    return study


def _with_defaults(config: StudyConfig, objective: Objective) -> StudyConfig:
    """Return the configuration with what the objective adds to it for the keys that are searched, or scales change."""
    if objective.describe_defaults is None:
        return config
    references = config.study.references or {}
    searched = [".".join(path) for path, _ in leaves(parted(config.space)[0])]
    varied = dict.fromkeys(key for key in (*searched, *changed_keys(config.study.scales)) if key != SCALE)
    # What others refer to, the objective need not read itself.
    keys = [key for key in varied if not references_to(references, [key])]
    defaults = objective.describe_defaults(config.objective_config, keys)
    own = replaced(config.objective_config, {key: as_number(value) for key, value in defaults.items()})
    return config.model_copy(update={"objective_config": own})


def _with_references(config: StudyConfig, space: Space) -> StudyConfig:
    """Return the configuration with its references to what is searched or changed by scales, which are no secrets."""
    section = config.study
    if section.references is None:
        return config
    references = references_to(section.references, [*space.keys, *changed_keys(section.scales)])
    refuse_secrets(references)
    config = config.model_copy(update={"study": section.model_copy(update={"references": references or None})})
    for key, (given, resolved) in differences(config.objective_config, config.trial_config({})).items():
        raise ConfigError(
            f"{key}: must be what it refers to, {resolved!r}, given {given!r}; change what it refers to, or remove "
            f"its line from study.references"
        )
    return config


def _imports(study: PreparedStudy) -> Imports:
    """Return the trials to import into a new study; an existing one has them in its record."""
    section = study.config.study
    if section.imports is None or study.folder.exists:
        return Imports()
    for path in map(table_path, section.imported):
        if (folder := StudyFolder(path.parent)).exists and folder.environment_path.exists():
            folder.refuse_other_format()
        try:
            made_by = folder.config()
        except HpoError:  # a table that no study has made
            continue
        refuse_imports_of_other_scales(path, made_by, study.config)
        _refuse_imports_in_other_units(path, made_by, study)
    return read_imports(section.imported, study.space, study.goal, section.imports_fill)


def _notes_on_imports(study: PreparedStudy, imports: Imports) -> tuple[str, ...]:
    """Return how many trials are imported, what nothing says of them, and whether the strategy learns from them."""
    if not imports.trials:
        return ()
    name, metrics = study.config.strategy["name"], ", ".join(study.goal.names)
    # Trials of amounts are compared at the same place of their curves, and imported ones have no curve.
    learns = study.strategy.learns != "never" and study.full_amount is None
    uses = "learns from them" if learns else "does not learn from them, and proposes none of their points again"
    unnamed = [table.source for table in imports.tables if not table.has_metrics]
    scores = "their scores" if len(imports.tables) == 1 else f"the scores of {' and '.join(unnamed)}"
    unknown = f"; nothing says what {scores} are: they are taken as {metrics}" if unnamed else ""
    return (f"study.imports: {imported_text(imports.counts(), len(imports.trials))}{unknown}; strategy={name} {uses}",)


def _refuse_imports_in_other_units(path: Path, config: StudyConfig, study: PreparedStudy) -> None:
    """Raise ConfigError where a metric of the imported trials' study is counted in something else than this one's."""
    folder, objective = StudyFolder(path.parent), study.config.objective
    if config.objective != objective:
        return
    units, others = Units.of(study.described.method or {}, objective), Units.at(folder, config)
    for metric in study.goal.names:
        for key, (here, there) in units.differences(metric, others).items():
            raise ConfigError(
                f"study.imports: {metric} is counted in {units[metric].unit}, and {key}, which is {there!r} in {path} "
                f"and {here!r} here, changes those, so that the scores do not compare; give {key}={there!r}, or import "
                f"nothing"
            )


def load_study(
    name: str,
    config: StudyConfig | None = None,
    allow_changes: bool = False,
    elsewhere: Mapping[str, str] | None = None,
) -> PreparedStudy:
    """Return an existing study, by its name under runs/ or its folder, and read its data; see also `known_study`.

    `config` is its frozen configuration with another budget or workers, or more where that may differ; whoever opens
    the record compares the data, which may lie `elsewhere`, by key.
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
        raise type(error)(f"{error}; if the data lie elsewhere now, give {missing[0]}=PATH") from error
    return replace(study, allow_changes=allow_changes)


def _refuse_published(folder: StudyFolder, config: StudyConfig) -> None:
    """Raise StudyError for a folder that `hpo report --publish` wrote: results without a record; it stays as it is."""
    has_record = config.study.storage is not None or any(folder.path.glob(f"{folder.database_path.name}*"))
    if has_record or not (folder.path / "report.json").exists() or (folder.path / "report.html").exists():
        return
    raise StudyError(
        f"study: {folder} was published without its record, which this needs; `hpo show`, `hpo reproduce` and `hpo "
        f"search --replay` do not, and `hpo resume {config.study.name}` goes on with the study itself, where that is"
    )


def known_study(name: str, config: StudyConfig | None = None) -> PreparedStudy:
    """Return an existing study as its folder knows it: it can be read and reported, but neither trained nor tested."""
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
    """Return a study's configuration with its data at these places, by key; StudyError where there was no path."""
    sources = sources_of(config)
    for key in places:
        if key not in sources:
            raise StudyError(f"{key}: the study has no such source of data; it has {', '.join(sources) or 'none'}")
    return config.model_copy(update={"objective_config": config.trial_config(places)})


def missing_sources(config: StudyConfig) -> list[str]:
    """Return the keys of a study's data where no file is."""
    return [key for key, path in sources_of(config).items() if not Path(path).exists()]
