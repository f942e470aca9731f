"""Reads a command line and the command's configuration file, and inserts a trial's values into both."""

import json
import re
import shlex
import string
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from hpo.config.documents import read_json, read_yaml, yaml_text
from hpo.config.keys import at, flatten, path_of, replaced, within
from hpo.config.on_trial import placeholder_text
from hpo.config.secrets import LEAST_DIGITS, looks_secret
from hpo.errors import ConfigError, nearest
from hpo.objectives.command_output import read_name, read_patterns

# The fields of a task that a command line may use, as `{task.KEY}`.
_TASK_KEYS = ("seed", "fold", "repeat", "trial", "threads", "folder", "dir", "amount", "resume_dir")
_AMOUNT = "task.amount"
# This word is replaced by all values, as `--key=value`, unless the trial has a key named `args`.
_ARGS = "{args}"
# In a command line, these names stand for the trial's copy of the file `command.config`, and for the copy's folder.
COPY = ("config", "config.dir")
_MISSING = object()


@dataclass(frozen=True)
class CommandLine:
    """A command from the objective's configuration. The command line and the command's file are parsed only once."""

    config: Mapping[str, Any]

    @cached_property
    def words(self) -> list[str]:
        """The words of the command line, split as a shell splits them."""
        return shlex.split(self.config["command"]["line"])

    @cached_property
    def names(self) -> list[str]:
        """The names in the command line: keys of the configuration, and `task.KEY`.

        Raises:
            ConfigError: the line cannot be parsed, or has an unknown `task.KEY` or a format such as `{lr:.2e}`.
        """
        line = self.config["command"]["line"]
        if not isinstance(line, str) or not line.strip():
            raise ConfigError(f'command.line: must be a command, such as "python train.py --lr {{lr}}", given {line!r}')
        try:
            words = [word for word in self.words if word != _ARGS]
            names = [(_flag(word) or (name,))[0] for word in words for name in placeholders(word)]
            fields = [field for word in words for field in string.Formatter().parse(word)]
        except ValueError as error:
            raise ConfigError(f"command.line: cannot be read ({error}), given {line!r}") from error
        for _, name, form, conversion in fields:
            if conversion or (form and name not in ("flag", _AMOUNT)):
                given = placeholder_text(name, form, conversion)
                raise ConfigError(
                    f"command.line: must have placeholders without a format, given {{{given}}}; write {{{name}}}"
                )
        for key in (name.removeprefix("task.") for name in names if name.startswith("task.")):
            if key not in _TASK_KEYS:
                allowed = ", ".join(_TASK_KEYS)
                raise ConfigError(
                    f"command.line: must not have {{task.{key}}}{nearest(key, _TASK_KEYS)}; use one of {allowed}"
                )
        return names

    @property
    def secrets(self) -> list[str]:
        """The options and variables that look like secrets, such as `--api-key`, and have a value in the command line.

        A value that is a placeholder or a variable (`$NAME`) does not count.
        """
        found = []
        for word, following in pairwise([*self.words, ""]):
            name, equals, value = word.partition("=")
            if not equals and word.startswith("--"):
                value = following
            is_plain = value and not placeholders(value) and not value.startswith(("$", "-"))
            is_small_number = value.isdigit() and len(value) < LEAST_DIGITS
            if is_plain and not is_small_number and looks_secret(name.lstrip("-")):
                found.append(name)
        return found

    @property
    def flags(self) -> list[str]:
        """The keys of the flags (`{flag:KEY}`) in the command line."""
        return [flag[0] for flag in map(_flag, self.words) if flag]

    @property
    def file(self) -> str | None:
        """The path in `command.config`; None = the command has no configuration file."""
        path = self.config["command"].get("config")
        if path is not None and not isinstance(path, str):
            raise ConfigError(f"command.config: must be the path of a file in YAML or JSON, given {path!r}")
        return path

    @cached_property
    def patterns(self) -> dict[str, re.Pattern[str]]:
        """The regular expressions of `command.pattern`, by name. Raises ConfigError if one is not valid."""
        return read_patterns(self.config["command"].get("pattern"))

    @property
    def result(self) -> str | None:
        """The name of the result file that the program writes at the end; None = it writes no such file."""
        return read_name(self.config["command"].get("result"))

    @property
    def continues(self) -> bool:
        """Whether the program can continue from a state that it saved in `{task.resume_dir}`."""
        return bool(self.config["command"].get("continues"))

    def has(self, key: str) -> bool:
        """Return whether the command line has `{task.KEY}` for this key."""
        return f"task.{key}" in self.names

    @property
    def amount_without_full(self) -> str | None:
        """The text `{task.amount}` if the command line has this placeholder without a default; otherwise None.

        The default is the text after the colon: with `{task.amount:30}`, a full training gets 30. Without a default, a
        full training fails, because it has no amount.
        """
        fields = [(name, spec) for word in self.words for _, name, spec, _ in string.Formatter().parse(word)]
        return next((f"{{{name}}}" for name, spec in fields if name == _AMOUNT and not spec), None)

    def refuse_bad_output(self) -> None:
        """Raise ConfigError if `command.pattern`, `command.result` or `command.continues` is invalid.

        Also raise it if `command.line` lacks the placeholder that `command.result` or `command.continues=true` needs.
        Without `command.continues=true`, also refuse the placeholders `{task.amount}` and `{task.resume_dir}`.
        """
        read_patterns(self.config["command"].get("pattern"))
        given = self.config["command"].get("continues", False)
        if not isinstance(given, bool):
            raise ConfigError(f"command.continues: must be true or false, given {given!r}")
        needs = (("folder", "command.result", self.result), ("resume_dir", "command.continues", given))
        for key, setting, value in needs:
            if value and not self.has(key):
                raise ConfigError(
                    f"{setting}: has no effect, because command.line has no {{task.{key}}}; add it there, such as "
                    f"--{key}={{task.{key}}}"
                )
        for key in ("amount", "resume_dir") if not given else ():
            if self.has(key):
                raise ConfigError(
                    f"command.line: {{task.{key}}} needs command.continues=true; the program must then stop at "
                    f"{{task.amount}} and continue from its state in {{task.resume_dir}}"
                )

    @cached_property
    def base(self) -> dict[str, Any]:
        """The content of the configuration file; empty if there is none. Raises DocumentError as `read_yaml` does."""
        read = read_json if _is_json(self.file or "") else read_yaml
        return {} if self.file is None else read(Path(self.file), "command.config")

    @cached_property
    def flat(self) -> dict[str, Any]:
        """The objective's configuration by dotted key."""
        return flatten(self.config)

    @cached_property
    def values(self) -> dict[str, Any]:
        """The trial's values by dotted key.

        The dict leaves out `data.name`, empty mappings, and the command's settings. A searched key keeps its whole
        value, even if the value is a mapping.
        """
        flat = {key: value for key, value in self.flat.items() if not within(key, "command")}
        wholes = {key: at(flat, key, _MISSING) for key in self.config["command"].get("searched", ())}
        # Leave out empty values: they are groups of the toolkit that a command does not use.
        rest = {key: value for key, value in flat.items() if key != "data.name" and value != {}}
        rest = {key: value for key, value in rest.items() if not any(within(key, whole) for whole in wholes)}
        return rest | {key: value for key, value in wholes.items() if value is not _MISSING}

    def takes_all(self, searched: Sequence[str] = ()) -> bool:
        """Return whether `{args}` in the command line stands for all values.

        Return False if the line has no `{args}`. Also return False if `args` is a key in `searched` or in the
        configuration, because `{args}` then stands for the value of this key.
        """
        return _ARGS in self.words and "args" not in searched and at(self.flat, "args", _MISSING) is _MISSING

    def refuse_unread(self, keys: Iterable[str]) -> None:
        """Raise ConfigError for a key that neither the configuration file nor the command line uses."""
        for key in () if self.takes_all() else keys:
            if not self._reads(key):
                in_file = f"is not a key of {self.file}, and " if self.file else ""
                place = f"the key to {self.file}" if self.file else f"--{_last(key)}={{{key}}} to command.line"
                hint = nearest(key, [*flatten(self.base), *self.names]) or f"; add {place}"
                raise ConfigError(f"{key}: {in_file}command.line has no {{{key}}}{hint}")

    def write_copy(self, folder: Path) -> dict[str, str]:
        """Copy the configuration file into a folder, and set the trial's values in the copy.

        Return the values for `{config}` and `{config.dir}`; an empty dict if the command has no configuration file.
        """
        if self.file is None:
            return {}
        tree = replaced(self.base, {key: value for key, value in self.values.items() if path_of(self.base, key)})
        path = folder / Path(self.file).name
        path.write_text(json.dumps(tree, indent=2) if _is_json(self.file) else yaml_text(tree), encoding="utf-8")
        return dict(zip(COPY, (str(path), str(folder)), strict=True))

    def fill_words(self, task: Mapping[str, Any], copy: Mapping[str, str]) -> list[str]:
        """Return the words of the line, filled with the values of a task. No shell splits or interprets a value.

        Raise ConfigError if a name in the line has no value.
        """
        values = self.flat | {f"task.{key}": task[key] for key in _TASK_KEYS} | {**copy}
        for name in self.names:
            if at(values, name, _MISSING) is _MISSING:
                hint = f"give a value for all trials with +{name}=VALUE"
                raise ConfigError(f"command.line: this trial has no value for {{{name}}}; {hint}")
        if task["amount"] is None and (placeholder := self.amount_without_full):
            raise ConfigError(
                f"command.line: a full training has no value for {placeholder}; give a default, such as 30 in "
                "{task.amount:30}"
            )
        words: list[str] = []
        for word in self.words:
            flag = _flag(word)
            if word == _ARGS and self.takes_all():
                words += self._arguments()
            elif flag is None:
                words.append(fill(word, values))
            elif at(values, flag[0]):
                words.append(flag[1])
        return words

    def _arguments(self) -> Iterator[str]:
        """Yield `--key=value` for each value that the configuration file and the rest of the command line do not use.

        Leave out a value None. The option has only the part of the key after the last dot, such as `--lr` for
        `optimizer.lr`. The option has the whole key in two cases:

        - Another yielded key has the same last part, such as `scheduler.lr`.
        - The command line already has the short option with a placeholder, such as `--lr {other}`.
        """
        values = {key: value for key, value in self.values.items() if value is not None and not self._reads(key)}
        number = Counter(map(_last, values))
        options = {flag[1] for flag in map(_flag, self.words) if flag}
        for word, following in pairwise([*self.words, ""]):
            option, equals, value = word.partition("=")
            options |= {option} if placeholders(value if equals else following) else set()
        for key, value in values.items():
            is_free = number[_last(key)] == 1 and f"--{_last(key)}" not in options
            yield f"--{_last(key) if is_free else key}={_text(value)}"

    def _reads(self, key: str) -> bool:
        """Return whether the command line or the command's configuration file uses a key."""
        return path_of(self.base, key) is not None or any(within(key, name) for name in (*self.names, "command"))


