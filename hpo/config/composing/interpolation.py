"""Resolves `${...}` in a composed configuration; references to the environment stay names."""

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

# `oc.select` with its key in quotes, other resolvers that are given a key, and a key that is made of another.
_UNFOLLOWED = re.compile(r"\$\{\s*(?:oc\.(?:select|deprecated|dict\.\w+)\s*:|[^:{}]*\})")
_ENVIRONMENT = re.compile(r"(\$\{oc\.decode:\s*)?\$\{oc\.env:([A-Za-z_]\w*)\}(?(1)\s*\})")
_REFERENCE = re.compile(r"\$\{(?:oc\.select:)?\s*(\.*[\w.\[\]-]+)\s*[},]")
# Placeholders until everything is resolved, because OmegaConf would resolve the name itself again.
_NAME, _DECODED = "\x02{}\x03", "\x02decode \x02{}\x03\x03"
_MARKED = re.compile("\x02(decode \x02)?([A-Za-z_]\\w*)\x03(?(1)\x03)")


def resolve(config: DictConfig) -> dict[str, Any]:
    """Return the whole configuration as a plain tree; ConfigError with the key where references form a cycle or refer
    to nothing, an environment variable is not set, or a value is missing.
    """
    with _environment_by_name():
        try:
            tree = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
        except MissingMandatoryValue as error:
            raise ConfigError(f"{error.full_key}: is ??? and has to be given; give it a value") from error
        except OmegaConfBaseException as error:
            raise ConfigError(f"{error.full_key or 'config'}: {_reason(error)}") from error
        except (RecursionError, ValueError) as error:
            raise ConfigError(f"config: cannot be resolved: {type(error).__name__}; write values out") from error
    return cast("dict[str, Any]", map_leaves(tree, lambda leaf: _with_names(leaf) if isinstance(leaf, str) else leaf))


def resolve_tree(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return a plain tree with its references resolved; raises as `resolve` does."""
    return resolve(OmegaConf.create(dict(tree), flags={"allow_objects": True}))


def keep_names(text: str) -> str:
    """Return a reference's text in which the environment's names stay, also of variables that are not set here."""

    def kept(match: re.Match[str]) -> str:
        before = text[: match.start()]
        if before.count("{") > before.count("}"):
            # What another resolver is given is OmegaConf's to read.
            return match[0]
        return (_DECODED if match[1] else _NAME).format(match[2])

    return _ENVIRONMENT.sub(kept, text)


def targets(text: str, path: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return the paths to which the text at a path refers; the root's, `()`, for one that cannot be told."""
    found = [_target(reference, path) for reference in _REFERENCE.findall(text)]
    return [*found, *([()] if _UNFOLLOWED.search(_REFERENCE.sub("", text)) else [])]


def move_reference(
    text: str, path: tuple[str, ...], prefix: tuple[str, ...], place: tuple[str, ...], root: DictConfig
) -> str | None:
    """Return a reference's text as it is written where a part of the tree `root` stands at a place of another tree.

    It stands at `path` in the part, and that at `prefix` in its own tree, from which what is outside of the part gets
    its value. None where it refers to nothing inside of the part, or where that cannot be told.
    """
    found = targets(text, (*prefix, *path))
    is_inside = [target[: len(prefix)] == prefix for target in found]
    # The root, `()`, stands for what cannot be told, and `oc.select` may have a default behind its key.
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


def _with_names(text: str) -> str:
    """Return a text with `${oc.env:NAME}` in place of the placeholders."""

    def name(marked: re.Match[str]) -> str:
        return f"${{oc.decode:${{oc.env:{marked[2]}}}}}" if marked[1] else f"${{oc.env:{marked[2]}}}"

    return _MARKED.sub(name, text)


@contextmanager
def _environment_by_name() -> Iterator[None]:
    """Let `oc.env` and `oc.decode` return names instead of values inside the block."""
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
        text = text if text is None else str(text)  # The default of a variable that is not set may be a number.
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
    """Return the path of a reference; one leading dot means a sibling, two one level further up."""
    dots = len(reference) - len(reference.lstrip("."))
    return names_of(reference) if dots == 0 else (*path[: len(path) - dots], *names_of(reference))


def names_of(key: str) -> tuple[str, ...]:
    """Return the names of OmegaConf's key: of `runs[0].lr` runs, 0 and lr."""
    return tuple(part for part in re.split(r"[.\[\]]+", key) if part)


def at(tree: Any, path: tuple[str, ...]) -> Any:
    """Return the value at a path; None where there is none."""
    for name in path:
        if isinstance(tree, list) and name.isdigit() and int(name) < len(tree):
            tree = tree[int(name)]
        else:
            tree = tree.get(name) if isinstance(tree, Mapping) else None
    return tree


def _reason(error: OmegaConfBaseException) -> str:
    cause: BaseException = error
    while isinstance(cause, InterpolationResolutionError) and cause.__cause__ is not None:
        cause = cause.__cause__
    lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
    first = next(iter(lines), "cannot be resolved")
    reason = re.sub(r"^\w+ raised while resolving interpolation: ", "", first)[:300]
    hint = "allowed are ${key} of a key that is there, ${oc.env:NAME} and ${oc.env:NAME,default}"
    return reason if "environment variable" in reason else f"{reason}; {hint}"
