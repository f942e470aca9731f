"""Reads dimensions in the form of other tools: objects of Ray Tune, Optuna and SciPy, and dicts of W&B and NNI."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from numbers import Number
from typing import Any, Never

from hpo.config.keys import is_number, path_of
from hpo.errors import SpaceError
from hpo.trials.space.reader import is_leaf

_FORMS = "hpo.log(1e-5, 1e-1), a range (0.0, 0.5), or a list [1, 2, 3]"
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_OF_SWEEPS = {"value", "values", "distribution", "min", "max"}
_PLAIN = (str, Number, list, tuple, range, Mapping, type(None))


def of_peer(value: Any, where: str) -> dict[str, Any] | None:
    """Return the dimension of another tool in the form of conf/space.

    Return None for a plain value (such as a text, a number or a list), for an object of this toolkit, and for a mapping
    in the form of conf/space.

    Raises:
        SpaceError: conf/space has no dimension of this kind, or the value is an object of an unknown class.
    """
    if isinstance(value, Mapping):
        return _of_mapping(value, where)
    kind = type(value)
    for module, read in (("ray.tune.", _of_ray), ("optuna.distributions", _of_optuna), ("scipy.stats.", _of_scipy)):
        if f"{kind.__module__}.".startswith(module):
            return read(value, where)
    has_list = hasattr(value, "tolist") and not isinstance(value, type)
    if isinstance(value, _PLAIN) or has_list or kind.__module__.startswith("hpo."):
        return None
    raise SpaceError(
        f"{where}: must be a dimension, given {value!r:.80} (a {kind.__module__}.{kind.__qualname__}); give {_FORMS}"
    )


def without_sweeps(space: Mapping[str, Any], config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the space without the key `parameters` that W&B puts into each group: `{"parameters": {...}}`.

    If `config` also has this key in the same group, the key is the user's own, and stays in the space.
    """
    found: dict[str, Any] = {}
    for name, branch in space.items():
        key = f"{prefix}{name}"
        while _is_sweep(branch) and path_of(config, f"{key}.parameters") is None:
            branch = branch["parameters"]
        is_group = isinstance(branch, Mapping) and not is_leaf(branch)
        found[name] = without_sweeps(branch, config, f"{key}.") if is_group else branch
    return found


def _is_sweep(branch: Any) -> bool:
    """Return whether a group is a nested sweep of W&B: its only key is `parameters`, with dimensions in W&B's form."""
    if not isinstance(branch, Mapping) or branch.keys() != {"parameters"}:
        return False
    inner = branch["parameters"]
    return isinstance(inner, Mapping) and all(
        isinstance(one, Mapping) and (_is_sweep(one) or not _OF_SWEEPS.isdisjoint(one)) for one in inner.values()
    )


def refuse_whole(space: Mapping[str, Any]) -> None:
    """Raise SpaceError if the space is a whole W&B sweep; only its `parameters` are a space."""
    if isinstance(space.get("method"), str) and isinstance(space.get("parameters"), Mapping):
        raise SpaceError(
            "space: must be only the `parameters` of a W&B sweep, given the whole sweep (in Python, give "
            "space=sweep['parameters']); give metric, direction and strategy separately"
        )


def _of_ray(value: Any, where: str) -> dict[str, Any]:
    kind, sampler = type(value).__name__, getattr(value, "sampler", None) or value
    step = getattr(sampler, "q", None)
    scale = type(sampler if step is None else sampler.sampler).__name__
    if kind == "Categorical" and scale == "_Uniform":
        return _choices(value.categories, where)
    if kind not in ("Float", "Integer") or scale not in ("_Uniform", "_LogUniform"):
        _refuse(where, f"Ray's {scale.strip('_')}")
    if not all(map(math.isfinite, (value.lower, value.upper))):
        _refuse(where, "a range without ends")
    # In Ray, ranges of whole numbers exclude their upper end, unless they have a step.
    high = value.upper - 1 if kind == "Integer" and step is None else value.upper
    return range_of(where, value.lower, high, is_whole=kind == "Integer", log=scale == "_LogUniform", step=step)


def _of_optuna(value: Any, where: str) -> dict[str, Any]:
    kind = type(value).__name__
    if kind == "CategoricalDistribution":
        return _choices(value.choices, where)
    if kind not in ("FloatDistribution", "IntDistribution"):
        _refuse(where, f"Optuna's {kind}")
    is_whole = kind == "IntDistribution"
    return range_of(where, value.low, value.high, is_whole=is_whole, log=value.log, step=value.step, starts_at_low=True)


def _of_scipy(value: Any, where: str) -> dict[str, Any]:
    name = getattr(getattr(value, "dist", None), "name", type(value).__name__)
    is_log = name in ("loguniform", "reciprocal")
    if not is_log and name not in ("uniform", "randint"):
        _refuse(where, f"SciPy's {name}")
    # `loc` is the third positional argument. If it is not 0, the distribution is not log-uniform.
    if is_log and value.kwds.get("loc", [*value.args, 0, 0, 0][2]) != 0:
        _refuse(where, f"SciPy's {name} with a loc")
    low, high = value.support()
    return range_of(where, low, high, is_whole=name == "randint", log=is_log)


