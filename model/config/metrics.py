"""The configuration of how predicted texts are scored; conf/data/metrics has the same values, with comments."""

from typing import Literal

from model.config.section import Section


class MetricsConfig(Section):
    """How predicted texts are compared with their references. It has defaults: only data=translation has the section.

    `bleu_tokenize` offers what sacrebleu can do without another package and without a download.
    """

    bleu_tokenize: Literal["auto", "13a", "intl", "char", "zh", "none"] = "auto"
    lowercase: bool | None = None
