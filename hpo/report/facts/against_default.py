"""By how much the winner is better than the default configuration."""

from hpo.engine.trials.trial import loss_of
from hpo.report.facts.schema.missing import is_missing, known
from hpo.report.facts.schema.report import ReportJson
from hpo.report.facts.sections.results import interval
from hpo.report.facts.words import score_text

_ENDS = {"failed": "failed", "stopped": "was stopped"}


def default_on_test(summary: ReportJson) -> str:
    """Return what the default configuration has on the test part, as a sentence; empty where it was not scored."""
    both = known(summary["overtuning"]).get("default_on_test")
    if both is None or is_missing(both):
        return ""
    return f"The default configuration, in the same opening: {score_text(summary)(both['default'])}."


def against_default(summary: ReportJson) -> str:
    """Return the difference in the units of the metric, with its interval over folds and seeds, as a sentence."""
    winner, baselines = summary["winner"], summary["baselines"]
    if is_missing(winner) or is_missing(baselines) or is_missing(baselines["default"]):
        return "There is no default configuration to compare with: it was not tried, or does not lie in the space."
    text = score_text(summary)
    default, direction = baselines["default"], summary["metric"]["direction"]
    score, number = default["score"], default["number"]
    if number == winner["number"]:
        return "It is the default configuration: nothing better was found."
    if score is None or default["state"] in _ENDS:
        return f"The default configuration (trial {number}) {_ENDS.get(default['state'], 'has not ended')}."
    if default.get("amount") != winner["amount"]:
        trained = f"was trained to {default.get('amount')} only (trial {number}), where it had {text(score)}"
        return f"The default configuration {trained}: the two cannot be compared."
    theirs = f"the default configuration, which has {text(score)} (trial {number})"
    gain = loss_of(score - winner["score"], direction)
    if gain == 0:
        return f"As good as {theirs}."
    before, now = default.get("values", {}), winner["values"]
    pairs = [(before[name], now[name]) for name in before if name in now]
    spread = interval([loss_of(one - other, direction) for one, other in pairs])
    within = ""
    if not is_missing(spread):
        low, high = spread
        chance = ", which may be chance" if low <= 0 <= high else ""
        within = f" (95 % interval over {len(pairs)} folds and seeds: {text(low)} to {text(high)}{chance})"
    return f"{'Better' if gain > 0 else 'Worse'} by {text(abs(gain))}{within} than {theirs}."
