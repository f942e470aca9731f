"""The options of sampling from a language model, and their bounds. Loads no torch."""

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Sampling:
    """The options for drawing the next token.

    Attributes:
        temperature: divisor of the logits: below 1 sharper, above 1 more even; 0 = always the most likely token.
        top_k: only this many of the most likely tokens may be drawn; None = all.
        top_p: only the fewest most likely tokens that together reach this probability, 0 < p <= 1; None = all.
        max_tokens: how many tokens are drawn.
        seed: of the draws; 0 or more.

    Source: top_k: Fan et al. 2018, section 5.2; top_p: Holtzman et al. 2020, "The curious case of neural text
    degeneration", section 3.1. Where both are given, top_k applies first, and top_p to the remaining probability.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    max_tokens: int = 200
    seed: int = 0

    def __post_init__(self) -> None:
        """Raise ValueError for a value out of bounds."""
        _check("temperature", self.temperature, "0 or more", 0 <= self.temperature < float("inf"))
        _check("top_k", self.top_k, "1 or more", self.top_k is None or self.top_k >= 1)
        _check("top_p", self.top_p, "above 0 and at most 1", self.top_p is None or 0 < self.top_p <= 1)
        _check("max_tokens", self.max_tokens, "1 or more", self.max_tokens >= 1)
        _check("seed", self.seed, "0 or more", self.seed >= 0)
        if self.temperature == 0 and (self.top_k is not None or self.top_p is not None):
            raise ValueError("temperature: 0 always takes the likeliest token, so that top_k and top_p have no effect")


def _check(name: str, value: object, allowed: str, holds: bool) -> None:
    if not holds:
        raise ValueError(f"{name}: must be {allowed}, given {value}")


# By name, each option's type and default, for `describe_prediction`.
OPTIONS = {
    field.name: {"type": "number" if "float" in str(field.type) else "integer", "default": field.default}
    for field in fields(Sampling)
}
