"""Describes a command for the parser and `--help`, from the signature and docstring of its function."""

import inspect
import re
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, get_args, get_origin

from hpo.commands.arguments import Word

_SECTION = re.compile(r"^(\w[\w ]*):\n((?:(?: {4}.*)?(?:\n|$))+)", re.MULTILINE)
_ARGUMENT = re.compile(r"^ {4}\*{0,2}(\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)
# The sections that `--help` does not print.
_OF_PYTHON = ("Args", "Returns", "Raises")


@dataclass(frozen=True)
class Parameter:
    """One parameter of a command, from the signature and docstring of the command's function.

    `word` is the `Word` in the parameter's annotation, or a `Word` with default values if the annotation has none.
    """

    name: str
    kind: Any  # the type of one word: str, int, float, Path; bool for a flag
    default: Any
    description: str
    word: Word
    choices: tuple[str, ...] = ()
    is_option: bool = False
    is_many: bool = False
    is_keywords: bool = False

    @property
    def metavar(self) -> str:
        """The placeholder for the value in `--help`, such as STUDY."""
        return self.word.metavar or self.name.rstrip("_").upper()

    @property
    def is_needed(self) -> bool:
        """Whether the parameter must be given."""
        return self.default is inspect.Parameter.empty

    @property
    def typed(self) -> str:
        """The option as a user types it, such as `--dry-run`; for a positional parameter, the metavar.

        If `word.option` is given, return it. Otherwise, a flag that is on by default has the form `--no-NAME`.
        """
        if not self.is_option:
            return self.metavar
        no = "no-" if self.kind is bool and self.default is True else ""
        return self.word.option or f"--{no}{self.name.rstrip('_').replace('_', '-')}"


@dataclass(frozen=True)
class Described:
    """The help of a command.

    Attributes:
        description: the text of the docstring above its sections.
        parameters: the parameters that a shell can give, in the order of the signature.
        epilog: the text at the end of `--help`: sections such as Examples, with their titles.
    """

    description: str
    parameters: Sequence[Parameter]
    epilog: str


def describe(function: Callable[..., Any]) -> Described:
    """Return the help of a command's function.

    Raises:
        TypeError: a parameter has no description, or `Args` describes a parameter that does not exist.
    """
    doc = inspect.cleandoc(function.__doc__ or "") + "\n"
    found = {title: text.rstrip("\n") for title, text in _SECTION.findall(doc)}
    descriptions = {
        name: " ".join(text.split()).removesuffix(".") for name, text in _ARGUMENT.findall(found.get("Args", ""))
    }
    head = _SECTION.sub("", doc).strip()
    given = inspect.signature(function).parameters.values()
    read = (_parameter(each, descriptions.pop(each.name, "")) for each in given)
    parameters = [each for each in read if each is not None]
    if descriptions:
        names = ", ".join(descriptions)
        raise TypeError(f"{function.__name__}: the docstring's Args describe {names}, which are no parameters")
    # Indent by two spaces, like the rest of a help text.
    shown = {title: re.sub(r"^ {4}", "  ", text, flags=re.MULTILINE) for title, text in found.items()}
    sections = [f"{title.lower()}:\n{text}" for title, text in shown.items() if title not in _OF_PYTHON]
    return Described(head, parameters, "\n\n".join(sections))


def _parameter(given: inspect.Parameter, description: str) -> Parameter | None:
    """Convert a parameter of a command's function; return None if only Python callers can give the parameter.

    Raise TypeError if neither the docstring (`description`) nor the annotation describes the parameter.
    """
    hint: Any = given.annotation
    word, choices, is_many = Word(), (), given.kind is given.VAR_POSITIONAL
    while True:
        if get_origin(hint) is Annotated:
            word, hint = next(it for it in hint.__metadata__ if isinstance(it, Word)), get_args(hint)[0]
        elif word.collect is not None:
            is_many, hint = True, str
            break
        elif get_origin(hint) in (UnionType, typing.Union):
            # The first type of a union is the one that a shell gives; the others are for Python.
            hint = next(it for it in get_args(hint) if it is not NoneType)
        elif word.read is None and get_origin(hint) in (Sequence, list, tuple):
            is_many, hint = True, get_args(hint)[0]
        else:
            break
    if word.is_hidden:
        return None
    if get_origin(hint) is Literal:
        choices, hint = get_args(hint), str
    if not (description := description or word.description):
        raise TypeError(f"{given.name}: has no description, neither in the docstring nor in its type")
    is_option = given.kind is given.KEYWORD_ONLY or bool(word.option)
    kind = str if hint not in (bool, int, float, Path) else hint
    is_keywords = given.kind is given.VAR_KEYWORD
    default = {} if is_keywords else given.default if word.default is None else word.default
    return Parameter(given.name, kind, default, description, word, choices, is_option, is_many, is_keywords)
