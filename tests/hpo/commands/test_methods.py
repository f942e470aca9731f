"""A command is one function: a method of `Study` has its signature and its words, and a shell its parser."""

import inspect
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest

from hpo.cli.described import describe
from hpo.cli.main import COMMANDS, FUNCTIONS, function_of
from hpo.cli.parser import parse
from hpo.commands.arguments import Fields, Word
from hpo.commands.study import Study

# The shell's `watch` runs until the search has ended; Python's shows the page in a cell and returns. `hpo train` trains
# any configuration, `Study.train` the winner.
OTHERS = {"watch", "train"}
METHODS = [name for name in FUNCTIONS if callable(getattr(Study, name, None)) and name not in OTHERS]
# Of a shell's `--help`, which shows examples.
SHELL = ("Examples", "Fields", "Operators")


def sections(doc, left):
    """Return what a docstring says by its sections, without those of a shell and the arguments left out."""
    found = dict(re.findall(r"^(\w+):\n((?:(?: {4}.*)?(?:\n|$))+)", inspect.cleandoc(doc) + "\n", re.MULTILINE))
    head = inspect.cleandoc(doc).partition("\n\n")[0]
    args = re.sub(rf"^ {{4}}(?:{left}): .*\n(?: {{8}}.*\n)*", "", found.pop("Args", ""), flags=re.MULTILINE)
    return {"": head, "Args": args.strip(), **{name: text.strip() for name, text in found.items() if name not in SHELL}}


@pytest.mark.parametrize("name", METHODS)
def test_a_method_has_the_signature_and_the_words_of_its_command(name):
    # A shell has a function of its own where Python asks nothing, or needs no option that says which of two things.
    of_shell = function_of(name)
    method, function = getattr(Study, name), getattr(sys.modules[of_shell.__module__], name, of_shell)
    first, *of_function = inspect.signature(function).parameters.values()
    words = {each.name: each.word for each in describe(function).parameters}
    shell_only = {name for name, word in words.items() if word.is_shell_only}
    of_function = [each for each in of_function if each.name not in shell_only]
    _, *of_method = inspect.signature(method).parameters.values()
    shape = [(each.name, each.kind, each.default) for each in of_function]
    assert [(each.name, each.kind, each.default) for each in of_method] == shape
    left = "|".join((first.name, *shell_only))
    assert sections(method.__doc__, left) == sections(function.__doc__, left)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_parameter_is_described_and_every_command_listed(name):
    assert describe(function_of(name)).description
    assert name in COMMANDS


def test_words_of_a_shell_become_keywords_and_a_shell_may_have_a_default_of_its_own():
    pairs = Word("KEY=TEXT", collect=lambda words: dict(word.split("=") for word in words))

    def command(
        name: str,
        file: Annotated[str | None, Word(option="--file", default="heads.png")] = None,
        **said: Annotated[str, pairs],
    ) -> None:
        """Do it.

        Args:
            name: whose.
            file: where.
            said: what.
        """

    assert parse("command", command, ["mine", "key=text"]) == {"name": "mine", "file": "heads.png", "key": "text"}
    assert parse("command", command, ["mine", "--file", "x"]) == {"name": "mine", "file": "x"}


def test_a_result_prints_its_public_fields_and_absolute_paths_for_programs():
    @dataclass(frozen=True)
    class Inner(Fields):
        file: Path

    @dataclass(frozen=True)
    class Outer(Fields):
        each: list[Inner]
        _lines: str

    assert Outer([Inner(Path("a.txt"))], "said").to_dict() == {"each": [{"file": Path.cwd() / "a.txt"}]}
