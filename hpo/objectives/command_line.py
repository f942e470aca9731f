"""The line of a command and its file: the names in them, and what they become with a trial's values."""

import json
import shlex
import string
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hpo.config.documents import read_json, read_yaml, yaml_text
from hpo.config.keys import at, flatten, path_of, replaced, within
from hpo.errors import ConfigError, nearest

# What a command may be told of its task.
_TOLD = ("seed", "fold", "repeat", "trial", "threads", "epochs", "checkpoint_dir", "resume_dir")
# All values as `--key=value`, where the trial has no key of this name.
_ARGS = "{args}"
# The trial's own copy of `command.config`, and its folder.
_COPY = ("config", "config.dir")
_MISSING = object()


def names_of(config: Mapping[str, Any]) -> list[str]:
    """Return the keys that the line names, and `task.KEY` for what it is told; ConfigError where it cannot be read."""
    line = config["command"]["line"]
    if not isinstance(line, str) or not line.strip():
        raise ConfigError(f'command.line: must be a command, such as "python train.py --lr {{lr}}", given {line!r}')
    try:
        words = [word for word in shlex.split(line) if word != _ARGS]
        names = [(_flag(word) or (name,))[0] for word in words for name in placeholders(word)]
    except ValueError as error:
        raise ConfigError(f"command.line: cannot be read ({error}), given {line!r}") from error
    for name in names:
        key = name.removeprefix("task.")
        if name.startswith("task.") and key not in _TOLD:
            raise ConfigError(f"command.line: a task has no '{key}'{nearest(key, _TOLD)}; it has {', '.join(_TOLD)}")
    return names


def needed(config: Mapping[str, Any]) -> list[str]:
    """Return the keys that the line names and a trial must have."""
    copy = _COPY if base_of(config) is not None else ()
    return [name for name in names_of(config) if not name.startswith("task.") and name not in copy]


def flags_of(config: Mapping[str, Any]) -> list[str]:
    """Return the keys of the flags in the line."""
    return [flag[0] for flag in map(_flag, shlex.split(config["command"]["line"])) if flag]


def placeholders(word: str) -> list[str]:
    """Return the names in braces in a word."""
    return [name for _, name, _, _ in string.Formatter().parse(word) if name is not None]


def takes_all(config: Mapping[str, Any], searched: Sequence[str] = ()) -> bool:
    """Return whether the line has `{args}`, and that is no key of the trial's."""
    is_key = "args" in searched or at(flatten(config), "args", _MISSING) is not _MISSING
    return _ARGS in shlex.split(config["command"]["line"]) and not is_key


