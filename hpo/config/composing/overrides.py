"""Overrides on a command line: `key=value`, `group=name`, `+key=value`, `~key`."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, IntervalSweep, Override, RangeSweep, Sweep
from hydra.errors import HydraException

from hpo.config.secrets import hide_in_argument
from hpo.errors import ConfigError

# The number of characters of an override in a message.
_NUM_CHARACTERS = 200

# Matches a quoted key in a mapping; Hydra cannot read such keys.
_QUOTED_KEY = re.compile(r"[{,]\s*(\"[^\"]*\"|'[^']*')\s*:")

# Matches a value that is one quoted string.
_QUOTED = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'""")

# Mappings whose keys the user chooses. Their overrides are applied after composing, and new keys need no `+`.
_OF_METRICS = ("study.metrics", "study.limits", "study.choose")
USERS_OWN = (
    *("space.", "strategy.start", "strategy.windows", "data.where", "dispatch.environment", "study.imports_fill"),
    *_OF_METRICS,
)


def parse_override(text: str) -> Override:
    """Parse an override with Hydra, and return it; raise ConfigError if the text is invalid or has several values.

    For a key below `space`, Hydra's `choice`, `range` and `interval` define a dimension, as for Hydra's sweepers. For
    any other key, they cause a ConfigError.
    """
    excerpt = hide_in_argument(text)[:_NUM_CHARACTERS]
    try:
        override = OverridesParser.create().parse_override(text)
    except (HydraException, ValueError, RecursionError) as error:
        hint = (
            "write key=value, group=name, +key=value or ~key; put a value in quotes if it contains blanks, braces or "
            "characters beyond ASCII"
        )
        if quoted := _QUOTED_KEY.search(text):
            bare = re.sub(r"([\s\[\](){}:=,\\])", r"\\\1", quoted[1][1:-1])
            hint = f"write keys without quotes: {bare}, not {quoted[1]}"
        reason = f" ({one_line(error)})" if str(error.__cause__ or error) not in ("", "None") else ""
        raise ConfigError(f"command line: '{excerpt}' cannot be read{reason}; {hint}") from error
    if not override.key_or_group:
        raise ConfigError(f"command line: '{excerpt}' has no key; write key=value, group=name, +key=value or ~key")
    if isinstance(sweep := override.value(), Sweep):
        _refuse_bad_sweep(override.key_or_group, sweep, excerpt.partition("=")[2])
    elif override.is_sweep_override():
        raise ConfigError(f"{override.key_or_group}: takes one value, given {excerpt.partition('=')[2]}; give one")
    return override


def _refuse_bad_sweep(key: str, sweep: Sweep, text: str) -> None:
    if isinstance(sweep, ChoiceSweep) and sweep.simple_form:
        raise ConfigError(f"{key}: takes one value, given several; write a list as [a,b]")
    if not key.startswith("space."):
        raise ConfigError(f"{key}: takes one value, given {text}; to search this key, set space.{key}")
    known = {"log"} if isinstance(sweep, IntervalSweep) else set[str]()
    if unknown := sorted(sweep.tags - known):
        raise ConfigError(
            f"{key}: the tag '{unknown[0]}' has no effect, given {text}; only the tag 'log' has an effect, and only "
            "with an interval"
        )
    if isinstance(sweep, RangeSweep) and _num_steps(sweep) < 0:
        raise ConfigError(f"{key}: has no values, given {text}; write range(start,stop,step), where stop is excluded")


def _dimension_of(sweep: Sweep) -> dict[str, Any]:
    """Convert a sweep of Hydra to a dimension, written as in conf/space."""
    if isinstance(sweep, ChoiceSweep):
        return {"choices": plain_value(sweep.list)}
    if isinstance(sweep, IntervalSweep):
        is_whole = isinstance(sweep.start, int) and isinstance(sweep.end, int)
        return {"low": sweep.start, "high": sweep.end, "log": "log" in sweep.tags, "integer": is_whole}
    assert isinstance(sweep, RangeSweep)
    assert sweep.start is not None
    steps = _num_steps(sweep)
    low, high = sorted((sweep.start, sweep.start + steps * sweep.step))
    return {"low": low, "high": high, "step": abs(sweep.step)} if steps else {"values": [low]}


def _num_steps(sweep: RangeSweep) -> int:
    """Return the number of steps between the first and the last value of a range; negative = the range is empty."""
    assert sweep.start is not None
    assert sweep.stop is not None
    return math.ceil((sweep.stop - sweep.start) / sweep.step - 1e-9) - 1 if sweep.step else -1


