"""References to searched keys (`lr: ${base}`): studies store the references as texts; trials resolve the texts."""

from collections.abc import Collection, Mapping
from operator import eq
from typing import Any

from hpo.config.keys import OWN, SEARCH_SECTIONS, map_leaves, own_key, replaced, within
from hpo.config.secrets import looks_secret, redact, texts_of
from hpo.errors import ConfigError

# Escapes characters in texts that are no references, because OmegaConf would interpret these characters.
_ESCAPE = str.maketrans("$?", "\x04\x05")
_UNESCAPE = str.maketrans("\x04\x05", "$?")


def plain_config(config: Any) -> tuple[Any, dict[str, str]]:
    """Convert DictConfigs in a configuration to plain dicts; return the result, and the texts of references by key.

    If `config` is the root of a tree of OmegaConf, its references stay unresolved in the result. Otherwise, the
    references in every DictConfig are resolved. A configuration that contains itself is returned unchanged, without
    references.
    """
    if _is_omegaconf(config) and config._get_parent() is None:
        # Do not resolve it yet, because it may refer to sections of the search, which are added later.
        tree = _container(config, (), resolve=False)
        return tree, references_of(tree)
    references: dict[str, str] = {}
    try:
        return _plain(config, (), references), references
    except RecursionError:
        return config, {}  # The conversion to JSON refuses a cycle, with its key.


def _plain(value: Any, place: tuple[str, ...], references: dict[str, str]) -> Any:
    """Convert the value at a path of the configuration to a plain value; add the references in it to `references`."""
    if _is_omegaconf(value):
        tree = _container(value, place, resolve=True)
        if not any("." in name for name in place):
            references |= _placed_references(value, place)
        return tree
    if type(value) is dict:
        return {name: _plain(inner, (*place, str(name)), references) for name, inner in value.items()}
    if type(value) is list:
        return [_plain(inner, (*place, str(number)), references) for number, inner in enumerate(value)]
    return value


