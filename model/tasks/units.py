"""The units of metrics, and the settings that change these units; scores with different units are not comparable."""

from typing import Any

from model.config.whole import Config

# The `unit`, the keys of `depends_on`, and `alike`; see `counted_in`.
_Unit = tuple[str, tuple[str, ...], dict[str, list[Any]]]

_TOKENS = ("data.tokens", "data.lowercase", "data.min_count", "data.max_size")
_TEXT = ("data.tokens", "data.lowercase")

# Characters and subwords reproduce every text, so bits per character and per byte have the same unit with both. Words
# lose white space, and `lowercase` loses letter case; no metric counts what is lost. Bits per character and per byte
# also count the bits that identify unknown tokens, so `min_count` and `max_size` do not change their unit.
_LOSSLESS = {"data.tokens": ["characters", "subwords"]}
_LANGUAGE_MODELLING = {
    "loss": ("tokens", _TOKENS, {}),
    "perplexity": ("tokens", _TOKENS, {}),
    "bits_per_character": ("characters of the text", _TEXT, _LOSSLESS),
    "bits_per_byte": ("UTF-8 bytes of the text", _TEXT, _LOSSLESS),
}


def counted_in(config: Config[Any, Any]) -> dict[str, dict[str, Any]]:
    """Return the units that depend on settings: a dict from the name of a metric to a description of its unit.

    A description is a dict with three keys. `unit` is the name of the unit. `depends_on` holds the current values of
    the settings that change the unit, by dotted key. `alike` maps some of these dotted keys to a list of values that
    all give the same unit.

    For classification, tagging and generated data, no setting changes a unit, so the result is empty.
    """
    units: dict[str, _Unit] = {}
    if config.data.name == "language_modelling":
        units = _LANGUAGE_MODELLING
    if config.data.name == "translation":
        units = _translation(config.data)
    return {
        metric: {"unit": unit, "depends_on": {key: _value(config, key) for key in keys}, "alike": alike}
        for metric, (unit, keys, alike) in units.items()
    }


def _translation(data: Any) -> dict[str, _Unit]:
    """Return the unit of each metric.

    `data.max_length` changes only the unit of the loss, because only the loss uses targets that are cut. For
    `metrics.bleu_tokenize=auto` and `metrics.lowercase=null`, see `TextMetrics.of`.
    """
    target = ("data.target_tokens", *(() if data.target_tokens else ("data.tokens",)))
    vocabulary = ("data.shared_vocabulary", "data.lowercase", "data.min_count", "data.max_size", "data.max_length")
    settings, case = (*target, "data.lowercase", "metrics.lowercase"), {"metrics.lowercase": [None, data.lowercase]}
    splits = [] if (data.target_tokens or data.tokens) == "words" else ["auto", "13a"]
    of_references, of_texts = "tokens of the references", "n-grams of the decoded references"
    return {
        "loss": ("target tokens", (*target, *vocabulary), {}),
        "exact_match": (of_references, settings, case),
        "token_error_rate": (of_references, settings, case),
        "bleu": (of_texts, (*settings, "metrics.bleu_tokenize"), {**case, "metrics.bleu_tokenize": splits}),
        "chrf": (of_texts, settings, case),
    }


def _value(config: Config[Any, Any], key: str) -> Any:
    section, _, name = key.partition(".")
    return getattr(getattr(config, section), name)
