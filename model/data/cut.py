"""Counts the training and validation texts that are longer than data.max_length and must be cut."""

from collections.abc import Iterator, Sequence

from model.config.data import DataConfig, TextClassificationConfig
from model.config.pairs import TranslationConfig
from model.data.examples import Examples
from model.data.tokens.tokens import Tokens, learn_pair
from model.data.tokens.vocabulary import Vocabulary
from model.errors import DataError

_LOST = {
    "text": "the tokens that are cut off are not read",
    "source": "the tokens that are cut off are not read",
    "target": (
        "the tokens that are cut off are neither learned nor predicted; every metric except the loss counts these "
        "tokens as missing"
    ),
}


def notes_of_cut(config: DataConfig, examples: Examples) -> tuple[str, ...]:
    """Return lines for the user about the texts that must be cut: at most one line for each side of the examples.

    An example of text_classification has the side `text`. An example of translation has the sides `source` and
    `target`. For other data, return no lines. The lines do not count the texts of a predefined test split.

    If the length of a text is measured in subwords, the function first learns the subwords. As in a training, it learns
    them from the predefined training split. If there are no predefined splits, it learns them from all examples.

    Raises:
        DataError: the share of a side's texts that must be cut is above data.max_cut_share.
        DataError: every text of a side has more than data.max_length tokens. This check includes the test split. If
            the tokens are subwords, this check counts words (separated by blanks) instead.
    """
    if not isinstance(config, TextClassificationConfig | TranslationConfig):
        return ()
    units = {"text": config.tokens}
    if isinstance(config, TranslationConfig):
        units = {"source": config.tokens, "target": config.target_tokens or config.tokens}
    for side, unit in units.items():
        # For subwords, count the words between blanks, because a text has at least as many subwords.
        _refuse_all_cut(examples, side, config.max_length, "blanks" if unit == "subwords" else unit)
    parts = examples.parts or {}
    items = examples.items[: len(examples.items) - parts.get("test", 0)]
    sides: Sequence[Tokens] = [_empty_vocabulary(unit, config.lowercase) for unit in units.values()]
    if isinstance(config, TranslationConfig) and "subwords" in units.values():
        train = items[: parts.get("train")]
        sides = learn_pair(config, *([item[side] for item in train] for side in units))
    by = "" if parts or "subwords" not in units.values() else ", counted in subwords learned from all examples"
    return tuple(
        f"{cut}{by}; {_LOST[side]}"
        for side, tokens in zip(units, sides, strict=True)
        for cut in _cut([item[side] for item in items], tokens, side, config)
    )


def _empty_vocabulary(unit: str, lowercase: bool) -> Vocabulary:
    """Return a vocabulary without tokens; it encodes each token as unknown, so a text keeps its number of tokens."""
    return Vocabulary(unit, lowercase, ())


def _refuse_all_cut(examples: Examples, side: str, max_length: int, unit: str) -> None:
    tokens = _empty_vocabulary(unit, lowercase=False)
    texts = [item[side] for item in examples.items]
    if texts and all(len(tokens.encode(text)) > max_length for text in texts):
        shortest = min(len(tokens.encode(text)) for text in texts)
        raise DataError(
            f"data.max_length: must be at least {shortest} tokens, given {max_length}; every {side} is longer and "
            f"would be cut"
        )


def _cut(
    texts: Sequence[str], tokens: Tokens, side: str, config: TextClassificationConfig | TranslationConfig
) -> Iterator[str]:
    """Yield a line about the texts that must be cut, if there are any; raise DataError if too many must be cut."""
    # Skip short texts: a token has at least one character, except the mark that subwords put before a text.
    long = (text for text in texts if len(tokens.normalize(text)) >= config.max_length)
    lengths = [length for text in long if (length := len(tokens.encode(text))) > config.max_length]
    if not lengths:
        return
    share = len(lengths) / len(texts)
    which = f"{len(lengths):,} of {len(texts):,} {side}s ({share:.2%})"
    if share > config.max_cut_share:
        raise DataError(
            f"data.max_cut_share: {which} have more than data.max_length={config.max_length} tokens and would be cut, "
            f"but the largest allowed share is {config.max_cut_share:g}; raise data.max_length (the longest {side} has "
            f"{max(lengths):,} tokens), or raise data.max_cut_share"
        )
    yield f"{which} are cut to data.max_length={config.max_length} tokens (the longest has {max(lengths):,})"
