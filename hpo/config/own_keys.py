"""The keys of the trial's own tree, and where that stands beside the sections of the search."""

from collections.abc import Collection, Mapping
from typing import Any

from hpo.config.sections import SEARCH_SECTIONS
from hpo.errors import ConfigError

# Where the trial's own tree stands as a whole in a plain tree, if one of its names is that of a section.
OWN = "objective_config"

# The groups of conf/ besides the sections of the search: all that the toolkit's own trainer reads.
GROUPS = ("data", "model", "training")


def plain_own(own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the trial's own tree as it stands in a plain tree: at the top, or all of it below `objective_config`."""
    is_taken = any(name.partition(".")[0] in (*SEARCH_SECTIONS, OWN) for name in own)
    return {OWN: dict(own)} if is_taken else dict(own)


def own_part(tree: Mapping[str, Any], sections: Collection[str] = SEARCH_SECTIONS) -> dict[str, Any]:
    """Return the trial's own tree of a plain one with these sections: see `plain_own`."""
    own = {name: branch for name, branch in tree.items() if name not in sections}
    return dict(own[OWN]) if list(own) == [OWN] and isinstance(own[OWN], Mapping) else own


def own_key(key: str) -> str:
    """Return the key in the trial's own tree of a key of the plain tree: see `plain_own`."""
    return key.removeprefix(f"{OWN}.")


def typed_key(key: str) -> str:
    """Return how a key of the trial's own tree is added on a command line, where the names of groups are taken."""
    return f"{OWN}.{key}" if key in GROUPS or key.partition(".")[0] in SEARCH_SECTIONS else key


def own_references(texts: Mapping[str, str], tree: Mapping[str, Any]) -> dict[str, str]:
    """Return those of a whole plain tree's references that are in the trial's own, by their keys there.

    ConfigError names an own key that stands at the top, though others are below `objective_config`.
    """
    own = {name: branch for name, branch in tree.items() if name not in SEARCH_SECTIONS}
    texts = {key: text for key, text in texts.items() if key.partition(".")[0] in own}
    if OWN not in own or not isinstance(own[OWN], Mapping):
        return texts
    if beside := [name for name in own if name != OWN]:
        raise ConfigError(
            f"{beside[0]}: stands beside {OWN}, which holds all keys of the objective's own; write it as "
            f"{OWN}.{beside[0]}"
        )
    return {own_key(key): text.replace(f"${{{OWN}.", "${") for key, text in texts.items()}
