"""Safe readers of YAML and JSON: the file that is read can neither execute code nor exhaust the memory."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from sys import flags
from typing import Any, ClassVar

import yaml

from hpo.errors import ConfigError, DocumentError

# The C loader, if it is available.
_SAFE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MAX_DEPTH = 60  # the deepest shipped configuration has five levels
_MAX_BYTES = 32 * 2**20
# YAML's tags for plain values. Any other tag names a type of a programming language, or of an application.
_PLAIN_TAGS = frozenset(f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "seq", "map"))


def refuse_optimized_python() -> None:
    """Raise ConfigError if Python runs without assertions, which Hydra's parser and this toolkit need."""
    if flags.optimize:
        raise ConfigError(
            "Python: runs without assertions, which are needed to read a configuration; leave -O out, and unset "
            "PYTHONOPTIMIZE"
        )


def read_yaml(path: Path, where: str = "") -> dict[str, Any]:
    """Return the mapping in a YAML file.

    Raises:
        DocumentError: the file cannot be read, is larger than 32 MiB, or is not a mapping in valid YAML. The file is
            also refused if it is nested more than 60 levels deep, or has a duplicate key, a key that is no string, a
            type tag or an alias. The message begins with `where`, such as `config`, and the path.
    """
    place = f"{where}: {path}" if where else str(path)
    content = parse_yaml(_text(path, place), place)
    if not isinstance(content, dict):
        kind = "nothing" if content is None else f"a {type(content).__name__}"
        raise DocumentError(f"{place}: must be a mapping, given {kind}; write key: value")
    return content


def parse_yaml(text: str, place: str) -> Any:
    """Return the value of a YAML text, with dates as strings.

    Raise DocumentError if the text is not valid YAML, or breaks a rule of `read_yaml` about nesting, keys, tags or
    aliases. The message begins with `place`, and with the line and column if they are known.
    """
    try:
        _refuse_what_explodes(text, place)
        return yaml.load(text, Loader=_Loader)  # The loader is a SafeLoader with more restrictions.
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise DocumentError(f"{place}{at}: is not valid YAML: {error.problem or error.context}; correct it") from error
    except (yaml.YAMLError, ValueError, LookupError, OverflowError) as error:
        # The text has a value that does not fit its tag, or a number that Python cannot convert.
        raise DocumentError(f"{place}: is not valid YAML: {' '.join(str(error).split())}; correct it") from error


def yaml_text(tree: Mapping[str, Any]) -> str:
    """Return a tree of plain values as YAML, without sorting the keys; `parse_yaml` returns the same tree."""
    return yaml.dump(tree, Dumper=_Dumper, sort_keys=False, allow_unicode=True)


def read_json(path: Path, where: str = "") -> dict[str, Any]:
    """Return the object in a JSON file; raise DocumentError if the file cannot be read, or holds no JSON object."""
    place = f"{where}: {path}" if where else str(path)
    content = parse_json(_text(path, place), place)
    if not isinstance(content, dict):
        raise DocumentError(f"{place}: must be a JSON object, given a {type(content).__name__}; restore the file")
    return content


def json_line(values: Mapping[str, Any]) -> str:
    """Return a mapping as one line of ASCII JSON; NaN and infinities become null, and paths become strings."""
    return json.dumps(_as_json(values), allow_nan=False)


def _as_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _as_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value


def parse_json(text: str, place: str) -> Any:
    """Return the value of a JSON text, where NaN and infinities are allowed; raise DocumentError for invalid JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        at, reason = "", str(error)
        if isinstance(error, json.JSONDecodeError):
            at, reason = f":{error.lineno}:{error.colno}", error.msg
        raise DocumentError(f"{place}{at}: is not JSON: {reason}; restore the file") from error


def _text(path: Path, place: str) -> str:
    try:
        if path.is_fifo() and path.parent != Path("/dev/fd"):
            raise DocumentError(f"{place}: is a pipe, which may never end; give a file")
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise DocumentError(f"{place}: cannot be read: {error.strerror}; give a readable file") from error
    if len(content) > _MAX_BYTES:
        raise DocumentError(f"{place}: is larger than {_MAX_BYTES // 2**20} MiB; give another file")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before, byte = content[: error.start], f"0x{content[error.start]:02x}"
        at = f"{before.count(10) + 1}:{len(before) - before.rfind(10)}"
        raise DocumentError(f"{place}:{at}: byte {byte} is not UTF-8; save the file as UTF-8") from error


def _refuse_what_explodes(text: str, place: str) -> None:
    """Raise DocumentError for deep nesting, aliases and type tags, before the text is loaded.

    Aliases are refused, because a short text with aliases can expand to a huge value.
    """
    depth = 0
    # The parser yields events without recursion, so deep nesting cannot overflow the stack.
    event: Any
    for event in yaml.parse(text, Loader=_SAFE):
        at = f"{place}:{event.start_mark.line + 1}:{event.start_mark.column + 1}"
        if isinstance(event, yaml.AliasEvent):
            raise DocumentError(f"{at}: '*{event.anchor}' is an alias, which is not allowed; write the value itself")
        tag = getattr(event, "tag", None)
        if tag is not None and tag != "!" and tag not in _PLAIN_TAGS:
            raise DocumentError(
                f"{at}: the type '{tag.removeprefix('tag:yaml.org,2002:')}' is not allowed; write strings, numbers, "
                f"lists and mappings only"
            )
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _MAX_DEPTH:
            raise DocumentError(f"{at}: is nested more than {_MAX_DEPTH} levels deep; reduce the nesting")


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, _data: Any) -> bool:
        # PyYAML writes an alias for an object that occurs twice.
        return True

    def represent_text(self, text: str) -> yaml.ScalarNode:
        # PyYAML writes these characters without quotes, and reads them as line breaks.
        style = '"' if any(sign in text for sign in "\x85\u2028\u2029") else None
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _Dumper.represent_text)


class _Loader(_SAFE):  # type: ignore[misc]  # mypy cannot know the base: C or Python
    """PyYAML's safe loader, but duplicate keys and keys other than strings are errors, and dates stay strings."""

    yaml_implicit_resolvers: ClassVar = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in _SAFE.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        if not isinstance(node, yaml.MappingNode):
            raise yaml.constructor.ConstructorError(None, None, "expected a mapping", node.start_mark)
        names: set[str] = set()
        for key, _ in node.value:
            name = str(key.value) if isinstance(key, yaml.ScalarNode) else "[...]"
            fault = "is listed twice" if name in names else None
            if key.tag != "tag:yaml.org,2002:str":
                fault = "is not a string; put it in quotes"
            if fault is not None:
                raise yaml.constructor.ConstructorError(None, None, f"the key {name[:40]!r} {fault}", key.start_mark)
            names.add(name)
        mapping: dict[Any, Any] = super().construct_mapping(node, deep=deep)
        return mapping
