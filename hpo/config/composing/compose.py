"""Composes a configuration from overrides with Hydra. The result is a plain tree; later steps do not use Hydra."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from hydra import compose, initialize_config_dir
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.types import Override, Quote, QuotedString
from hydra.core.plugins import Plugins
from hydra.errors import HydraException, MissingConfigException
from hydra.plugins.config_source import ConfigResult, ConfigSource
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from hpo.config.composing.interpolation import resolve
from hpo.config.composing.overrides import (
    USERS_OWN,
    function_alone,
    one_line,
    parse_override,
    plain_value,
    refuse_twice,
    text_of,
    written_out,
)
from hpo.config.composing.references import own_references, references_of, with_changes, with_point
from hpo.config.directions import known_direction, refuse_missing_direction
from hpo.config.documents import read_yaml, refuse_optimized_python
from hpo.config.goals import leading, refuse_beside_metrics
from hpo.config.keys import flatten, typed_key, within, without
from hpo.config.shipped import shipped_dir, with_mlflows_own
from hpo.errors import ConfigError, nearest


class StrictFiles(ConfigSource):
    """A source of configuration files for Hydra; it refuses YAML with type tags, duplicate keys or aliases."""

    @staticmethod
    def scheme() -> str:
        """Return the URL scheme that selects `StrictFiles` in Hydra's search path."""
        return "strict"

    def load_config(self, config_path: str) -> ConfigResult:
        """Return the configuration in an existing file; raise DocumentError if `read_yaml` refuses the file."""
        path = self._file(config_path)
        if path.stat().st_size > 0:
            read_yaml(path, "config_dir")
        text = path.read_text(encoding="utf-8-sig")
        # The header may name another package for the keys of the file: `# @package _global_`.
        return ConfigResult(self.provider, self.full_path(), OmegaConf.create(text), self._get_header_dict(text))

    def available(self) -> bool:
        """Return whether the folder exists."""
        return Path(self.path).is_dir()

    def is_group(self, config_path: str) -> bool:
        """Return whether the path is a folder of configurations."""
        return Path(self.path, config_path).is_dir()

    def is_config(self, config_path: str) -> bool:
        """Return whether the path names a configuration file; the path may leave out the suffix `.yaml`."""
        return self._file(config_path).is_file()

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        """Return the names of the groups and configurations in a group, sorted."""
        names: list[str] = []
        for path in Path(self.path, config_path).iterdir():
            self._list_add_result(names, str(Path(config_path, path.name)), path.name, results_filter)
        return sorted(set(names))

    def _file(self, config_path: str) -> Path:
        return Path(self.path, self._normalize_file_name(config_path))


def searchpath(folder: Path) -> str:
    """Return the override that adds the user's folder `folder` to Hydra's search path."""
    Plugins.instance().register(StrictFiles)
    path = QuotedString(f"strict://{folder.absolute()}", Quote.single).with_quotes()
    return f"hydra.searchpath=[{path}]"


# Groups that `hpo search` may choose anew with a complete configuration, because they do not affect trials. The listed
# keys keep the file's values: numbers of threads and processes change the last digits of scores, and a study should
# stay in the MLflow where it began.
_CHOSEN_ANEW: Mapping[str, Sequence[str]] = {
    "dispatch": ("threads", "processes_per_task"),
    "track": ("uri", "experiment"),
    "report": (),
}

# Groups of `hpo search` that one training does not have.
_ONLY_IN_SEARCH = ("dispatch", "track", "strategy", "report")

# For some values of a wrong type, Hydra raises Python's exceptions instead of its own.
_FAULTS = (HydraException, OmegaConfBaseException, RecursionError, ValueError, TypeError, AttributeError)


def compose_config(
    name: str, overrides: Sequence[str], config_dir: str | None = None, config_file: str | None = None
) -> dict[str, Any]:
    """Compose a configuration, resolve its references, and return it as a plain tree.

    If an environment variable is set, a reference to this variable stays unresolved, because a study stores the
    variable's name and not its value. If the variable is not set, the default in the reference replaces the reference.
    In the section `track`, values replace the references to MLflow's own variables (see `with_mlflows_own`).

    For `search`, the text of each reference in the objective's own tree is also in `study.references`, by key.

    Args:
        name: the primary configuration, `search` or `train`.
        overrides: as on the command line.
        config_dir: a folder with the user's groups, in addition to the groups in `conf`; ignored with `config_file`.
        config_file: the file of a complete configuration to start from instead of `name`.

    Raises:
        ConfigError: an override is not valid, `config_dir` does not exist, or a reference cannot be resolved. For an
            unknown key, the message names the nearest valid key, if any.
        DocumentError: `config_file` or a file in `config_dir` is not valid.
    """
    refuse_optimized_python()
    parsed = [parse_override(written_out(text)) for text in overrides]
    if name == "train" and (unused := [o.key_or_group for o in parsed if _is_only_in_search(o)]):
        raise ConfigError(f"{unused[0]}: has no effect in `hpo train`, which trains in this process; leave it out")
    of_user = [o for o in parsed if _is_of_user(o)]
    others = [o for o in parsed if o not in of_user]
    for key in (o.key_or_group for o in others if o.is_add() and "." not in o.key_or_group):
        if (typed := typed_key(key)) != key:
            raise ConfigError(
                f"{key}: is the name of a group or section; for a key of your own with this name, write +{typed}=..."
            )
    refuse_twice(of_user)
    tree = _load(config_file, name, parsed) if config_file else _composed(name, config_dir, of_user, others)
    section = tree.get("study")
    if isinstance(section, Mapping):
        refuse_missing_direction(section)
    metrics = section.get("metrics") if isinstance(section, Mapping) else None
    if not isinstance(metrics, Mapping) or not metrics:
        return tree
    refuse_beside_metrics([o.key_or_group for o in parsed])
    return tree | {"study": {**tree["study"], **leading(metrics)}}


