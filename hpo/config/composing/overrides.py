"""What a user types, one override each: `key=value`, `group=name`, `+key=value`, `~key`."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, IntervalSweep, Override, RangeSweep, Sweep
from hydra.errors import HydraException

from hpo.config.secrets import hide_in_argument
from hpo.errors import ConfigError

_SHOWN = 200

# The beginning of a mapping, or what follows in it, with a key in quotes, which Hydra does not read.
_QUOTED_KEY = re.compile(r"[{,]\s*(\"[^\"]*\"|'[^']*')\s*:")

# Mappings whose keys the user chooses: they are set after composing and need no `+`.
_OF_METRICS = ("study.metrics", "study.limits", "study.choose")
USERS_OWN = ("space.", "strategy.start", "strategy.windows", "data.where", *_OF_METRICS)


def parse_override(text: str) -> Override:
    """Return an override as Hydra parses it; ConfigError where it cannot be read, or gives several values.

    Hydra's `choice`, `range` and `interval` are a dimension of the space, as its sweepers read them.
    """
    shown = hide_in_argument(text)[:_SHOWN]
    try:
        override = OverridesParser.create().parse_override(text)
    except (HydraException, ValueError, RecursionError) as error:
        hint = (
            "write key=value, group=name, +key=value or ~key, and quote values with blanks, braces or signs such as ö"
        )
        if quoted := _QUOTED_KEY.search(text):
            hint = f"write keys without quotes: {quoted[1][1:-1]}, not {quoted[1]}"
        reason = f" ({one_line(error)})" if str(error.__cause__ or error) not in ("", "None") else ""
        raise ConfigError(f"command line: '{shown}' cannot be read{reason}; {hint}") from error
    if not override.key_or_group:
        raise ConfigError(f"command line: '{shown}' names no key; write key=value, group=name, +key=value or ~key")
    if isinstance(sweep := override.value(), Sweep):
        _refuse_no_dimension(override.key_or_group, sweep, shown.partition("=")[2])
    elif override.is_sweep_override():
        raise ConfigError(f"{override.key_or_group}: takes one value, given {shown.partition('=')[2]}; write it out")
    return override


def _refuse_no_dimension(key: str, sweep: Sweep, text: str) -> None:
    if isinstance(sweep, ChoiceSweep) and sweep.simple_form:
        raise ConfigError(f"{key}: takes one value, given several; a list is written [a,b]")
    if not key.startswith("space."):
        raise ConfigError(f"{key}: takes one value, given {text}; what `hpo search` searches is below space: space.KEY")
    known = {"log"} if isinstance(sweep, IntervalSweep) else set[str]()
    if unknown := sorted(sweep.tags - known):
        raise ConfigError(f"{key}: the tag '{unknown[0]}' has no effect here, given {text}; log has, of an interval")
    if isinstance(sweep, RangeSweep) and _num_steps(sweep) < 0:
        raise ConfigError(f"{key}: has no value, given {text}; write range(start,stop,step), without the stop")


def _dimension_of(sweep: Sweep) -> dict[str, Any]:
    """Return what Hydra's sweepers search as conf/space has it."""
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
    """Return how many steps a range takes to its last value, which is before its stop; below 0 where it has none."""
    assert sweep.start is not None
    assert sweep.stop is not None
    return math.ceil((sweep.stop - sweep.start) / sweep.step - 1e-9) - 1 if sweep.step else -1


def read_values(texts: Sequence[str]) -> dict[str, Any]:
    """Return the values of `key=value`, as the command line reads them; ConfigError for anything else."""
    values = {}
    for text in texts:
        override = parse_override(text)
        if "=" not in text or override.is_add() or override.is_delete():
            raise ConfigError(f"command line: '{text[:_SHOWN]}' is no value of a key; write key=value")
        if override.key_or_group in values:
            raise ConfigError(f"{override.key_or_group}: is given twice, {' and '.join(texts)[:_SHOWN]}; give it once")
        values[override.key_or_group] = plain_value(override.value())
    return values


def written_out(text: str) -> str:
    """Return an override as Hydra reads it: `command` and `outside` are groups, and a line and a call need quotes."""
    key, _, value = text.partition("=")
    if text in ("objective=command", "objective=outside"):
        return text.replace("objective", "data")
    if key == "objective" and "(" in value:
        value = re.sub(r",\s*", ", ", value)
    elif key != "command.line":
        return text
    if value[:1] in ("", "'", '"'):
        return text
    return f'{key}="{value.replace(chr(34), chr(92) + chr(34))}"'


def function_alone(name: str, overrides: Sequence[Override]) -> list[Override]:
    """Return what leaves a function that the command line calls (`objective=spam:train(config)`) with its own keys.

    Nothing where it chooses the data, too; its other choices stand.
    """
    given = {o.key_or_group: o.value() for o in overrides if not o.is_delete()}
    call = re.fullmatch(r"[\w.]+:(\w+)\(.*\)", str(plain_value(given.get("objective"))))
    if call is None or "data" in given:
        return []
    chosen = {"space": "space=none"} if name == "search" else {}
    chosen |= {group: f"~{group}" for group in ("data", "model", "training")}
    if "study" not in given:
        chosen |= {"study.name": f"study.name={call[1]}", "study.metric": "study.metric=score"}
    return [parse_override(text) for key, text in chosen.items() if key not in given]


def refuse_twice(overrides: Sequence[Override]) -> None:
    """Raise ConfigError where one of the mappings of metrics has a name twice, of which Hydra takes the last."""
    for override in overrides:
        if override.key_or_group in _OF_METRICS and isinstance(override.value(), Mapping):
            text = text_of(override).partition("=")[2].strip()[1:-1]
            names = re.findall(r"(?:^|,)\s*['\"]?([^,:{}'\"]+?)['\"]?\s*:", re.sub(r"\{[^{}]*\}", "", text))
            if twice := next((name for name in names if names.count(name) > 1), None):
                raise ConfigError(f"{override.key_or_group}: names '{twice}' twice; give it once")


def text_of(override: Override) -> str:
    """Return an override as it was typed."""
    return str(override.input_line)


def plain_value(value: Any) -> Any:
    """Return Hydra's parsed value with its classes of text and key replaced by `str`, and of a sweep the dimension."""
    if isinstance(value, Sweep):
        return _dimension_of(value)
    if isinstance(value, Mapping):
        return {str(key): plain_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain_value(item) for item in value]
    return value if isinstance(value, int | float | bool | None) else getattr(value, "text", str(value))


def one_line(error: BaseException) -> str:
    """Return what a library says, or what caused it, in one line."""
    cause = error.__cause__ or error
    return " ".join(str(cause).split())[:300]
