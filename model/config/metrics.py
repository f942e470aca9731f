"""The configuration of the metrics of predicted texts; conf/data/metrics has the same values, with comments."""

from typing import Literal

from model.config.section import Section


class MetricsConfig(Section):
    """The settings for comparing predicted texts with their references.

    Only a configuration with data=translation may change these settings; any other configuration has the defaults.
    `bleu_tokenize` allows the tokenizers of sacrebleu that need no other package and no download.
    """

    bleu_tokenize: Literal["auto", "13a", "intl", "char", "zh", "none"] = "auto"
    lowercase: bool | None = None