def compose_strategy(overrides: Sequence[str], config_dir: str | None, tree: Mapping[str, Any]) -> dict[str, Any]:
    """Compose the section `strategy`; its references refer to keys of `tree`, a complete configuration."""
    config = _compose("search", [parse_override(text) for text in overrides], config_dir)
    section = {"strategy": OmegaConf.to_container(config.strategy)}
    return cast("dict[str, Any]", with_point({**tree, **section}, {}, references_of(section))["strategy"])


def _is_of_user(override: Override) -> bool:
    """Return whether an override sets the whole space, or a key below `USERS_OWN`, where users choose the names."""
    is_space = override.key_or_group == "space" and isinstance(override.value(), Mapping)
    return not override.is_delete() and (is_space or override.key_or_group.startswith(USERS_OWN))


def _is_only_in_search(override: Override) -> bool:
    """Return whether an override has no effect in `hpo train`."""
    key = override.key_or_group
    return key in _ONLY_IN_SEARCH or (_is_of_user(override) and key.partition(".")[0] in (*_ONLY_IN_SEARCH, "space"))


def _composed(
    name: str, config_dir: str | None, of_user: Sequence[Override], others: Sequence[Override]
) -> dict[str, Any]:
    """Compose a primary configuration with `others`, apply `of_user`, resolve the references, and return the tree."""
    config = _compose(name, [*function_alone(name, others), *others], config_dir)
    for override in of_user:
        key, value = override.key_or_group, plain_value(override.value())
        OmegaConf.update(config, key, value, merge=key == "space", force_add=True)
    tree = resolve(config)
    if name == "train" and tree.get("space") == {}:
        # `hpo train` has the group `space` only because configurations of data override this group.
        del tree["space"]
    if name == "search" and (references := own_references(references_of(OmegaConf.to_container(config)), tree)):
        tree["study"]["references"] = references
    return tree | ({"track": with_mlflows_own(tree["track"])} if isinstance(tree.get("track"), dict) else {})


def _compose(name: str, overrides: Sequence[Override], config_dir: str | None) -> DictConfig:
    search_path = []
    if config_dir is not None:
        if not Path(config_dir).is_dir():
            raise ConfigError(f"config_dir: folder '{config_dir}' does not exist; give an existing folder")
        search_path = [searchpath(Path(config_dir))]
    OmegaConf.register_new_resolver("metric_name", _metric_name, replace=True)
    OmegaConf.register_new_resolver("direction_of", lambda metric: known_direction(str(metric)), replace=True)
    defaults = read_yaml(shipped_dir() / f"{name}.yaml")["defaults"]
    groups = [group for entry in defaults if isinstance(entry, dict) for group in entry]
    chosen = [o for o in overrides if o.key_or_group in groups and not o.is_add()]
    rest = [o for o in overrides if o not in chosen]
    for override in chosen:
        _refuse_bad_choice(override, name)
    with initialize_config_dir(str(shipped_dir()), version_base="1.3", job_name="hpo"):
        fault = None
        try:
            config = compose(name, overrides=[*search_path, *map(text_of, overrides)])
            if not _may_be_new(rest, config):
                return config
        except _FAULTS as error:
            fault = error
        try:
            before = compose(name, overrides=[*search_path, *map(text_of, chosen)])
        except _FAULTS as error:
            raise _explained(error, name) from error
        _refuse_unknown(rest, name, cast("dict[str, Any]", OmegaConf.to_container(before, resolve=False)))
        if fault is not None:
            raise _explained(fault, name) from fault
        return config


def _may_be_new(overrides: Sequence[Override], config: DictConfig) -> bool:
    """Return whether an override may have set a key that did not exist before.

    Hydra usually refuses an override of an unknown key. But it accepts an unknown key inside a list or below a plain
    value. In the second case, Hydra replaces the plain value by a mapping.
    """
    leaves = flatten(cast("dict[str, Any]", OmegaConf.to_container(config, resolve=False)))
    keys = [o.key_or_group for o in overrides if not (o.is_delete() or o.is_add() or o.is_force_add())]
    parents = {key.rpartition(".")[0] for key in keys if "." in key}
    set_alone = any(all(any(within(leaf, key) for key in keys) for leaf in leaves if within(leaf, p)) for p in parents)
    return set_alone or not all(any(within(leaf, key) for leaf in leaves) for key in keys)