def _of_mapping(written: Mapping[Any, Any], where: str) -> dict[str, Any] | None:
    """Return the dimension that a dict of W&B or NNI describes; refuse a dict of `tune.grid_search`.

    Return None for a dimension in the form of conf/space, and for a group of dimensions.
    """
    written = {name: as_number(value) if name in ("min", "max", "q") else value for name, value in written.items()}
    if isinstance(written.get("_type"), str):
        return _of_nni(written["_type"], written.get("_value"), where)
    if set(written) == {"grid_search"} and isinstance(written["grid_search"], Sequence):
        raise SpaceError(f'{where}: cannot be Ray\'s grid_search; give the list of values, and strategy="grid"')
    is_range = all(is_number(written.get(end)) for end in ("min", "max"))
    is_value = "value" in written and isinstance(written["value"], str | Number | None)
    if "probabilities" in written:
        _refuse(where, "W&B's probabilities")
    if not (isinstance(written.get("distribution"), str) or is_range or (is_value and len(written) == 1)):
        return None
    is_whole = all(isinstance(written.get(end), int) for end in ("min", "max"))
    uniform = "int_uniform" if is_whole else "uniform"
    usual = "constant" if is_value else "categorical" if "values" in written else uniform
    return _of_sweep(str(written.get("distribution", usual)), written, where)


def _of_sweep(kind: str, written: Mapping[Any, Any], where: str) -> dict[str, Any]:
    if kind == "constant":
        return _choices([written.get("value")], where)
    if kind == "categorical":
        return _choices(written.get("values"), where)
    low, high = (written.get(end) for end in ("min", "max"))
    if kind not in ("uniform", "int_uniform", "q_uniform", "log_uniform", "log_uniform_values", "q_log_uniform_values"):
        _refuse(where, f"W&B's {kind}")
    if low is None or high is None or not (is_number(low) and is_number(high)):
        raise SpaceError(f"{where}: W&B's {kind} must have numbers as min and max, given {dict(written)!r}")
    if kind == "log_uniform":
        # In W&B's log_uniform, min and max are exponents of e.
        low, high = math.exp(low), math.exp(high)
    step = written.get("q", 1) if kind.startswith("q_") else None
    return range_of(where, low, high, is_whole=kind == "int_uniform", log="log" in kind, step=step)


def _of_nni(kind: str, written: Any, where: str) -> dict[str, Any]:
    if kind == "choice":
        return _choices(written, where)
    if kind not in ("uniform", "quniform", "loguniform", "qloguniform", "randint"):
        _refuse(where, f"NNI's {kind}")
    is_stepped = kind.startswith("q")
    written = [*map(as_number, written)] if isinstance(written, list | tuple) else written
    if not isinstance(written, Sequence) or len(written) != 2 + is_stepped or not all(map(is_number, written)):
        raise SpaceError(f"{where}: NNI's {kind} must have {2 + is_stepped} numbers as _value, given {written!r}")
    is_whole = kind == "randint"
    high = written[1] - 1 if is_whole else written[1]
    return range_of(where, written[0], high, is_whole, log="log" in kind, step=written[2] if is_stepped else None)


def _choices(values: Any, where: str) -> dict[str, Any]:
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise SpaceError(f"{where}: must have a list of values, given {values!r}")
    if any(isinstance(value, Mapping) and "_name" in value for value in values):
        instead = "a list of the values of '_name', and a condition 'when' for each nested dimension"
        _refuse(where, "a choice with nested dimensions", instead)
    # `item` turns NumPy's numbers into Python numbers.
    return {"choices": [v.item() if hasattr(v, "item") and not getattr(v, "shape", ()) else v for v in values]}


def range_of(
    where: str, low: Any, high: Any, is_whole: bool, log: bool = False, step: Any = None, starts_at_low: bool = False
) -> dict[str, Any]:
    """Convert a range of another tool to the form of conf/space.

    In conf/space, the values of a range with a step are low, low + step and so on.

    Args:
        starts_at_low: whether the other tool also starts at low. If false, it uses the multiples of the step.

    Raises:
        SpaceError: a logarithmic range has a step (other than 1 for whole numbers); or `starts_at_low` is false, and
            low or high is not a multiple of the step.
    """
    kind: Callable[[Any], float] = int if is_whole else float
    ends = {"low": kind(low), "high": kind(high)}
    if step is None or (is_whole and step == 1):
        return ends | ({"integer": True} if is_whole else {}) | ({"log": True} if log else {})
    if log:
        _refuse(where, "a logarithmic range with a step")
    if not starts_at_low and any(abs(end / step - round(end / step)) > 1e-6 for end in ends.values()):
        _refuse(
            where,
            f"a range from {low!r} to {high!r} with step {step!r}, because both ends must be multiples of the step",
            "a list of values",
        )
    is_all_whole = all(isinstance(number, int) for number in (low, high, step))
    return ({name: int(end) for name, end in ends.items()} if is_all_whole else ends) | {"step": step}


def as_number(value: Any) -> Any:
    """Return the number that a text represents; return any other value or text unchanged."""
    if not isinstance(value, str) or not _NUMBER.fullmatch(value):
        return value
    return float(value) if any(sign in value for sign in ".eE") else int(value)


def _refuse(where: str, what: str, instead: str = _FORMS) -> Never:
    raise SpaceError(f"{where}: cannot be {what}; give {instead}")
