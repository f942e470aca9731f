"""The configuration of the metrics of predicted texts; conf/data/metrics has the same values, with comments."""

from typing import Literal

from model.config.section import Section


class MetricsConfig(Section):
    """The comparison of predicted texts with their references.

    It has defaults, because only data=translation has this section. `bleu_tokenize` allows the tokenizers of sacrebleu
    that need neither another package nor a download.
    """

    bleu_tokenize: Literal["auto", "13a", "intl", "char", "zh", "none"] = "auto"
    lowercase: bool | None = None
