"""Builds the complete configuration of a search from Python arguments."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hpo.commands.given.json_values import to_json
from hpo.commands.given.objective import given_function, suggested_space
from hpo.commands.given.objects import named
from hpo.config.composing.references import with_changes
from hpo.config.directions import known_direction
from hpo.config.documents import read_yaml, yaml_text
from hpo.config.goals import refuse_beside_metrics
from hpo.config.keys import at_path, own_part, path_of, plain_own, refuse_inside_of_list, refuse_unknown, replaced
from hpo.config.secrets import redact
from hpo.config.shipped import named_settings, names_of, shipped, shipped_dir, strategy_settings
from hpo.config.study_config import SEARCH_SECTIONS, StudyConfig, config_from_dict
from hpo.errors import ConfigError, nearest
from hpo.trials.space.peers import refuse_whole
from hpo.trials.space.reader import leaves, parted, with_first
from hpo.trials.space.written import as_meant, default_as_meant, explicit_space
from hpo.workers.objective.resolution import with_form

_SETTABLE = tuple(name for name in SEARCH_SECTIONS if name not in ("objective", "space"))


@dataclass(frozen=True)
class Composed:
    """A complete, checked configuration. Its text has the names of environment variables instead of secrets."""

    tree: Mapping[str, Any]

    def __str__(self) -> str:
        return yaml_text(self.to_dict()).rstrip("\n")

    def to_dict(self) -> dict[str, Any]:
        """Return the configuration, with the names of environment variables instead of secrets."""
        return dict(redact(self.tree)[0])


def own_tree(space: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration that an objective `f(config)` gets, with defaults in place of a trial's point.

    Args:
        space: the search space. If `config` has a dict `a`, the key `a.b` of the space becomes `b` in this dict;
            otherwise, the key stays `a.b`.
        config: the constants, and possibly default values of searched keys. In the result, a searched key without a
            default value has the value None.
    """
    tree = dict(config)
    if twice := [key for key, number in Counter(_leaf_keys(tree)).items() if number > 1]:
        raise ConfigError(f"config: '{twice[0]}' is given twice, as a dotted key and in a nested dict; give it once")
    for path, dimension in leaves(parted(space)[0]):
        key = ".".join(path)
        if (found := path_of(tree, key)) is None:
            refuse_inside_of_list(tree, key)
            tree = _with_none(tree, path, "")
        elif isinstance(value := at_path(tree, found), str):
            tree = replaced(tree, {key: default_as_meant(value, dimension)})
    return tree


