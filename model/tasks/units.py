"""What the metrics of a task are counted in, and the settings that change it: under others, scores do not compare."""

from typing import Any

from model.config.whole import Config

_TOKENS = ("data.tokens", "data.lowercase", "data.min_count", "data.max_size")
_TEXT = ("data.tokens", "data.lowercase")

# Unit and keys by metric. Characters and subwords give every text back; words lose white space and `lowercase` the
# letter case, for which no metric pays. For what an unknown token hides bits per character and per byte pay.
_LOSSLESS = {"data.tokens": ["characters", "subwords"]}
_LANGUAGE_MODELLING = {
    "loss": ("tokens", _TOKENS),
    "perplexity": ("tokens", _TOKENS),
    "bits_per_character": ("characters as they are read", _TEXT),
    "bits_per_byte": ("bytes as they are read", _TEXT),
}


def counted_in(config: Config[Any, Any]) -> dict[str, dict[str, Any]]:
    """Return by metric its `unit`, and `depends_on`, the settings that change that, by dotted key, with their values.

    `alike` has by such a key the values under which the metric is the same.

    A metric that is not there depends on nothing: labels, tags and generated numbers are the same under all settings.
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
    """Return unit and keys by metric: the targets are cut for the loss, and the references are not."""
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
