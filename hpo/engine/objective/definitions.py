"""A definition of a script or notebook: its syntax tree, or its compiled code where its source cannot be read."""

import ast
import inspect
import textwrap
from collections.abc import Hashable
from types import CodeType
from typing import Any

# All that decides what it does; the rest says where it stands.
_ATTRIBUTES = (
    *("co_argcount", "co_posonlyargcount", "co_kwonlyargcount", "co_flags", "co_names", "co_varnames"),
    *("co_freevars", "co_cellvars", "co_exceptiontable"),
)


def tree_of(value: Any) -> ast.Module | None:
    """Return the syntax tree of a function, a class or code; None where its source cannot be read.

    The source of a lambda is its whole line: where that holds another one beside it, the tree is the lambda's own.
    """
    try:
        lines, first = inspect.getsourcelines(value)
        text = "".join(lines)
        dedented = textwrap.dedent(text)
        tree = ast.parse(dedented)
    except (OSError, TypeError, SyntaxError):
        return None
    code = code_of(value)
    if code is None or code.co_name != "<lambda>":
        return tree
    indented = len(text.partition("\n")[0].encode()) - len(dedented.partition("\n")[0].encode())
    return _own(tree, code, first - 1, indented)


def code_of(value: Any) -> CodeType | None:
    """Return the code of a function, or the code itself; None of anything else."""
    return value if isinstance(value, CodeType) else getattr(value, "__code__", None)


def _own(tree: ast.Module, code: CodeType, lines: int, columns: int) -> ast.Module:
    """Return the part of a lambda; all, as ever, where no lambda stands beside it, or Python keeps no columns.

    The tree begins after `lines` lines, and is less indented by `columns` bytes.
    """
    spans = [
        ((line - lines, column - columns), (last - lines, end - columns))
        for line, last, column, end in code.co_positions()
        if line and last and column is not None and end is not None and (line, column) != (last, end)
    ]
    if not spans:
        return tree
    body = (min(first for first, _ in spans), max(last for _, last in spans))
    lambdas = {_span(node): node for node in ast.walk(tree) if isinstance(node, ast.Lambda)}
    own = max((span for span in lambdas if _holds(span, body)), default=None)
    if own is None or all(_holds(span, own) or _holds(own, span) for span in lambdas):
        return tree
    return ast.Module([ast.Expr(lambdas[own])], [])


_Span = tuple[tuple[int, int], tuple[int, int]]


def _span(node: ast.Lambda) -> _Span:
    return (node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0)


def _holds(span: _Span, other: _Span) -> bool:
    return span[0] <= other[0] and other[1] <= span[1]


def text_of_code(code: CodeType) -> str:
    """Return the same text in every process of one Python; docstrings count, since they cannot be told from values."""
    about = [repr(getattr(code, name)) for name in _ATTRIBUTES]
    return " ".join((code.co_name, code.co_code.hex(), *about, _text(code.co_consts)))


def _text(constant: Hashable) -> str:
    if isinstance(constant, CodeType):
        return f"({text_of_code(constant)})"
    if isinstance(constant, tuple):
        return f"({', '.join(map(_text, constant))})"
    if isinstance(constant, frozenset):
        # Its order is another in each process.
        return f"{{{', '.join(sorted(map(_text, constant)))}}}"
    return repr(constant)
