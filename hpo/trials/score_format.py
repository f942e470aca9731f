"""Formats scores with enough digits to tell the compared scores apart."""

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from hpo.formatting import format_scores

if TYPE_CHECKING:
    # Not imported at run time, because these modules load numpy, which `hpo list` does not need.
    from hpo.trials.goal import Goal
    from hpo.trials.trial import Trial

_USUAL = 4  # decimals of an accuracy or a loss
_IF_EQUAL = 4
_FEWEST, _MOST = 3, 6  # significant digits; more only if 6 do not distinguish the scores
_PLAIN = (1e-4, 1e7)
# Whole numbers are taken for counts if the largest of them is at least this, because an accuracy of 1 is no count.
_COUNTED = 2


def score_format(compared: Iterable[float | None]) -> Callable[[float], str]:
    """Return a function that formats scores with enough digits to distinguish the compared scores.

    In `compared`, None is the score of a failed trial and is ignored. The first rule that applies is used:

    - Counts, such as the number of parameters, are written as whole numbers. Scores are counts if all of them are whole
      numbers, and the largest absolute value is from 2 to 1e7.
    - If all scores are between -10 and 10, and the largest and the smallest score differ by 0.001 or more, scores have
      four decimals.
    - If all scores are equal, scores have four decimals if the absolute value is 0 or from 0.1 to 10. Otherwise, scores
      have four significant digits.
    - Other scores have 3 to 6 significant digits, enough to show a thousandth of the interquartile range of the
      scores. Diverged trials hardly change this range. If 6 digits show no difference between the scores, the scores
      have more digits.

    Numbers from 1e-4 to 1e7 are written plainly, others in scientific notation.
    """
    known = sorted(score for score in compared if score is not None and math.isfinite(score))
    if known and _COUNTED <= max(map(abs, known)) < _PLAIN[1] and all(score == round(score) for score in known):
        return _count_text
    largest, digits = _measure(known)
    return partial(_text, decimals=digits - 1 - _exponent(largest), most=digits + 2)


def with_spread(write: Callable[[float], str], mean: float, spread: float | None) -> tuple[str, str]:
    """Return a mean and its spread (a deviation or an error) as texts with the same number of decimals.

    Both texts have as many decimals as `write(mean)`, or more if the spread's first digit that is not 0 needs more
    decimals. If the spread is None, its text is empty.
    """
    if spread is None:
        return write(mean), ""
    mantissa, _, power = write(mean).partition("e")
    unit, decimals = 10.0 ** int(power or 0), len(mantissa.partition(".")[2])
    if spread > 0:
        decimals = max(decimals, -_exponent(spread / unit))
    end = f"e{power}" if power else ""
    return f"{mean / unit:.{decimals}f}{end}", f"{spread / unit:.{decimals}f}{end}"


def values_in_words(trial: "Trial", goal: "Goal", compared: "Sequence[Trial]", fresh: "Trial | None" = None) -> str:
    """Return a text with the value of a complete trial for each name in `goal.names`.

    A text is, for example, `accuracy 0.91, latency 12.5`.

    Args:
        trial: the trial.
        goal: the goal of the study.
        compared: other trials; each value has enough digits to distinguish the values of these trials.
        fresh: the same trial with its values on fresh seeds; the text begins with these values. None = there are no
            such values.
    """
    own = (trial,) if fresh is None else (fresh, trial)
    texts: list[list[str]] = [[] for _ in own]
    for name in goal.names:
        write = score_format([shown_value(each, name, goal) for each in (*compared, *own)])
        for parts, each in zip(texts, own, strict=True):
            parts.append(f"{name} {write(each.mean(name))}")
    return format_scores(*(", ".join(parts) for parts in texts))


def shown_value(trial: "Trial", name: str, goal: "Goal") -> float | None:
    """Return a trial's value for display: the score for the leading metric, else the mean of `name` over the tasks.

    Return None for the leading metric without a score, and for other metrics of a trial that is not complete.
    """
    if name == goal.metric:
        return trial.score
    return trial.mean(name) if trial.state == "complete" else None


def _measure(known: list[float]) -> tuple[float, int]:
    """Return the size of a typical score, and the number of significant digits for a score of this size."""
    spread, largest = (known[-1] - known[0], max(-known[0], known[-1])) if known else (0.0, 0.0)
    if largest == 0 or (largest < 10 and (spread >= 1e-3 or (spread == 0 and largest >= 0.1))):
        return 1.0, 1 + _USUAL
    if spread == 0:
        return largest, _IF_EQUAL
    last = len(known) - 1
    low, high = known[last // 4], known[3 * last // 4]
    if low == high:
        low, high = known[0], known[-1]
    largest = max(abs(low), abs(high))
    # About this many leading digits are the same in all scores.
    same = _exponent(largest) - _exponent(high - low)
    return largest, max(_FEWEST, min(same + 4, _MOST), same + 1)


def _count_text(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) else score_format([])(value)


def _text(value: float, decimals: int, most: int) -> str:
    if value == 0 or not math.isfinite(value):
        return f"{abs(value) if value == 0 else value:.{min(max(decimals, 0), _USUAL)}f}"
    digits = decimals + 1 + _exponent(value)
    # A score that is far smaller than the others still gets a few digits.
    digits = max(_FEWEST, min(digits, most))
    if _PLAIN[0] <= abs(value) < _PLAIN[1]:
        return f"{value:.{max(0, digits - 1 - _exponent(value))}f}"
    mantissa, _, power = f"{value:.{digits - 1}e}".partition("e")
    return f"{mantissa}e{int(power)}"


def _exponent(value: float) -> int:
    return math.floor(math.log10(abs(value)))
