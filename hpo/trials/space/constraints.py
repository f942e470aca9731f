"""Rules between hyperparameters, such as `model.d_model % model.num_heads == 0`, in a small and safe language.

This module parses an expression and evaluates its syntax tree itself, without Python's `eval`. So an expression can
contain only numbers, texts, true/false/none, dotted keys, arithmetic, (chained) comparisons, `in`, `and`, `or`, `not`,
and brackets.
"""

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from hpo.errors import SpaceError, nearest
from hpo.trials.space.dimensions import Point

_LANGUAGE = "allowed: numbers, texts, true/false/none, keys, + - * / // %, comparisons, in [..], and, or, not, brackets"
_MAX_LENGTH = 1000

_ARITHMETIC: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARISONS: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda value, values: value in values,
    ast.NotIn: lambda value, values: value not in values,
}
_NAMES = {"true": True, "false": False, "null": None, "none": None, "True": True, "False": False, "None": None}

Rule = Callable[[Point], Any]


@dataclass(frozen=True)
class Constraint:
    """A rule that every point must keep.

    Attributes:
        text: the expression.
        keys: the searched keys in the expression.
        rule: computes the expression from the values of all keys in it.
        fixed: the values of the other keys in the expression, which are not searched.
    """

    text: str
    keys: tuple[str, ...]
    rule: Rule
    fixed: Point

    def holds(self, point: Point) -> bool:
        """Return whether a point keeps the rule; True if the point lacks a key of the rule.

        Raises:
            SpaceError: the rule cannot be computed for this point.
        """
        if any(key not in point for key in self.keys):
            return True
        try:
            return bool(self.rule({**self.fixed, **point}))
        except (TypeError, ArithmeticError) as error:
            values = ", ".join(f"{key}={point[key]!r}" for key in self.keys)
            raise SpaceError(f"space.require: '{self.text}' cannot be computed for {values}: {error}") from error


def read_constraint(text: Any, searched: Sequence[str], fixed: Point) -> Constraint:
    """Return the rule that an expression states.

    Args:
        text: the expression.
        searched: the searched keys; the expression must contain at least one of them.
        fixed: the values of the keys that are not searched.

    Raises:
        SpaceError: the expression is not valid.
    """
    if not isinstance(text, str) or not text.strip() or len(text) > _MAX_LENGTH:
        raise SpaceError(f"space.require: must be an expression of at most {_MAX_LENGTH} characters, given {text!r}")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        rule = _rule(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        raise SpaceError(f"space.require: '{text}' cannot be read: {reason}; {_LANGUAGE}") from error
    keys = _keys(tree)
    known = {*searched, *fixed}
    for key in keys:
        if key not in known:
            raise SpaceError(f"space.require: '{text}' has the unknown key '{key}'{nearest(key, known)}")
    own = tuple(key for key in searched if key in keys)
    if not own:
        raise SpaceError(f"space.require: '{text}' must name a searched key; searched keys: {', '.join(searched)}")
    return Constraint(text, own, rule, {key: fixed[key] for key in keys if key not in searched})


def _keys(node: ast.AST) -> list[str]:
    """Return the dotted keys in an expression, in the order in which they occur."""
    if isinstance(node, ast.Name | ast.Attribute):
        key = ast.unparse(node)
        return [] if key in _NAMES else [key]
    return [key for child in ast.iter_child_nodes(node) for key in _keys(child)]


def _rule(node: ast.AST) -> Rule:
    """Return a function that computes the value of a node; raise ValueError if a rule must not contain the node."""
    match node:
        case ast.Constant(value=int() | float() | str() | None as value):
            return lambda _: value
        case ast.Name() | ast.Attribute() if _is_dotted(node):
            key = ast.unparse(node)
            return (lambda _: _NAMES[key]) if key in _NAMES else (lambda values: values[key])
        case ast.List(elts=items) | ast.Tuple(elts=items):
            rules = [_rule(item) for item in items]
            return lambda values: [rule(values) for rule in rules]
        case ast.BoolOp(op=op, values=parts):
            rules = [_rule(part) for part in parts]
            decide = all if isinstance(op, ast.And) else any
            return lambda values: decide(rule(values) for rule in rules)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = _rule(operand)
            return lambda values: not inner(values)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = _rule(operand)
            return lambda values: -_number(inner(values))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            compute, first, second = _ARITHMETIC[type(op)], _rule(left), _rule(right)
            return lambda values: compute(_number(first(values)), _number(second(values)))
        case ast.Compare(left=left, ops=ops, comparators=others) if all(type(op) in _COMPARISONS for op in ops):
            sides = [_rule(side) for side in (left, *others)]
            compare = [_COMPARISONS[type(op)] for op in ops]
            return lambda values: all(
                holds(*pair) for holds, pair in zip(compare, pairwise([side(values) for side in sides]), strict=True)
            )
    raise ValueError(f"'{ast.unparse(node)}' is not allowed in a rule")


def _is_dotted(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) or (isinstance(node, ast.Attribute) and _is_dotted(node.value))


def _number(value: Any) -> Any:
    """Return a number unchanged; raise TypeError for any other value.

    Without this check, the product of a text and a number could be a text that does not fit into memory.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r} is not a number")
    return value
