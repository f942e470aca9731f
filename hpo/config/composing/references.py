"""References to what is searched (`lr: ${base}`): kept as texts, and resolved in each trial with its point."""

from collections.abc import Collection, Mapping
from typing import Any

from hpo.config.keys import replaced, within
from hpo.config.sealing import looks_secret, seal, texts_of
from hpo.errors import ConfigError

# Texts that are no references are kept from OmegaConf, which would interpret them.
_HIDDEN = str.maketrans("$?", "\x04\x05")
_SHOWN = str.maketrans("\x04\x05", "$?")


def plain_config(config: Any) -> tuple[Any, dict[str, str]]:
    """Return OmegaConf's DictConfig as a plain dict with its references as texts, and those by key; others as given."""
    if type(config).__module__.partition(".")[0] != "omegaconf":
        return config, {}
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    # What is below another refers to what is not here.
    is_part = config._get_parent() is not None
    try:
        tree = OmegaConf.to_container(config, resolve=is_part, throw_on_missing=True)
    except OmegaConfBaseException as error:
        reason = "is ??? and has to be given" if error.full_key else str(error).partition("\n")[0]
        raise ConfigError(f"config.{error.full_key}: {reason}; give it a value") from error
    return tree, {} if is_part else references_of(tree)


def references_of(tree: Any) -> dict[str, str]:
    """Return the texts with `${...}` in an unresolved tree, by dotted key."""
    return {key: text for key, text in texts_of(tree) if "${" in text}


def leading(references: Mapping[str, str], searched: Collection[str]) -> dict[str, str]:
    """Return those of the references that lead to a searched key, also over others, and through mappings.

    One that names its key by another (`${model.${name}.lr}`) may lead anywhere.
    """
    if not references:
        return {}
    from hpo.config.composing.interpolation import targets

    reached = [tuple(key.split(".")) for key in searched]
    left = {key: targets(text, tuple(key.split("."))) for key, text in references.items()}
    while found := [key for key, paths in left.items() if any(_meet(path, one) for path in paths for one in reached)]:
        reached += [tuple(key.split(".")) for key in found]
        left = {key: paths for key, paths in left.items() if key not in found}
    return {key: text for key, text in references.items() if key not in left}


def configured(
    config: Mapping[str, Any], point: Mapping[str, Any], references: Mapping[str, str] | None
) -> dict[str, Any]:
    """Return the configuration with a point's values written into it, and with what refers to them resolved.

    Args:
        config: the objective's tree, and the sections of the search where it may refer to those; resolved.
        point: values by dotted key. A key that refers to something, and is set itself, is what it is set to.
        references: the texts of those keys that refer to others.

    Raises:
        ConfigError: a reference cannot be resolved; it names its key.
    """
    tree = replaced(config, point)
    texts = {key: text for key, text in (references or {}).items() if not any(within(key, one) for one in point)}
    if not texts:
        return tree
    from hpo.config.composing.interpolation import at, kept_names, resolved_tree

    found = resolved_tree(placed(_translated(tree, _HIDDEN), {key: kept_names(text) for key, text in texts.items()}))
    values = {key: _translated(at(found, tuple(key.split("."))), _SHOWN) for key in texts}
    # A point may set a key inside of a mapping that is a reference.
    return replaced(placed(tree, values), point)


def placed(tree: Any, values: Mapping[str, Any], key: str = "") -> Any:
    """Return the tree, which is at this key, with other values at these dotted keys, also inside of lists."""
    if key in values:
        return values[key]
    prefix = f"{key}." if key else ""
    if isinstance(tree, Mapping):
        return {name: placed(inner, values, f"{prefix}{name}") for name, inner in tree.items()}
    if isinstance(tree, list):
        return [placed(inner, values, f"{prefix}{place}") for place, inner in enumerate(tree)]
    return tree


def changed(tree: Mapping[str, Any], changes: Mapping[str, Any], removed: Collection[str] = ()) -> dict[str, Any]:
    """Return a whole configuration with these values, and with what refers to them resolved anew.

    A key that is set, or removed, is no reference any more.
    """
    tree = replaced(tree, changes)
    section = tree.get("study")
    references = section.get("references") if isinstance(section, Mapping) else None
    if not isinstance(references, Mapping):
        return tree
    left = {key: text for key, text in references.items() if not any(within(key, one) for one in (*changes, *removed))}
    return configured({**tree, "study": {**tree["study"], "references": left}}, changes, left)


def refuse_secrets(references: Mapping[str, str]) -> None:
    """Raise ConfigError for a secret beside a reference to what is searched: such texts are kept as they are."""
    for key, text in references.items():
        if looks_secret(key) or seal({key: text})[1]:
            raise ConfigError(
                f"{key}: is or holds a secret, and refers to what is searched, given {text!r}; separate the two, or "
                f"take the secret from the environment: ${{oc.env:NAME}}"
            )


def _meet(path: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Return whether one of two paths is the other, or below it."""
    shorter = min(len(path), len(other))
    return path[:shorter] == other[:shorter]


def _translated(tree: Any, signs: Mapping[int, int]) -> Any:
    """Return the tree with other signs in its texts."""
    if isinstance(tree, Mapping):
        return {name: _translated(inner, signs) for name, inner in tree.items()}
    if isinstance(tree, list):
        return [_translated(inner, signs) for inner in tree]
    return tree.translate(signs) if isinstance(tree, str) else tree