def base_of(config: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what is in the file `command.config`; None without one. Raises DocumentError as `read_yaml` does."""
    path = config["command"].get("config")
    if path is None:
        return None
    if not isinstance(path, str):
        raise ConfigError(f"command.config: must be the path of a file in YAML or JSON, given {path!r}")
    return (read_json if _is_json(path) else read_yaml)(Path(path), "command.config")


def refuse_bad(config: Mapping[str, Any]) -> None:
    """Refuse a line that cannot be read, a flag that is not true or false, and what goes neither there nor anywhere."""
    names, flat, base = names_of(config), flatten(config), base_of(config)
    for key in flags_of(config):
        if not isinstance(value := at(flat, key, True), bool):
            raise ConfigError(f"{key}: must be true or false for {{flag:{key}}} in command.line, given {value!r}")
    if base is None:
        return
    if not {*names} & {*_COPY}:
        path = config["command"]["config"]
        raise ConfigError(
            f"command.config: has no effect, given {path!r}: command.line has no {{config}}, which becomes the path of "
            f"the trial's own copy; write it there, such as --config {{config}}"
        )
    refuse_unread(config, base, values_of(config))


def refuse_unread(
    config: Mapping[str, Any], base: Mapping[str, Any] | None, keys: Iterable[str], where: str = ""
) -> None:
    """Refuse a key that neither the file, if there is one, nor the line has; `where` is what stands before it."""
    names = names_of(config)
    in_file = "" if base is None else f"{config['command']['config']} has no such key, and "
    for key in () if takes_all(config) else keys:
        if path_of(base or {}, key) is None and not any(within(key, name) for name in (*names, "command")):
            way = f"; write it there, such as --{_last(key)}={{{key}}}" if base is None else "; write it into the file"
            raise ConfigError(
                f"{where}{key}: {in_file}command.line has no {{{key}}}"
                f"{nearest(key, [*flatten(base or {}), *names]) or way}"
            )


def values_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the trial's values by key, without the study's own; of a searched key the whole value."""
    flat = flatten({name: branch for name, branch in config.items() if name != "command"})
    searched = config["command"].get("searched", ())
    rest = {key: value for key, value in flat.items() if not any(within(key, whole) for whole in searched)}
    # The groups of the toolkit that a command does not have are empty.
    values = {key: value for key, value in rest.items() if key != "data.name" and value != {}}
    wholes = {key: at(flat, key, _MISSING) for key in searched}
    return values | {key: value for key, value in wholes.items() if value is not _MISSING}


def write_copy(config: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """Write the trial's own copy of the file into the folder; return its path and that folder by their names."""
    base = base_of(config)
    if base is None:
        return {}
    given = config["command"]["config"]
    tree = replaced(base, {key: value for key, value in values_of(config).items() if path_of(base, key)})
    path = folder / Path(given).name
    path.write_text(json.dumps(tree, indent=2) if _is_json(given) else yaml_text(tree), encoding="utf-8")
    return dict(zip(_COPY, (str(path), str(folder)), strict=True))


def filled(task: Mapping[str, Any], copy: Mapping[str, str]) -> list[str]:
    """Return the words of the command, each with its values: a value is never split, and no shell reads it."""
    config = task["config"]
    values = flatten(config) | {f"task.{key}": task[key] for key in _TOLD} | {**copy}
    for name in names_of(config):
        if at(values, name, _MISSING) is _MISSING:
            raise ConfigError(f"command.line: this trial has no value for {{{name}}}; +{name}=VALUE gives one to all")
    words: list[str] = []
    for word in shlex.split(config["command"]["line"]):
        flag = _flag(word)
        if word == _ARGS and takes_all(config):
            words += _arguments(config)
        elif flag is None:
            words.append(fill(word, values))
        elif at(values, flag[0]):
            words.append(flag[1])
    return words


def fill(word: str, values: Mapping[str, Any]) -> str:
    """Return a word with values in place of its names."""
    parts = string.Formatter().parse(word)
    return "".join(text + ("" if name is None else _text(at(values, name))) for text, name, _, _ in parts)


def _arguments(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield `--key=value` for all values that stand neither elsewhere in the line nor in the file, and are not null."""
    names, base = names_of(config), base_of(config) or {}
    values = {
        key: value
        for key, value in values_of(config).items()
        if value is not None and not path_of(base, key) and not any(within(key, name) for name in names)
    }
    number = Counter(map(_last, values))
    for key, value in values.items():
        yield f"--{_last(key) if number[_last(key)] == 1 else key}={_text(value)}"


def _flag(word: str) -> tuple[str, str] | None:
    """Return the key of `{flag:KEY}` or `{flag:KEY:--option}`, and the option; None for a word without one."""
    parts = [(text, spec) for text, name, spec, _ in string.Formatter().parse(word) if name == "flag" and spec]
    if not parts:
        return None
    key, _, option = str(parts[0][1]).partition(":")
    if parts[0][0] or not (word.startswith("{") and word.endswith("}")) or len(placeholders(word)) > 1:
        raise ConfigError(f"command.line: {{flag:{key}}} must be a word of its own, given {word!r}")
    return key, option or f"--{_last(key)}"


def _text(value: Any) -> str:
    """Return a value as JSON, and a text as it is; "" for none."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def _last(key: str) -> str:
    return key.rpartition(".")[2]


def _is_json(path: str) -> bool:
    return path.lower().endswith(".json")
