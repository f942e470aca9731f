"""Refuses texts with lone surrogates.

A surrogate is a code point from U+D800 to U+DFFF. UTF-16 encodes some characters as a pair of surrogates. A Python
string can contain a lone surrogate, but a UTF-8 file cannot.
"""

import re

from model.errors import DataError

_SURROGATE = re.compile("[\ud800-\udfff]")


def refuse_surrogates(text: str, where: str) -> None:
    """Raise DataError for a text with a lone surrogate; `where` names the text, such as `a.jsonl:3: 'text'`.

    Lone surrogates come from JSON (`"\\ud83d"` without a second surrogate), and from programs that cut a text between
    the two surrogates of a pair.
    """
    match = _SURROGATE.search(text)
    if match is not None:
        raise DataError(
            f"{where}: contains a lone surrogate ({match[0]!a} at position {match.start()}), which UTF-8 cannot store; "
            "correct or delete the surrogate"
        )