def placeholders(word: str) -> list[str]:
    """Return the names in a word that are written in braces."""
    return [name for _, name, _, _ in string.Formatter().parse(word) if name is not None]


def fill(word: str, values: Mapping[str, Any]) -> str:
    """Replace the names in braces in a word by their values."""
    parts = string.Formatter().parse(word)
    return "".join(text + ("" if name is None else _value(name, spec, values)) for text, name, spec, _ in parts)


def _value(name: str, spec: str | None, values: Mapping[str, Any]) -> str:
    """Return the value of a name as text; None gives an empty text.

    If the name is `task.amount` and its value is None (a full training), return the default `spec` instead.
    """
    return _text(at(values, name)) or (spec or "" if name == _AMOUNT else "")


def _flag(word: str) -> tuple[str, str] | None:
    """Return the key and the option of `{flag:KEY:--option}`; None if the word has no flag.

    For `{flag:KEY}`, the option is `--` with the part of the key after its last dot.
    """
    parts = [(text, spec) for text, name, spec, _ in string.Formatter().parse(word) if name == "flag" and spec]
    if not parts:
        return None
    key, _, option = str(parts[0][1]).partition(":")
    if parts[0][0] or not (word.startswith("{") and word.endswith("}")) or len(placeholders(word)) > 1:
        raise ConfigError(f"command.line: {{flag:{key}}} must be a separate word, given {word!r}")
    return key, option or f"--{_last(key)}"


def _text(value: Any) -> str:
    """Return a text unchanged, None as "", and any other value as JSON."""
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)


def _last(key: str) -> str:
    return key.rpartition(".")[2]


def _is_json(path: str) -> bool:
    return path.lower().endswith(".json")