def read_values(texts: Sequence[str]) -> dict[str, Any]:
    """Parse words of the form `key=value`, and return the values by key.

    Raise ConfigError for other words, and for a key that is given twice.
    """
    values = {}
    for text in texts:
        override = parse_override(text)
        if "=" not in text or override.is_add() or override.is_delete():
            raise ConfigError(f"command line: must be key=value, given '{text[:_NUM_CHARACTERS]}'")
        if override.key_or_group in values:
            given = " and ".join(texts)[:_NUM_CHARACTERS]
            raise ConfigError(f"{override.key_or_group}: must occur only once, given {given}")
        values[override.key_or_group] = plain_value(override.value())
    return values


def written_out(text: str) -> str:
    """Translate an override into Hydra's syntax.

    `objective=command` becomes `data=command`, and `objective=outside` becomes `data=outside`. The values of
    `command.line` and `study.on_trial` get quotes. An objective with arguments, such as `module:train(config)`, also
    gets quotes. Empty values, values that are one quoted string, and other overrides are returned unchanged.
    """
    key, _, value = text.partition("=")
    if text in ("objective=command", "objective=outside"):
        return text.replace("objective", "data")
    if key == "objective" and "(" in value:
        value = re.sub(r",\s*", ", ", value)
    elif key not in ("command.line", "study.on_trial"):
        return text
    if not value or _QUOTED.fullmatch(value):
        return text
    # In Hydra's syntax, backslashes count only before a quote: there each one is doubled, and the quote gets another.
    escaped = re.sub(r'(\\*)("|\Z)', lambda match: match[1] * 2 + match[2].replace('"', '\\"'), value)
    return f'{key}="{escaped}"'


def function_alone(name: str, overrides: Sequence[Override]) -> list[Override]:
    """Return overrides that remove the toolkit's trainer, for an objective with parameters (`module:train(config)`).

    The argument `overrides` has the user's overrides. The result removes `data`, `model`, `training` and, for a search,
    the search space. If the user chooses no `study`, the result also sets `study.name` and `study.metric`. If the user
    sets one of these keys, the result has no override for this key.

    Return an empty list if the objective's path has no parameters in brackets, or if the user chooses `data`.
    """
    given = {o.key_or_group: o.value() for o in overrides if not o.is_delete()}
    call = re.fullmatch(r"[\w.]+:(\w+)\(.*\)", str(plain_value(given.get("objective"))))
    if call is None or "data" in given:
        return []
    chosen = {"space": "space=none"} if name == "search" else {}
    chosen |= {group: f"~{group}" for group in ("data", "model", "training")}
    if "study" not in given:
        chosen |= {"study.name": f"study.name={call[1].strip('_') or 'function'}", "study.metric": "study.metric=score"}
    return [parse_override(text) for key, text in chosen.items() if key not in given]


def refuse_twice(overrides: Sequence[Override]) -> None:
    """Raise ConfigError if a mapping of metrics contains a name twice; Hydra silently uses the last value."""
    for override in overrides:
        if override.key_or_group in _OF_METRICS and isinstance(override.value(), Mapping):
            text = text_of(override).partition("=")[2]
            # Read the innermost mappings first.
            while inner := re.search(r"\{[^{}]*\}", text):
                names = re.findall(r"[{,]\s*['\"]?([^,:{}'\"]+?)['\"]?\s*:", inner[0])
                if twice := next((name for name in names if names.count(name) > 1), None):
                    raise ConfigError(f"{override.key_or_group}: must have each name once, given '{twice}' twice")
                text = text.replace(inner[0], "")


def text_of(override: Override) -> str:
    """Return the text from which an override was parsed."""
    return str(override.input_line)


def plain_value(value: Any) -> Any:
    """Convert a value from Hydra's parser to a plain Python value; for example, a `QuotedString` becomes a str."""
    if isinstance(value, Sweep):
        return _dimension_of(value)
    if isinstance(value, Mapping):
        return {str(key): plain_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain_value(item) for item in value]
    return value if isinstance(value, int | float | bool | None) else getattr(value, "text", str(value))


def one_line(error: BaseException) -> str:
    """Return the message of an error as one line of at most 300 characters.

    If the error has a cause, return the message of the cause instead.
    """
    cause = error.__cause__ or error
    return " ".join(str(cause).split())[:300]
