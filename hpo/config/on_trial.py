"""`study.on_trial` is a command that runs when a trial ends; it may have placeholders such as `{trial}`."""

import shlex
import string
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator

from hpo.errors import nearest

NAMES = ("trial", "state", "score", "study", "folder")
"""The placeholders: a trial's number, state and score, and the name and folder of its study."""


def _check_command(command: str) -> str:
    try:
        words = shlex.split(command)
        fields = [field for word in words for field in string.Formatter().parse(word) if field[1] is not None]
    except ValueError as error:
        raise ValueError(f"must be a command that a shell can read ({error})") from error
    if not words:
        raise ValueError('must be a command, such as "notify {trial} {score}", or null')
    for _, name, form, conversion in fields:
        given = placeholder_text(name, form, conversion)
        if given not in NAMES:
            allowed = ", ".join(f"{{{each}}}" for each in NAMES)
            raise ValueError(f"must use the placeholders {allowed} only, given {{{given}}}{nearest(given, NAMES)}")
    return command


def placeholder_text(name: str | None, form: str | None, conversion: str | None) -> str:
    """Return a placeholder of `string.Formatter` as it was written, without its braces: `score:.2f`."""
    return f"{name}{f'!{conversion}' if conversion else ''}{f':{form}' if form else ''}"


OnTrial = Annotated[str, AfterValidator(_check_command)]


def filled(command: str, values: Mapping[str, Any]) -> list[str]:
    """Fill the placeholders of a command with values, and return its words.

    A value is never split into several words, and no shell interprets the words.
    """
    words = [string.Formatter().parse(word) for word in shlex.split(command)]
    return ["".join(text + ("" if name is None else str(values[name])) for text, name, _, _ in word) for word in words]
