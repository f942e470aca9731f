"""By how much the winner is better than the default configuration."""

from hpo.engine.trials.trial import loss_of
from hpo.report.facts.schema.missing import is_missing, known
from hpo.report.facts.schema.report import ReportJson


def against_default(summary: ReportJson) -> str:
    """Return the difference in the units of the metric, as a sentence; why it is not known where it is not."""
    winner, baselines = summary["winner"], summary["baselines"]
    default = baselines if is_missing(baselines) else baselines["default"]
    for absent in (winner, default):
        if is_missing(absent):
            return f"How much better than the default configuration it is, is not known: {absent['missing']}."
    winner, default = known(winner), known(default)
    score, number = default["score"], default["number"]
    if score is None:
        return f"The default configuration (trial {number}) has no score: it {_ENDS.get(default['state'], 'runs')}."
    if number == winner["number"]:
        return "It is the default configuration: nothing better was found."
    gain = loss_of(score - winner["score"], summary["metric"]["direction"])
    verb = "Better" if gain > 0 else "Worse"
    return f"{verb} by {abs(gain):.4f} than the default configuration, which has {score:.4f} (trial {number})."


_ENDS = {"failed": "failed", "stopped": "was stopped"}