def _is_omegaconf(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "omegaconf"


def _container(config: Any, place: tuple[str, ...], resolve: bool) -> Any:
    """Convert the DictConfig or ListConfig at a path of the configuration to a plain tree."""
    from omegaconf import OmegaConf
    from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

    from hpo.config.composing.interpolation import names_of

    try:
        return OmegaConf.to_container(config, resolve=resolve, throw_on_missing=True)
    except OmegaConfBaseException as error:
        key = ".".join((*place, *names_of(error.full_key or "")[len(_prefix(config)) :]))
        reason = f"{str(error).partition(chr(10))[0]}; give this key a value, or refer to a key of the same DictConfig"
        if isinstance(error, MissingMandatoryValue):
            reason = "has only the placeholder ???; give it a value"
        raise ConfigError(f"config.{key}: {reason}") from error


def _prefix(config: Any) -> tuple[str, ...]:
    """Return the path of a node in OmegaConf's tree."""
    parent = config._get_parent()
    return () if parent is None else (*_prefix(parent), str(config._key()))


def _placed_references(config: Any, place: tuple[str, ...]) -> dict[str, str]:
    """Return the references in a DictConfig that have a target in the same DictConfig.

    `place` is the path of the DictConfig in the configuration. The keys of the result are the references' dotted keys
    in the configuration.
    """
    from omegaconf import OmegaConf

    from hpo.config.composing.interpolation import at, move_reference

    tree, references = OmegaConf.to_container(config), {}
    for key, text in references_of(tree).items():
        names = tuple(key.split("."))
        written = move_reference(text, names, _prefix(config), place, config._get_root())
        if written is not None and at(tree, names) == text:
            references[".".join((*place, key))] = written
    return references


def references_of(tree: Any) -> dict[str, str]:
    """Return the texts with `${...}` in an unresolved tree, by dotted key."""
    return {key: text for key, text in texts_of(tree) if "${" in text}


def own_references(texts: Mapping[str, str], tree: Mapping[str, Any]) -> dict[str, str]:
    """Return the references in the objective's own tree, by their keys in this tree.

    Args:
        texts: all references of the configuration, by key.
        tree: the complete configuration.

    Raises:
        ConfigError: some of the objective's own keys are below `objective_config`, and others at the top level.
    """
    from hpo.config.composing.interpolation import without_root

    own = {name: branch for name, branch in tree.items() if name not in SEARCH_SECTIONS}
    texts = {key: text for key, text in texts.items() if key.partition(".")[0] in own}
    if OWN not in own or not isinstance(own[OWN], Mapping):
        return texts
    if beside := [name for name in own if name != OWN]:
        raise ConfigError(
            f"{beside[0]}: must be below {OWN}, like all keys of the objective's own tree; write it as "
            f"{OWN}.{beside[0]}"
        )
    return {own_key(key): without_root(text, OWN) for key, text in texts.items()}


def references_to(references: Mapping[str, str], searched: Collection[str]) -> dict[str, str]:
    """Return the references whose values depend on a key in `searched`, directly or through other references.

    A reference also depends on the keys below its target. If the target cannot be determined, as in
    `${model.${name}.lr}`, the reference counts as dependent on every key.
    """
    if not references:
        return {}
    from hpo.config.composing.interpolation import targets

    reached = [tuple(key.split(".")) for key in searched]
    left = {key: targets(text, tuple(key.split("."))) for key, text in references.items()}
    # A path depends on another if one is a prefix of the other; `map` stops at the end of the shorter path.
    while found := [
        key for key, paths in left.items() if any(all(map(eq, path, one)) for path in paths for one in reached)
    ]:
        reached += [tuple(key.split(".")) for key in found]
        left = {key: paths for key, paths in left.items() if key not in found}
    return {key: text for key, text in references.items() if key not in left}


def with_point(
    config: Mapping[str, Any], point: Mapping[str, Any], references: Mapping[str, str] | None
) -> dict[str, Any]:
    """Set the values of a point in a resolved configuration, and resolve the configuration's references again.

    `references` has the text of each reference, such as `${model.width}`, by key. If the point has a value for the key
    of a reference, the value replaces the reference. If a reference cannot be resolved, raise ConfigError with the key
    of the reference.
    """
    tree = replaced(config, point)
    texts = {key: text for key, text in (references or {}).items() if not any(within(key, one) for one in point)}
    if not texts:
        return tree
    from hpo.config.composing.interpolation import at, keep_names, resolve_tree

    placeholders = {key: keep_names(text) for key, text in texts.items()}
    resolved = resolve_tree(with_values(_translate(tree, _ESCAPE), placeholders))
    values = {key: _translate(at(resolved, tuple(key.split("."))), _UNESCAPE) for key in texts}
    # Set the point again, because a reference may have replaced a mapping that contains a key of the point.
    return replaced(with_values(tree, values), point)


def with_values(tree: Any, values: Mapping[str, Any], key: str = "") -> Any:
    """Set values by dotted key, also inside lists, and return the tree.

    If `tree` is a branch of a larger tree, `key` is the dotted key of the branch, and `values` has keys of the larger
    tree.
    """
    if key in values:
        return values[key]
    prefix = f"{key}." if key else ""
    if isinstance(tree, Mapping):
        return {name: with_values(inner, values, f"{prefix}{name}") for name, inner in tree.items()}
    if isinstance(tree, list):
        return [with_values(inner, values, f"{prefix}{place}") for place, inner in enumerate(tree)]
    return tree


def with_changes(tree: Mapping[str, Any], changes: Mapping[str, Any], removed: Collection[str] = ()) -> dict[str, Any]:
    """Set values by dotted key in a complete configuration, and resolve the references to searched keys again.

    A reference at a changed or removed key is dropped.
    """
    tree = replaced(tree, changes)
    section = tree.get("study")
    references = section.get("references") if isinstance(section, Mapping) else None
    if not isinstance(references, Mapping):
        return tree
    left = {key: text for key, text in references.items() if not any(within(key, one) for one in (*changes, *removed))}
    return with_point({**tree, "study": {**tree["study"], "references": left}}, changes, left)


def refuse_secrets(references: Mapping[str, str]) -> None:
    """Raise ConfigError if a text in `references` contains a secret, or if its key looks like the name of a secret.

    The texts refer to searched keys. A study stores these texts, and would also store the secret.
    """
    for key, text in references.items():
        if looks_secret(key) or redact({key: text})[1]:
            raise ConfigError(
                f"{key}: contains a secret and a reference to a searched key; use two keys, or take the secret from "
                f"the environment: ${{oc.env:NAME}}"
            )


def _translate(tree: Any, signs: Mapping[int, int]) -> Any:
    """Return the tree with the characters in `signs` replaced in every string."""
    return map_leaves(tree, lambda leaf: leaf.translate(signs) if isinstance(leaf, str) else leaf)