def _refuse_bad_choice(override: Override, command: str) -> None:
    value = plain_value(override.value())
    if not override.is_delete() and not isinstance(value, str | Mapping):
        group = override.key_or_group
        raise ConfigError(
            f"{group}: must be the name of a configuration in the group {group}, given {value!r}; see "
            f"`hpo {command} --cfg job` for the current configuration"
        )


def _explained(error: BaseException, command: str) -> ConfigError:
    """Return a ConfigError that explains an error of Hydra to users.

    If a KeyboardInterrupt caused the error, raise the KeyboardInterrupt instead.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, KeyboardInterrupt):
            raise cause
        cause = cause.__context__
    if isinstance(error, MissingConfigException):
        group, _, choice = str(error.missing_cfg_file).rpartition("/")
        options = sorted(error.options or [])
        allowed = f"must be one of {', '.join(options)}, given" if options else "has no configuration"
        return ConfigError(f"{group}: {allowed} '{choice}'{nearest(choice, options)}")
    if isinstance(error, RecursionError):
        return ConfigError(
            "config: is nested too deeply, or a group of config_dir has itself in its defaults; reduce the "
            "nesting, or remove the group from its own defaults"
        )
    return ConfigError(f"config: {one_line(error)}; see `hpo {command} --cfg job` for all keys")


def _refuse_unknown(overrides: Sequence[Override], command: str, tree: Mapping[str, Any]) -> None:
    leaves = flatten(tree)
    branches = {".".join(parts[:n]) for key in leaves if (parts := key.split(".")) for n in range(1, len(parts))}
    known = [*leaves, *branches]
    added = [o.key_or_group for o in overrides if o.is_add() or o.is_force_add()]
    for key in (o.key_or_group for o in overrides):
        if key not in known and not any(within(key, one) for one in added):
            hint = nearest(key, known) or f"; see `hpo {command} --cfg job` for all keys, or add a key with +{key}=..."
            raise ConfigError(f"{key}: there is no such key{hint}")


def _load(path: str, command: str, overrides: Sequence[Override]) -> dict[str, Any]:
    """Return a file's configuration with the overrides applied, and `study.references` resolved again."""
    anew = _CHOSEN_ANEW if command == "search" else {}
    tree = read_yaml(Path(path), "config")
    _refuse_unknown([o for o in overrides if not _is_of_user(o)], command, tree)
    choices = [o for o in overrides if _is_choice(o, tree)]
    # Apply choices of groups first, as Hydra does.
    for override in choices:
        tree |= _chosen(override, tree, anew)
    for override in overrides:
        if override.is_delete():
            tree = without(tree, override.key_or_group)
        elif override not in choices:
            tree = with_changes(tree, {override.key_or_group: plain_value(override.value())})
    return with_changes(tree, {}, [override.key_or_group for override in overrides])


def _is_choice(override: Override, tree: Mapping[str, Any]) -> bool:
    """Return whether the override is `group=name`."""
    is_group = isinstance(tree.get(override.key_or_group), Mapping)
    return is_group and not override.is_delete() and not isinstance(plain_value(override.value()), Mapping)


def _chosen(override: Override, tree: Mapping[str, Any], anew: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return `{GROUP: values}` for an override `GROUP=NAME`, with the values of the configuration NAME.

    The keys of `anew` are the groups that may be replaced; raise ConfigError for any other group. `anew[GROUP]` lists
    keys of the group that keep their values from `tree`.
    """
    group, value = override.key_or_group, plain_value(override.value())
    if group in anew:
        section = compose_config("search", [text_of(override)])[group]
        return {group: section | {key: tree[group][key] for key in anew[group] if key in tree[group]}}
    hint = (
        f"such as {group}.name={value}" if "name" in tree[group] and group != "study" else f"such as {group}.KEY=VALUE"
    )
    others = f"only {', '.join(anew)} can be replaced; " if anew else ""
    raise ConfigError(
        f"{group}: cannot be replaced by {value!r}, because the configuration is already complete; {others}set "
        f"single keys of this group, {hint}"
    )


def _metric_name(given: Any) -> str:
    """Return the name of a score.

    `given` is a column, a pattern such as `rmse_*`, or a list of columns. The score is named after the column, the
    pattern, or the common prefix of the list. The name loses a number at its end (`accuracy` for `accuracy_0`), but a
    column keeps digits that directly follow a letter (`f1`). If no character remains, return `score`.
    """
    if isinstance(given, str) and not set(given) & set("*?["):
        return re.sub(r"[_.\- ]+\d*$", "", given) or "score"
    columns = [given] if isinstance(given, str) else given if isinstance(given, Sequence) else ()
    names = [str(name) for name in columns]
    return os.path.commonprefix(names).rstrip("0123456789*?_-.[ ") or "score"  # noqa: RUF071 -- names of columns, not paths
