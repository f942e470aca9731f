"""Resolves the references `${...}` in a composed configuration, except those to environment variables that are set."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import InterpolationResolutionError, MissingMandatoryValue, OmegaConfBaseException
from omegaconf.resolvers import oc

from hpo.config.keys import map_leaves
from hpo.errors import ConfigError

# References whose target is not determined: `oc.select` with a quoted key, other resolvers that take a key, and keys
# that contain a reference.
_UNFOLLOWED = re.compile(r"\$\{\s*(?:oc\.(?:select|deprecated|dict\.\w+)\s*:|[^:{}]*\})")
_ENVIRONMENT = re.compile(r"(\$\{oc\.decode:\s*)?\$\{oc\.env:([A-Za-z_]\w*)\}(?(1)\s*\})")
_REFERENCE = re.compile(r"\$\{(?:oc\.select:)?\s*(\.*[\w.\[\]-]+)\s*[},]")
# Placeholders for names of variables. Without them, OmegaConf would resolve `${oc.env:NAME}` in a result again.
_NAME, _DECODED = "\x02{}\x03", "\x02decode \x02{}\x03\x03"
_MARKED = re.compile("\x02(decode \x02)?([A-Za-z_]\\w*)\x03(?(1)\x03)")


def resolve(config: DictConfig) -> dict[str, Any]:
    """Return the complete configuration as a plain tree.

    A reference to an environment variable that is set becomes `${oc.env:NAME}`, so that the tree has the name of the
    variable and not the value. If the variable is not set, the default in the reference replaces the reference.

    Raises:
        ConfigError: references form a cycle or have no target, a variable is not set and has no default, or a value
            is missing. The message names the key if OmegaConf reports it.
    """
    with _environment_by_name():
        try:
            tree = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
        except MissingMandatoryValue as error:
            raise ConfigError(f"{error.full_key}: has only the placeholder ???; give it a value") from error
        except (OmegaConfBaseException, RecursionError, ValueError) as error:
            raise ConfigError(f"{getattr(error, 'full_key', None) or 'config'}: {_reason(error)}") from error
    return cast("dict[str, Any]", map_leaves(tree, lambda leaf: _with_names(leaf) if isinstance(leaf, str) else leaf))


def resolve_tree(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Resolve the references in a plain tree, and return the result; errors are the same as in `resolve`."""
    return resolve(OmegaConf.create(dict(tree), flags={"allow_objects": True}))


def keep_names(text: str) -> str:
    """Return the text with a placeholder for each `${oc.env:NAME}`, whether or not the variable NAME is set.

    Also replace each `${oc.decode:${oc.env:NAME}}` by a placeholder. Inside of any other reference, both forms stay.
    """

    def placeholder(match: re.Match[str]) -> str:
        before = text[: match.start()]
        if before.count("{") > before.count("}"):
            # This is an argument of another resolver, which needs the value.
            return match[0]
        return (_DECODED if match[1] else _NAME).format(match[2])

    return _ENVIRONMENT.sub(placeholder, text)