def _leaf_keys(tree: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, branch in tree.items():
        if isinstance(branch, Mapping):
            yield from _leaf_keys(branch, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def _with_none(tree: Mapping[str, Any], path: tuple[str, ...], before: str) -> dict[str, Any]:
    """Return the tree with None at this path; `before` is the dotted key of the tree, for the error message."""
    name, *rest = path
    head, _, tail = name.partition(".")
    if tail and isinstance(tree.get(head), Mapping):
        name, rest = head, [tail, *rest]
    if not rest:
        return {**tree, name: None}
    inner = tree.get(name) or {}
    if not isinstance(inner, Mapping):
        raise ConfigError(f"config.{before}{name}: must be a dict, as in the space, given {inner!r}")
    return {**tree, name: _with_none(inner, (*rest,), f"{before}{name}.")}


def _with_default(space: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """Add `first: [default]` to a space without `first`, if the configuration has a default for every dimension.

    A dimension with a condition needs no default, because it may be inactive in the default configuration.
    """
    branches, rules = parted(space)
    keys = [".".join(path) for path, each in leaves(branches) if not (isinstance(each, Mapping) and "when" in each)]
    is_first = "first" not in rules and bool(keys) and all(path_of(config, key) for key in keys)
    return with_first(space, ["default"]) if is_first else dict(space)


def search_tree(
    objective: str, space: Mapping[str, Any], own: Mapping[str, Any], strategy: str | Mapping[str, Any]
) -> dict[str, Any]:
    """Return a complete configuration: the given sections, and the defaults of conf/ for all other sections."""
    chosen = [each for each in read_yaml(shipped_dir() / "search.yaml")["defaults"] if isinstance(each, Mapping)]
    defaults = {group: shipped(group, name) for each in chosen for group, name in each.items() if group in _SETTABLE}
    settings = to_json(strategy_settings(named_settings(strategy)), "strategy")[0]
    own_parts = {"objective": objective, "space": dict(space), "strategy": settings}
    return {**plain_own(own), **defaults, **own_parts}


def settings_of(
    settings: Mapping[str, Any] | None,
    metric: Any = None,
    workers: int | None = None,
    folds: int | None = None,
    **arguments: Any,
) -> dict[str, Any]:
    """Merge the settings and the other arguments of a call, as JSON values by dotted key.

    ConfigError if `settings` and another argument give different values to the same key.
    """
    values = {f"study.{name}": value for name, value in arguments.items()} | {"dispatch.workers": workers}
    values |= {"split.folds": folds}
    values |= {"study.metrics": dict(metric)} if isinstance(metric, Mapping) else {"study.metric": metric}
    given = {key: to_json(value, key)[0] for key, value in values.items() if value is not None}
    settings = {key: to_json(value, key)[0] for key, value in named("settings", settings or {}).items()}
    for key in given.keys() & settings.keys():
        if given[key] != settings[key]:
            raise ConfigError(
                f"{key}: must be set once, given {given[key]!r} as an argument and {settings[key]!r} with this key"
            )
    return {**settings, **given}


def made_config(
    objective: str,
    searched: Mapping[str, Any],
    constants: Mapping[str, Any],
    references: Mapping[str, str],
    strategy: str | Mapping[str, Any] | None,
    settings: Mapping[str, Any],
) -> StudyConfig:
    """Return the configuration of a search that is started from Python.

    `searched` is the space. `constants` has the values of all other keys, and possibly default values of searched keys,
    as JSON values.

    Raises:
        ConfigError: the settings give no direction for the metric, and hpo does not know the metric's direction.
    """
    if "study.direction" not in settings and settings.get("study.metrics") is None:
        direction = known_direction(str(settings.get("study.metric", "")))
        if direction is None:
            raise ConfigError("direction: is missing; give 'maximize' or 'minimize'")
        settings = {**settings, "study.direction": direction}
    searched = _with_default(explicit_space(searched, constants), constants)
    tree = search_tree(objective, searched, own_tree(searched, constants), strategy or "random")
    tree["study"] |= {"references": dict(references)} if references else {}
    tree["study"] |= {"metric": "score"}
    return config_from_dict(with_changes(with_settings(tree, settings), {}))


def compose_given(
    name: str, overrides: Sequence[str], config_dir: str | None = None, config_file: str | None = None
) -> dict[str, Any]:
    """Compose a user's configuration, and add the function's parameters to the path of the objective.

    For example, the objective `m:f` becomes `m:f(config)`; see `with_form`.
    """
    from hpo.config.composing.compose import compose_config

    return tree_with_form(compose_config(name, overrides_with_form(overrides), config_dir, config_file))


def overrides_with_form(overrides: Sequence[str]) -> list[str]:
    """Return a user's overrides; in the override of the objective, add the function's parameters to the path.

    For example, `objective=m:f` becomes `objective=m:f(config)`; see `with_form`.
    """
    from hpo.config.composing.overrides import parse_override, plain_value, written_out

    searched = [text.partition("=")[0].split(".")[1] for text in overrides if text.lstrip("+").startswith("space.")]

    def read(text: str) -> str:
        value = plain_value(parse_override(written_out(text)).value()) if text.startswith("objective=") else None
        return f"objective={with_form(value, searched)}" if isinstance(value, str) and ":" in value else text

    return [read(text) for text in overrides]


def tree_with_form(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return a user's configuration, with the function's parameters added to the path of the objective.

    For example, the objective `m:f` becomes `m:f(config)`; see `with_form`.
    """
    objective, space = tree.get("objective"), tree.get("space")
    if not isinstance(objective, str):
        return dict(tree)
    return {**tree, "objective": with_form(objective, space if isinstance(space, Mapping) else ())}


def compose_search(
    overrides: Sequence[str], config_dir: str | None = None, config_file: str | None = None
) -> dict[str, Any]:
    """Compose a user's configuration for `search`, with the space in the form of conf/space.

    With `config_file`, only apply the overrides to this complete configuration. Otherwise, complete the space as
    `hpo.search` does. If the user gives no space, take the space from an objective for Optuna, `f(trial)`.

    If the space has no `first`, and the configuration has a value for every dimension without a condition, these values
    become the first point; the override `~space.first` prevents this.
    """
    tree = compose_given("search", overrides, config_dir, config_file)
    if config_file or not {"space", "objective"} <= tree.keys():
        return tree
    own = own_part(tree)
    if not tree["space"] and str(tree["objective"]).endswith("(trial)"):
        tree = _with_suggested(tree, own)
    refuse_whole(tree["space"])
    space = as_meant(tree["space"], own)
    return tree | {"space": space if "~space.first" in overrides else _with_default(space, own)}


def _with_suggested(tree: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration with the space that the objective suggests, and with every searched key.

    `own` is the objective's part of the configuration. If `own` has a value for a searched key, the result keeps this
    value. Otherwise, the key's value is None.
    """
    space = suggested_space(given_function(tree["objective"]))
    sections = {name: tree[name] for name in SEARCH_SECTIONS if name in tree}
    return {**plain_own(own_tree(space, own)), **sections, "space": space}


def with_settings(tree: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration with the values of `settings`, a mapping from dotted keys such as `study.lanes`.

    A setting `dispatch` or `track` is the name of a file in conf/dispatch or conf/track. Raise ConfigError if the
    configuration is not complete, or does not have a key of `settings`.
    """
    tree = dict(tree)
    if missing := [name for name in _SETTABLE if name not in tree]:
        raise ConfigError(
            f"objective: a dict must be a complete configuration, as hpo.compose returns it; '{missing[0]}' is missing"
        )
    for group in ("dispatch", "track"):
        if (given := settings.get(group)) is not None:
            known = names_of(group)
            if given not in known:
                hint = nearest(str(given), known)
                raise ConfigError(f"settings: {group} must be one of {', '.join(known)}, given {given!r}{hint}")
            tree[group] = shipped(group, given)
    values = {key: value for key, value in settings.items() if key not in ("dispatch", "track")}
    # A setting replaces each of these mappings as a whole; None hides the keys inside.
    settable: dict[str, Any] = {**tree, "study": {**tree["study"], **dict.fromkeys(("metrics", "limits", "choose"))}}
    refuse_unknown(values, {name: settable[name] for name in _SETTABLE}, "settings")
    tree = replaced(tree, values)
    if tree["study"].get("metrics"):
        refuse_beside_metrics(settings)
    return tree
