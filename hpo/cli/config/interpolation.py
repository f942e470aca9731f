"""Resolves `${...}` in a composed configuration; references to the environment stay names."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import InterpolationResolutionError, MissingMandatoryValue, OmegaConfBaseException
from omegaconf.resolvers import oc

from hpo.errors import ConfigError

# Placeholders until everything is resolved, because OmegaConf would resolve the name itself again.
_NAME, _DECODED = "\x02{}\x03", "\x02decode \x02{}\x03\x03"
_MARKED = re.compile("\x02(decode \x02)?([A-Za-z_]\\w*)\x03(?(1)\x03)")


def resolved(config: DictConfig) -> dict[str, Any]:
    """Return the whole configuration as a plain tree.

    Raises:
        ConfigError: with the key: references form a cycle or refer to nothing; an environment variable is not set; a
            value is missing.
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
    assert isinstance(tree, dict)
    return {str(key): _named(branch) for key, branch in tree.items()}


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
        marked = _MARKED.fullmatch(text) if isinstance(text, str) else None
        return _DECODED.format(marked[2]) if marked else oc.decode(text, _parent_, _node_)

    OmegaConf.register_new_resolver("oc.env", env, replace=True)
    OmegaConf.register_new_resolver("oc.decode", decode, replace=True)
    try:
        yield
    finally:
        OmegaConf.register_new_resolver("oc.env", oc.env, replace=True)
        OmegaConf.register_new_resolver("oc.decode", oc.decode, replace=True)


def _named(value: Any) -> Any:
    """Return the tree with `${oc.env:NAME}` in place of the placeholders."""
    if isinstance(value, Mapping):
        return {str(key): _named(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_named(inner) for inner in value]
    return _MARKED.sub(_written, value) if isinstance(value, str) else value


def _written(marked: re.Match[str]) -> str:
    return f"${{oc.decode:${{oc.env:{marked[2]}}}}}" if marked[1] else f"${{oc.env:{marked[2]}}}"


def _reason(error: OmegaConfBaseException) -> str:
    cause: BaseException = error
    while isinstance(cause, InterpolationResolutionError) and cause.__cause__ is not None:
        cause = cause.__cause__
    lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
    reason = (
        re.sub(r"^\w+ raised while resolving interpolation: ", "", lines[0])[:300] if lines else "cannot be resolved"
    )
    hint = "allowed are ${key} of a key that is there, ${oc.env:NAME} and ${oc.env:NAME,default}"
    return reason if "environment variable" in reason else f"{reason}; {hint}"
