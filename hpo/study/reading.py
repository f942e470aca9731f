"""Reads an existing study from its folder alone, without its data: only what trains or tests needs those."""

import re
from pathlib import Path
from typing import cast

from hpo.config.keys import flatten
from hpo.config.study_config import StudyConfig
from hpo.engine.objective.resolution import resolve
from hpo.engine.space.reader import space_from_dict
from hpo.errors import HpoError
from hpo.study.basis.configurations import refuse_other_config
from hpo.study.basis.described import Described, SplitFigures
from hpo.study.files.folder import StudyFolder, find_study, short_path
from hpo.study.notes import Notes
from hpo.study.opening import storage_url
from hpo.study.preparing.preparation import function_of, load_study, missing_sources, refuse_past_search, strategy_of
from hpo.study.study import Study

_SPLIT = SplitFigures.__annotations__.keys()
_FOLD = re.compile(r"fold_(\d+)")


def known_study(name: str, config: StudyConfig | None = None) -> Study:
    """Return an existing study as its folder knows it: it can be read and reported, but neither trained nor tested.

    `config` is its frozen configuration with another tracker, None = as it is.
    """
    folder = find_study(name)
    frozen = folder.config() if config is None else refuse_past_search(folder)
    if config is not None:
        refuse_other_config(frozen, config, name)
    described = Described.at(short_path(folder.described_path))
    if described is None:
        try:
            return load_study(name, config)
        except HpoError:
            if not missing_sources(frozen):
                raise
        described = described_before(folder, frozen)
    config = config or frozen
    objective = resolve(config.objective, str(Path.cwd()), config.secrets, function_of(folder, config, name))
    space = space_from_dict(config.space, flatten(config.objective_config), described.points)
    return Study(config, folder, objective, space, strategy_of(config, space), described)


def described_before(folder: StudyFolder, config: StudyConfig) -> Described:
    """Return what record and report.json of a study of before version 0.2.0 say of its data."""
    from hpo.engine.record.storage import damage_named, open_rows

    space = space_from_dict(config.space, flatten(config.objective_config))
    rows = open_rows(storage_url(config, folder), config.study.name, space)
    with damage_named(rows):
        names = {name for _, _, _, attributes in rows.read() for name in attributes}
    noted = Notes(rows).data or {}
    rows.dispose()
    split = cast("SplitFigures", {key: noted[key] for key in _SPLIT}) if noted.keys() >= _SPLIT else None
    folds = 1 + max((int(match[1]) for match in map(_FOLD.match, names) if match), default=0)
    return Described.from_report(folder.report(), split, len(split["folds"]) if split else folds)
