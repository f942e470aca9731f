"""Refuses lone surrogates: half characters that a Python string can hold, but a UTF-8 file cannot."""

import re

from model.errors import DataError

_SURROGATE = re.compile("[\ud800-\udfff]")


def refuse_surrogates(text: str, where: str) -> None:
    """Raise DataError for a text with a lone surrogate; `where` names the text, such as `a.jsonl:3: 'text'`.

    Lone surrogates come from JSON (`"\\ud83d"` without its second half), and from programs that cut a text between the
    two halves of a character.
    """
    match = _SURROGATE.search(text)
    if match is not None:
        raise DataError(
            f"{where}: holds half a character ({match[0]!a} at position {match.start()}), which UTF-8 cannot store; "
            "correct or delete it"
        )
