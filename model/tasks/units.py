"""The units of a task's metrics, and the settings that change them; scores with different units are not comparable."""

from typing import Any

from model.config.whole import Config

_TOKENS = ("data.tokens", "data.lowercase", "data.min_count", "data.max_size")
_TEXT = ("data.tokens", "data.lowercase")

# Unit and keys by metric. Characters and subwords reproduce every text. Words lose white space, and `lowercase` loses
# the letter case, which no metric counts. Bits per character and per byte also count what an unknown token hides.
_LOSSLESS = {"data.tokens": ["characters", "subwords"]}
_LANGUAGE_MODELLING = {
    "loss": ("tokens", _TOKENS),
    "perplexity": ("tokens", _TOKENS),
    "bits_per_character": ("characters as they are read", _TEXT),
    "bits_per_byte": ("bytes as they are read", _TEXT),
}


def counted_in(config: Config[Any, Any]) -> dict[str, dict[str, Any]]:
    """Return the units that depend on settings, by metric.

    `unit` is the unit, `depends_on` holds the values of the settings that change it, by dotted key, and `alike` holds
    by key the values under which the unit is the same. A missing metric depends on no setting, because labels, tags and
    generated numbers are the same under all of them.
    """
    units: dict[str, tuple[str, tuple[str, ...]]] = {}
    if config.data.name == "language_modelling":
        units = _LANGUAGE_MODELLING
    if config.data.name == "translation":
        units = _translation(config.data)
    return {
        metric: {
            "unit": unit,
            "depends_on": {key: _value(config, key) for key in keys},
            "alike": _LOSSLESS if keys is _TEXT else {},
        }
        for metric, (unit, keys) in units.items()
    }


def _translation(data: Any) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return unit and keys by metric; targets are cut for the loss, and references are not."""
    target = ("data.target_tokens", *(() if data.target_tokens else ("data.tokens",)))
    vocabulary = ("data.shared_vocabulary", "data.lowercase", "data.min_count", "data.max_size", "data.max_length")
    of_references = ("tokens of the references", (*target, "data.lowercase"))
    return {
        "loss": ("target tokens", (*target, *vocabulary)),
        "exact_match": of_references,
        "token_error_rate": of_references,
        "bleu": of_references,
        "chrf": of_references,
    }


def _value(config: Config[Any, Any], key: str) -> Any:
    section, _, name = key.partition(".")
    return getattr(getattr(config, section), name)
