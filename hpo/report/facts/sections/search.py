"""Fields 7 and 9 to 13: the space, the strategy, the number of trials, and the baselines."""

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, cast

from hpo.config.keys import at, flatten, within
from hpo.engine.course.course import EndedBy
from hpo.engine.record.record import Given
from hpo.engine.space.dimensions import Dimension, Value, Values, describe
from hpo.engine.space.first_points import default_point
from hpo.engine.space.space import point_key
from hpo.engine.trials.trial import Trial
from hpo.errors import SpaceError
from hpo.report.facts.schema.missing import Missing, is_missing, missing
from hpo.report.facts.schema.report import Baselines, Counts, DefaultTrial, SearchPart, Sizes, SpacePart
from hpo.study.folder import short_path
from hpo.study.study import Study

_CHOSEN_BY = {
    False: "the best mean score over the folds; the earlier trial on ties",
    True: "the best mean score on fresh seeds among the best trials of the search",
}
_MISSING = object()
_CHEAPEST = "the least cost among those within one standard error of "


def no_search(reason: str) -> SearchPart:
    """Return the same keys with missing values."""
    return cast("SearchPart", dict.fromkeys(SearchPart.__annotations__, missing(reason)))


def describe_search(
    study: Study,
    trials: Sequence[Trial],
    num_imported: int,
    ended_by: EndedBy | None,
    further_trained: Sequence[Trial] = (),
    given: Sequence[Given] = (),
) -> SearchPart:
    """Return space, strategy, counts, the rule that names the winner, and sizes of the models."""
    config, space = study.config, study.space
    counts = _counts(trials, config.study.trials, study.layout.size, ended_by)
    if any(trial.amount is not None for trial in trials):
        counts["budget_counts"] = study.counts
        counts["configurations"] = len({trial.key for trial in trials})
        counts["further_trained"] = [trial.number for trial in further_trained]
    described = describe_space(study)
    part: SearchPart = {
        "num_parameters": _num_parameters(trials),
        "space": described["space"],
        "space_size": described["space_size"],
        "space_rules": described["space_rules"],
        "first": described["first"],
        "fixed": _fixed(config.fixed, space.keys),
        "strategy": dict(config.strategy) | {"rounds_run": 1 + max((t.round for t in trials), default=-1)},
        "counts": counts,
        "imported": num_imported,
        "chosen_by": ("" if config.study.winner == "best" else _CHEAPEST) + _CHOSEN_BY[config.study.finalists > 0],
    }
    if given:
        part["given"] = [{"point": dict(each.point), "after": each.after} for each in given]
    return part


def _fixed(flat: Mapping[str, Any], searched: Sequence[str]) -> dict[str, Any]:
    """Return the leaves that are not searched, nor below a key that is."""
    return {k: v for k, v in flat.items() if not any(within(k, key) for key in searched)}


def describe_space(study: Study) -> SpacePart:
    """Return every dimension, the number of points, the rules, and the points that are tried first."""
    space = study.space
    return {
        "space": [_dimension(d, flatten(study.config.objective_config)) for d in space.dimensions],
        "space_size": space.size,
        "space_rules": [constraint.text for constraint in space.constraints],
        "first": [dict(point) for point in space.first],
    }


def _dimension(dimension: Dimension, fixed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the dimension with the default configuration's value, and the scale of its numbers' even spacing."""
    described = describe(dimension)
    if "default" not in described and (default := at(fixed, dimension.key, _MISSING)) is not _MISSING:
        described["default"] = default
    if isinstance(dimension, Values) and (scale := _scale(dimension.values)):
        described["scale"] = scale
    return described


def _scale(values: Sequence[Value]) -> str | None:
    """Return `linear` or `log` if three or more numbers are evenly spaced on that scale, within 1 %."""
    numbers = [float(v) for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    if len(numbers) < max(3, len(values)):
        return None
    for scale, places in (("linear", numbers), ("log", [math.log(n) for n in numbers] if min(numbers) > 0 else [])):
        steps = [after - before for before, after in pairwise(places)]
        if steps and max(abs(step - steps[0]) for step in steps) <= 0.01 * abs(steps[0]):
            return scale
    return None


def describe_baselines(study: Study, trials: Sequence[Trial], comparison: dict[str, Any] | Missing) -> Baselines:
    """Return the default configuration's trial, and random search at equal budget, if they exist."""
    if study.config.strategy["name"] == "random":
        random: dict[str, Any] | Missing = {"this_study": True}
    else:
        standings = [] if is_missing(comparison) else comparison["standings"]
        scores = [s for s in standings if s["label"] == "random" and s["unit"] == "trials"]
        random = (
            {"this_study": False, "trials": scores[-1]["budget"], "mean_score": scores[-1]["mean_score"]}
            if scores
            else missing(f"no random search stands beside it: {comparison_command(study)}")
        )
    return {
        "default": _default(study, trials),
        "random": random,
    }


def _default(study: Study, trials: Sequence[Trial]) -> DefaultTrial | Missing:
    try:
        point = default_point(study.space, flatten(study.config.objective_config))
    except SpaceError as error:
        return missing(f"the default configuration lies outside of the space: {str(error).partition(': ')[2]}")
    key = point_key(point)
    those = [trial for trial in trials if trial.key == key]
    if not those:
        return missing("the default configuration is not among the trials: write `first: [default]` into the space")
    # With halving, the one that was trained furthest.
    default = min(those, key=lambda trial: (-(trial.amount or 0), trial.number))
    metric, layout = study.config.study.metric, study.layout
    values = {layout.name(index): outcome.metrics.get(metric) for index, outcome in sorted(default.outcomes.items())}
    return {
        "number": default.number,
        "score": default.score,
        "state": default.state,
        "amount": default.amount,
        "values": {name: value for name, value in values.items() if value is not None},
    }


def comparison_command(study: Study) -> str:
    """Return the command that repeats this search and random search at equal budget."""
    name = study.config.strategy["name"]
    others = "random" if name != "random" else "shifting_window"
    return f"hpo compare --strategies {others},{name} --config {short_path(study.folder.config_path)}"


def _counts(trials: Sequence[Trial], budget: int, size: int, ended_by: EndedBy | None) -> Counts:
    states = Counter(trial.state for trial in trials)
    reasons = Counter(_reason(trial) for trial in trials if trial.state == "failed")
    counts: Counts = {
        "budget": budget,
        "tasks_per_trial": size,
        "proposed": len(trials),
        "complete": states["complete"],
        "failed": states["failed"],
        "stopped": states["stopped"],
        "tasks_saved": sum(size - len(t.outcomes) for t in trials if t.state == "stopped"),
        "running": states["running"],
        "failures": dict(reasons.most_common()),
    }
    if ended_by is not None:
        counts["ended_by"] = ended_by
    return counts


def _reason(trial: Trial) -> str:
    """Return why the trial failed, without the fold, so that equal reasons are counted together."""
    return next(outcome.error for _, outcome in sorted(trial.outcomes.items()) if outcome.error)


def _num_parameters(trials: Sequence[Trial]) -> Sizes | Missing:
    sizes = [int(max(values)) for trial in trials if (values := trial.values("num_parameters"))]
    if not sizes:
        return missing("the objective returns no num_parameters")
    return {
        "column": "num_parameters of trials.csv",
        "smallest": min(sizes),
        "median": statistics.median_low(sizes),
        "largest": max(sizes),
    }