def targets(text: str, path: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return the paths to which the text at a path refers.

    A reference whose target cannot be determined counts as a reference to the root, `()`.
    """
    found = [_target(reference, path) for reference in _REFERENCE.findall(text)]
    return [*found, *([()] if _UNFOLLOWED.search(_REFERENCE.sub("", text)) else [])]


def move_reference(
    text: str, path: tuple[str, ...], prefix: tuple[str, ...], place: tuple[str, ...], root: DictConfig
) -> str | None:
    """Return a text with its references adapted, because the text moves to another tree.

    The text is part of a subtree, which moves from `prefix` in the tree `root` to `place` in another tree. If a
    reference has its target in the subtree, an absolute key becomes the target's key in the other tree, and a relative
    key stays. If the text also has references to targets outside of the subtree, the values of these targets replace
    the references.

    Args:
        text: the text with the references.
        path: the path of the text in the subtree.
        prefix: the path of the subtree in `root`.
        place: the path of the subtree in the other tree.
        root: the tree from which the subtree was taken.

    Returns:
        The new text. None = no target is in the subtree, a target cannot be determined, or the text has an
            `oc.select` and a target outside of the subtree.
    """
    found = targets(text, (*prefix, *path))
    is_inside = [target[: len(prefix)] == prefix for target in found]
    # `()` means that a target cannot be determined. An `oc.select` is not replaced by a value, because a default may
    # follow its key.
    if not any(is_inside) or () in found or ("oc.select" in text and not all(is_inside)):
        return None

    def write(match: re.Match[str]) -> str:
        target = _target(match[1], (*prefix, *path))
        if target[: len(prefix)] != prefix:
            return str(OmegaConf.select(root, ".".join(target)))
        key = match[1] if match[1].startswith(".") else ".".join((*place, *target[len(prefix) :]))
        start, end = (each - match.start() for each in match.span(1))
        return f"{match[0][:start]}{key}{match[0][end:]}"

    return _REFERENCE.sub(write, text)


def without_root(text: str, root: str) -> str:
    """Return the text without `root.` at the start of the absolute keys in references.

    For example, with the root `objective_config`, `${objective_config.lr}` becomes `${lr}`.
    """

    def write(match: re.Match[str]) -> str:
        return match[0].replace(match[1], match[1].removeprefix(f"{root}."))

    return _REFERENCE.sub(write, text)


def _with_names(text: str) -> str:
    """Return the text with a reference `${oc.env:NAME}` in place of each placeholder for the variable NAME."""

    def name(marked: re.Match[str]) -> str:
        return f"${{oc.decode:${{oc.env:{marked[2]}}}}}" if marked[1] else f"${{oc.env:{marked[2]}}}"

    return _MARKED.sub(name, text)


@contextmanager
def _environment_by_name() -> Iterator[None]:
    """Inside the block, `oc.env` and `oc.decode` return placeholders instead of the values of environment variables."""
    nothing = object()

    def env(name: str, default: Any = nothing) -> Any:
        if name in os.environ:
            return _NAME.format(name)
        if default is nothing:
            raise ConfigError(
                f"the environment variable {name} is not set; set it, or write ${{oc.env:{name},default}}"
            )
        return default

    def decode(text: Any, *, _parent_: Any, _node_: Any) -> Any:
        text = text if text is None else str(text)  # The default may be a number.
        marked = _MARKED.fullmatch(text or "")
        return _DECODED.format(marked[2]) if marked else oc.decode(text, _parent_, _node_)

    OmegaConf.register_new_resolver("oc.env", env, replace=True)
    OmegaConf.register_new_resolver("oc.decode", decode, replace=True)
    try:
        yield
    finally:
        OmegaConf.register_new_resolver("oc.env", oc.env, replace=True)
        OmegaConf.register_new_resolver("oc.decode", oc.decode, replace=True)


def _target(reference: str, path: tuple[str, ...]) -> tuple[str, ...]:
    """Return the path to which a reference at `path` refers.

    One leading dot means a sibling of the reference; each further dot means one level higher.
    """
    dots = len(reference) - len(reference.lstrip("."))
    return names_of(reference) if dots == 0 else (*path[: len(path) - dots], *names_of(reference))


def names_of(key: str) -> tuple[str, ...]:
    """Split a key of OmegaConf into its names: `runs[0].lr` into runs, 0 and lr."""
    return tuple(part for part in re.split(r"[.\[\]]+", key) if part)


def at(tree: Any, path: tuple[str, ...]) -> Any:
    """Return the value at a path; None if the path does not exist."""
    for name in path:
        if isinstance(tree, list) and name.isdigit() and int(name) < len(tree):
            tree = tree[int(name)]
        else:
            tree = tree.get(name) if isinstance(tree, Mapping) else None
    return tree


def _reason(error: BaseException) -> str:
    cause = error
    while isinstance(cause, InterpolationResolutionError) and cause.__cause__ is not None:
        cause = cause.__cause__
    lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
    first = next(iter(lines), "cannot be resolved")
    reason = re.sub(r"^\w+ raised while resolving interpolation: ", "", first)[:300]
    hint = "allowed are ${key} of an existing key, ${oc.env:NAME} and ${oc.env:NAME,default}"
    return reason if "environment variable" in reason else f"{reason}; {hint}"
