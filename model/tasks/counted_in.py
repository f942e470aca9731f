"""What the metrics of a task are counted in, and the settings that change it: under others, scores do not compare."""

from typing import Any

from model.config.whole import Config

_TOKENS = ("data.tokens", "data.lowercase", "data.min_count", "data.max_size")
_TEXT = ("data.tokens", "data.lowercase")


def counted_in(config: Config[Any, Any]) -> dict[str, dict[str, Any]]:
    """Return by metric its `unit`, and `depends_on`, the settings that change that, by dotted key, with their values.

    A metric that is not there depends on nothing: labels, tags and generated numbers are the same under all settings.
    """
    by_data = {"language_modelling": _language_modelling, "translation": _translation}
    units = by_data[config.data.name](config.data) if config.data.name in by_data else {}
    return {
        metric: {"unit": unit, "depends_on": {key: _value(config, key) for key in keys}}
        for metric, (unit, keys) in units.items()
    }


def _language_modelling(data: Any) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return unit and keys by metric.

    Words lose white space and `lowercase` the letter case, for which no metric pays; for what an unknown token hides
    bits per character and per byte pay, where the vocabulary is open.
    """
    paid = (*(_TEXT if data.open_vocabulary else _TOKENS), "data.open_vocabulary")
    per_token = dict.fromkeys(("loss", "perplexity"), ("tokens", _TOKENS))
    return {
        **per_token,
        "bits_per_character": ("characters as they are read", paid),
        "bits_per_byte": ("bytes as they are read", paid),
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
