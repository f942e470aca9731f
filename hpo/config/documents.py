"""Reads YAML and JSON that a stranger may have written: nothing in them is run, and nothing in them explodes."""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from hpo.errors import DocumentError

# Far beyond every real configuration: the deepest shipped one has five levels.
_MAX_DEPTH = 60
_MAX_BYTES = 32 * 2**20
# What YAML writes as text, number, truth, nothing, list or mapping. Everything else names a type of some program.
_PLAIN_TAGS = frozenset(f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "seq", "map"))


def read_yaml(path: Path, where: str = "") -> dict[str, Any]:
    """Return the mapping that a YAML file holds.

    Args:
        path: the file.
        where: what to name in front of the path in an error, such as `--config`.

    Raises:
        DocumentError: it cannot be read, is not UTF-8, not YAML, names a key twice or a type, is nested deeper than
            any configuration, has an alias, or holds something else than a mapping.
    """
    place = f"{where}: {path}" if where else str(path)
    found = parse_yaml(_text(path, place), place)
    if not isinstance(found, dict):
        kind = "nothing" if found is None else f"a {type(found).__name__}"
        raise DocumentError(f"{place}: must hold a mapping at the top, given {kind}; write key: value")
    return found


def parse_yaml(text: str, place: str) -> Any:
    """Return what a YAML text holds; raises DocumentError as `read_yaml` does, with line and column.

    A date is read as the text that stands there: nothing here has another use for one.
    """
    try:
        _refuse_what_explodes(text, place)
        # A SafeLoader that refuses more: it makes texts, numbers, lists and mappings, and no other object.
        return yaml.load(text, Loader=_loader())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise DocumentError(f"{place}{at}: is not valid YAML: {error.problem or error.context}; correct it") from error
    except (yaml.YAMLError, ValueError, LookupError, OverflowError) as error:
        # A value that does not fit the tag before it, or a number that is larger or longer than Python reads.
        raise DocumentError(f"{place}: is not valid YAML: {' '.join(str(error).split())}; correct it") from error


def yaml_text(tree: Mapping[str, Any]) -> str:
    """Return the YAML of a tree of plain values, its keys in their order; `parse_yaml` returns the same tree."""
    return yaml.dump(tree, Dumper=_dumper(), sort_keys=False, allow_unicode=True)


def read_json(path: Path, where: str = "") -> dict[str, Any]:
    """Return the object that a JSON file holds.

    Raises:
        DocumentError: it cannot be read, is not UTF-8 or not JSON, is nested too deeply, or holds something else.
    """
    place = f"{where}: {path}" if where else str(path)
    found = parse_json(_text(path, place), place)
    if not isinstance(found, dict):
        raise DocumentError(f"{place}: must hold an object, given a {type(found).__name__}; put back what was there")
    return found


def parse_json(text: str, place: str) -> Any:
    """Return what a JSON text holds; raises DocumentError as `read_json` does."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        at = f":{error.lineno}:{error.colno}"
        raise DocumentError(f"{place}{at}: is not JSON: {error.msg}; put back what was there") from error
    except ValueError as error:
        raise DocumentError(f"{place}: is not JSON: {error}; put back what was there") from error
    except RecursionError as error:
        raise DocumentError(f"{place}: is nested too deeply; put back what was there") from error


def _text(path: Path, place: str) -> str:
    if path.is_fifo() and path.parent != Path("/dev/fd"):
        raise DocumentError(f"{place}: is a pipe, which may never end; give a file")
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise DocumentError(f"{place}: cannot be read: {error.strerror}; give a readable file") from error
    if len(content) > _MAX_BYTES:
        raise DocumentError(f"{place}: is larger than {_MAX_BYTES // 2**20} MiB; give the file that was meant")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        column = error.start - (content.rfind(b"\n", 0, error.start) + 1) + 1
        byte = f"0x{content[error.start]:02x}"
        raise DocumentError(f"{place}:{line}:{column}: byte {byte} is not UTF-8; save the file as UTF-8") from error


def _refuse_what_explodes(text: str, place: str) -> None:
    """Refuse, before anything is built, deep nesting, aliases (a few lines of them multiply), and named types."""
    depth = 0
    for event in _events(text):
        at = f"{place}:{event.start_mark.line + 1}:{event.start_mark.column + 1}"
        if isinstance(event, yaml.AliasEvent):
            raise DocumentError(f"{at}: '*{event.anchor}' is an alias, which is not read; write out what it stands for")
        tag = getattr(event, "tag", None)
        if tag is not None and tag != "!" and tag not in _PLAIN_TAGS:
            raise DocumentError(
                f"{at}: names the type '{tag.removeprefix('tag:yaml.org,2002:')}', and no objects are built from a "
                f"file; write texts, numbers, lists and mappings"
            )
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _MAX_DEPTH:
            raise DocumentError(f"{at}: is nested more than {_MAX_DEPTH} levels deep; write it flatter")


def _events(text: str) -> Iterator[Any]:
    # The parsers go from event to event without recursion, so that depth costs no stack.
    yield from yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


@cache
def _dumper() -> type[yaml.SafeDumper]:
    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, _data: Any) -> bool:
            # PyYAML writes an alias where one object stands in two places.
            return True

        def represent_text(self, text: str) -> yaml.ScalarNode:
            # PyYAML writes these as they are, and reads them as line breaks.
            style = '"' if any(sign in text for sign in "\x85\u2028\u2029") else None
            return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    Dumper.add_representer(str, Dumper.represent_text)
    return Dumper


@cache
def _loader() -> Any:
    """Return the class of the loader: PyYAML's safe one in C where it was built, less dates and double keys."""
    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):  # type: ignore[misc]  # One of two classes.
        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            if not isinstance(node, yaml.MappingNode):
                raise yaml.constructor.ConstructorError(None, None, "expected a mapping", node.start_mark)
            seen: set[str] = set()
            for key, _ in node.value:
                name = str(key.value) if isinstance(key, yaml.ScalarNode) else "[...]"
                if key.tag != "tag:yaml.org,2002:str":
                    fault = f"the key {name[:40]!r} is no text, put it in quotes"
                    raise yaml.constructor.ConstructorError(None, None, fault, key.start_mark)
                if name in seen:
                    fault = f"the key {name[:40]!r} stands there twice"
                    raise yaml.constructor.ConstructorError(None, None, fault, key.start_mark)
                seen.add(name)
            mapping: dict[Any, Any] = super().construct_mapping(node, deep=deep)
            return mapping

    dates = "tag:yaml.org,2002:timestamp"
    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != dates]
        for first, resolvers in base.yaml_implicit_resolvers.items()
    }
    return Loader
