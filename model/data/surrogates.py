"""Lone surrogates: halves of a character, which a Python text can hold, and no file in UTF-8."""

import re

from model.errors import DataError

_SURROGATE = re.compile("[\ud800-\udfff]")


def refuse_surrogates(text: str, where: str) -> None:
    """Raise DataError for a text with a lone surrogate; `where` says which text, such as `a.jsonl:3: 'text'`.

    They come from JSON (`"\\ud83d"` without its second half), and from what another program cut in the middle.
    """
    found = _SURROGATE.search(text)
    if found is not None:
        raise DataError(
            f"{where}: holds half a character ({found[0]!a}, place {found.start()}), which UTF-8 cannot store; "
            "correct or delete it"
        )
