"""What a function does whose source cannot be read, as one typed at a prompt or made by `exec`: its code as a text."""

from collections.abc import Hashable
from types import CodeType

# All that decides what it does; the rest says where it stands.
_ATTRIBUTES = (
    *("co_argcount", "co_posonlyargcount", "co_kwonlyargcount", "co_flags", "co_names", "co_varnames"),
    *("co_freevars", "co_cellvars", "co_exceptiontable"),
)


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
