"""The options of sampling from a language model, and their bounds. Importing this module does not load torch."""

import numbers
from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Sampling:
    """The options for drawing the next token.

    Attributes:
        temperature: the divisor of the logits. Below 1, probabilities become sharper; above 1, they become more even;
            0 = always take the most likely token.
        top_k: draw only from the top_k most likely tokens; None = from all tokens.
        top_p: draw only from the smallest set of most likely tokens whose probabilities sum to at least top_p, 0 <
            top_p <= 1; None = from all tokens.
        max_tokens: the number of tokens to draw.
        seed: the seed of the random draws, 0 or more.

    If top_k and top_p are given, top_k applies first, and top_p is a share of the probability that remains.

    Source: top_k: Fan et al. 2018, section 5.2; top_p: Holtzman et al. 2020, "The curious case of neural text
    degeneration", section 3.1.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    max_tokens: int = 200
    seed: int = 0

    def __post_init__(self) -> None:
        """Raise ValueError if an option is no number or out of bounds, or if temperature is 0 with top_k or top_p."""
        for name, option in OPTIONS.items():
            value, is_whole = getattr(self, name), option["type"] == "integer"
            kind = numbers.Integral if is_whole else numbers.Real
            allowed = f"{'a whole number' if is_whole else 'a number'}{' or None' * (option['default'] is None)}"
            _check(name, value, allowed, value is option["default"] or isinstance(value, kind))
        _check("temperature", self.temperature, "0 or more and finite", 0 <= self.temperature < float("inf"))
        _check("top_k", self.top_k, "1 or more", self.top_k is None or self.top_k >= 1)
        _check("top_p", self.top_p, "above 0 and at most 1", self.top_p is None or 0 < self.top_p <= 1)
        _check("max_tokens", self.max_tokens, "1 or more", self.max_tokens >= 1)
        _check("seed", self.seed, "0 or more", self.seed >= 0)
        if self.temperature == 0 and (self.top_k is not None or self.top_p is not None):
            raise ValueError(
                "temperature: if top_k or top_p is set, must be above 0, given 0; to always take the most likely "
                "token, keep temperature=0 and leave out top_k and top_p"
            )


def _check(name: str, value: object, allowed: str, holds: bool) -> None:
    if not holds:
        raise ValueError(f"{name}: must be {allowed}, given {value}")


# The type and the default of each option, by the option's name, for `describe_prediction`.
OPTIONS = {
    field.name: {"type": "number" if "float" in str(field.type) else "integer", "default": field.default}
    for field in fields(Sampling)
}
