"""Conditions that select studies of a list by their fields, such as `strategy=evolutionary and score>0.9`.

A condition is parsed, never executed.
"""

import ast
import operator
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, Literal, get_args

from hpo.errors import ConfigError, nearest
from hpo.study.files.status import State

Kind = Literal["text", "number", "time", "state"]
Row = Mapping[str, Any]

_SIGNS = {"=": "==", "==": "==", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "~": "in"}
_TOKEN = re.compile(r"""\s*(?:(?P<quoted>'[^']*'|"[^"]*")|(?P<sign>[!<>=]=|[=<>~])|(?P<word>[()]|[^\s()=!<>~'"]+))""")
_COMPARE: Mapping[type[ast.cmpop], tuple[str, Callable[[Any, Any], bool]]] = {
    ast.Eq: ("=", operator.eq),
    ast.NotEq: ("!=", operator.ne),
    ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le),
    ast.Gt: (">", operator.gt),
    ast.GtE: (">=", operator.ge),
    ast.In: ("~", operator.contains),
}
_ALLOWED: Mapping[Kind, tuple[str, ...]] = {
    "text": ("=", "!=", "~"),
    "state": ("=", "!="),
    "number": ("=", "!=", "<", "<=", ">", ">="),
    "time": ("=", "!=", "<", "<=", ">", ">="),
}
# A date without a day or a time of day matches the whole year, month or day.
_TIME = re.compile(r"\d{4}(-\d\d(-\d\d([T ]\d\d(:\d\d(:\d\d)?)?)?)?)?")
_SYNTAX = "write FIELD OPERATOR VALUE, combined by `and`, `or`, `not`, `()`: 'strategy=evolutionary and score>0.9'"


def condition(text: str, fields: Mapping[str, Kind]) -> Callable[[Row], bool]:
    """Return a function that checks whether a row fits the condition; ConfigError if the condition cannot be read.

    Operators are =, !=, <, <=, >, >= and ~ (contains). `none` stands for a missing value. A missing value fits two
    kinds of conditions: `=none`, and `!=VALUE` where VALUE is not `none`.
    """
    try:
        return _check(ast.parse(_as_python(text, fields), mode="eval").body, text, fields)
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ConfigError(f"where: cannot be read, given {text!r}; {_SYNTAX}") from error


def _as_python(text: str, fields: Mapping[str, Kind]) -> str:
    """Return the condition as Python code, which has only fields, strings, operators, brackets, `and`, `or`, `not`."""
    words, place, is_value = list[str](), 0, False
    while text[place:].strip():
        token = _TOKEN.match(text, place)
        if token is None:
            raise ConfigError(f"where: {text[place:].strip()!r} cannot be read; {_SYNTAX}")
        quoted, sign, word = token["quoted"], token["sign"], token["word"]
        if sign:
            words.append(_SIGNS[sign])
        elif quoted or is_value:
            words.append(repr(quoted[1:-1] if quoted else word))
        elif word in ("and", "or", "not", "(", ")"):
            words.append(word)
        else:
            words.append(known_field(word, fields, "where"))
        place, is_value = token.end(), bool(sign)
    return " ".join(words)


def known_field(name: str, fields: Mapping[str, Kind], where: str) -> str:
    """Return the name if it is a field; else raise ConfigError, whose message lists the fields."""
    if name not in fields:
        raise ConfigError(f"{where}: must be one of {', '.join(fields)}, given {name!r}{nearest(name, fields)}")
    return name


def _check(node: ast.expr, text: str, fields: Mapping[str, Kind]) -> Callable[[Row], bool]:
    match node:
        case ast.BoolOp(op=joined, values=parts):
            checks, join = [_check(part, text, fields) for part in parts], any if isinstance(joined, ast.Or) else all
            return lambda row: join(check(row) for check in checks)
        case ast.UnaryOp(op=ast.Not(), operand=part):
            inverted = _check(part, text, fields)
            return lambda row: not inverted(row)
        case ast.Compare(left=ast.Name(id=field), ops=[sign], comparators=[ast.Constant(value=str(value))]):
            return _comparison(field, fields[field], *_COMPARE[type(sign)], value)
    raise ConfigError(f"where: cannot be read, given {text!r}; {_SYNTAX}")


def _comparison(
    field: str, kind: Kind, sign: str, compare: Callable[[Any, Any], bool], text: str
) -> Callable[[Row], bool]:
    if text == "none" and sign in ("=", "!="):
        return lambda row: (row[field] is None) == (sign == "=")
    if sign not in _ALLOWED[kind]:
        raise ConfigError(
            f"where: the operator after {field} must be one of {', '.join(_ALLOWED[kind])}, given '{sign}'"
        )
    value = _value(field, kind, text)
    # Compare times only to the precision of the condition, such as the month.
    prefix = slice(len(text)) if kind == "time" else None

    def fits(row: Row) -> bool:
        actual = row[field]
        if actual is None:
            return sign == "!="
        return compare(actual if prefix is None else actual[prefix], value)

    return fits


def _value(field: str, kind: Kind, text: str) -> str | float:
    if kind == "number":
        try:
            return float(text)
        except ValueError as error:
            raise ConfigError(f"where: {field} must be a number, given {text!r}") from error
    if kind == "state" and text not in (states := get_args(State)):
        raise ConfigError(f"where: {field} must be one of {', '.join(states)}, given {text!r}{nearest(text, states)}")
    if kind == "time" and not _is_time(text):
        raise ConfigError(f"where: {field} must be a time, such as 2026-11-27 or '2026-11-27 14:30', given {text!r}")
    return text.replace(" ", "T") if kind == "time" else text


def _is_time(text: str) -> bool:
    """Return whether a text is a time, such as `2026-11-27 14:30`, or the first part of a time, such as `2026-11`."""
    with suppress(ValueError):
        return bool(_TIME.fullmatch(text) and datetime.fromisoformat(text + "2000-01-01T00:00:00"[len(text) :]))
    return False
