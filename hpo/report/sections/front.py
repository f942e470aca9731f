"""The front of several metrics, the limits, and which of the front was chosen; reports of one metric have none."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, NotRequired, cast

from pydantic import Field, with_config
from typing_extensions import TypedDict

from hpo.engine.trials.digits import score_format
from hpo.engine.trials.fronts import REFERENCE
from hpo.engine.trials.trial import Trial
from hpo.report.blocks import Block, Items, Paragraph, Table
from hpo.report.hypervolume import NUM_ORDERS
from hpo.report.part import EXACT, Count, Missing, Point, Share, Text, is_missing, missing, require
from hpo.report.sections import ReportJson
from hpo.report.sections.scores import Spread, spread_text, spreads
from hpo.report.subject import Subject
from hpo.report.words import count_text, join_names, point_text
from hpo.study.notes import Notes
from hpo.study.study import PreparedStudy
from hpo.study.winner.choosing import why
from hpo.study.winner.overlap import overlapping
from hpo.study.winner.verdict import Verdict


@with_config(EXACT)
class Aim(TypedDict):
    """One of the metrics."""

    direction: Literal["maximize", "minimize"]
    definition: Text


@with_config(EXACT)
class LimitPart(TypedDict):
    """A bound that the winner keeps."""

    metric: str
    bound: float
    is_least: Annotated[bool, Field(description="whether the metric must be at least the bound; else at most")]
    text: str


@with_config(EXACT)
class Member(TypedDict):
    """A trial that none dominates; of one metric the best."""

    number: Count
    point: Point
    amount: NotRequired[Annotated[int, Field(description="how far it was trained, where amounts differ")]]
    scores: Annotated[dict[str, Spread], Field(description="of each metric, and of what has a limit")]
    is_chosen: bool
    overlaps: Annotated[list[int], Field(description="members whose 95 % intervals overlap with its own everywhere")]


@with_config(EXACT)
class ChangedChoice(TypedDict):
    """A change of `study.choose` after the search had begun."""

    time: str
    before: Any
    after: Any
    trials: Annotated[Count, Field(description="how many had ended")]
    is_test_open: bool


@with_config(EXACT)
class Choice(TypedDict):
    """How one of the front became the winner."""

    rule: Annotated[Any, Field(description="study.choose")]
    text: str
    changes: Annotated[list[ChangedChoice], Field(description="empty where it was decided before the search")]


@with_config(EXACT)
class ExpectedVolume(TypedDict):
    """Mean and standard deviation of the hypervolume over random searches of n trials."""

    orders: Annotated[int, Field(description="random orders, of seed 0; all subsets where there are at most so many")]
    budgets: list[int]
    means: list[float]
    spreads: list[float]


@with_config(EXACT)
class Volume(TypedDict):
    """The hypervolume of the front as it grew: higher is better."""

    reference: Annotated[float, Field(description="in every metric, scaled: 0 the best of `scale`, 1 the worst")]
    scale: Annotated[dict[str, list[float]], Field(description="the best and the worst within the limits, by metric")]
    trials: Annotated[list[dict[str, float]], Field(description="those that added to it, and what it was from then on")]
    expected: Annotated[ExpectedVolume | Missing, Field(description="of a random search among the same trials")]


@with_config(EXACT)
class FrontPart(TypedDict):
    """Fields 8, 12, 15 and 17 of a study with several metrics, or with limits."""

    metrics: Annotated[dict[str, Aim], Field(description="the first is the leading one")]
    limits: list[LimitPart]
    members: Annotated[list[Member], Field(description="the best of the leading metric first")]
    near: Annotated[list[int], Field(description="dominated trials that may belong to it, by their intervals")]
    choice: NotRequired[Annotated[Choice, Field(description="absent with one metric")]]
    complete: Count
    beyond_limits: Annotated[Count, Field(description="of the complete trials")]
    share_beyond_limits: Share | None
    hypervolume: NotRequired[Annotated[Volume | Missing, Field(description="absent with one metric")]]


class FrontSection(TypedDict):
    """The key of report.json."""

    front: NotRequired[
        Annotated[FrontPart | Missing, Field(description="absent with one metric without limits, which alone decides")]
    ]


def describe_front(
    study: PreparedStudy, notes: Notes, verdict: Verdict, subject: Subject, definitions: Mapping[str, str]
) -> FrontPart:
    """Return the front, the choice, the limits and the hypervolume; `definitions` are those of metrics by name."""
    goal, trials = study.goal, verdict.trials
    overlap = overlapping(subject.front, trials, goal)
    complete = [trial for trial in trials if trial.state == "complete"]
    beyond = sum(not trial.keeps_limits for trial in complete)
    module = study.config.objective.partition(":")[0]
    part: FrontPart = {
        "metrics": {
            name: {
                "direction": direction,
                "definition": definitions.get(name) or missing(f"{module}.describe_method defines no metric '{name}'"),
            }
            for name, direction in goal.metrics.items()
        },
        "limits": [
            {"metric": each.metric, "bound": float(each.bound), "is_least": each.is_least, "text": str(each)}
            for each in goal.limits
        ],
        "members": [_member(subject, trial, overlap.members.get(trial.number, ())) for trial in subject.front],
        "near": list(overlap.near),
        "complete": len(complete),
        "beyond_limits": beyond,
        "share_beyond_limits": beyond / len(complete) if complete else None,
    }
    if len(goal.metrics) > 1:
        changes = cast("list[ChangedChoice]", notes.read_note("changed_choices") or [])
        rule = study.config.study.choose
        part["choice"] = {"rule": rule, "text": why(rule), "changes": changes}
        part["hypervolume"] = _describe_volume(subject)
    return part


def _member(subject: Subject, trial: Trial, overlaps: Sequence[int]) -> Member:
    member: Member = {
        "number": trial.number,
        "point": dict(trial.point),
        "scores": spreads(trial, subject.goal),
        "is_chosen": subject.is_winner(trial),
        "overlaps": list(overlaps),
    }
    if trial.amount is not None:
        member["amount"] = trial.amount
    return member


def _describe_volume(subject: Subject) -> Volume | Missing:
    grown, goal = subject.growth, subject.goal
    if not grown.trials:
        return missing("no complete trial keeps the limits" if goal.limits else "no trial is complete")
    best, worst = (goal.scores(losses) for losses in grown.scale.tolist())
    reason = subject.no_expectation
    expected: ExpectedVolume | Missing
    if reason is None:
        mean = subject.expected_growth
        expected = {
            "orders": NUM_ORDERS,
            "budgets": list(mean.budgets),
            "means": list(mean.means),
            "spreads": list(mean.spreads),
        }
    else:
        expected = missing(reason)
    steps = zip(grown.trials, grown.volumes, strict=True)
    return {
        "reference": REFERENCE,
        "scale": {name: [best[name], worst[name]] for name in goal.metrics},
        "trials": [{"trial": trial.number, "hypervolume": volume} for trial, volume in steps],
        "expected": expected,
    }


def front_of(report: ReportJson) -> FrontPart | None:
    """Return the section; None of one metric without limits, and where it could not be made."""
    front = report.get("front")
    return None if front is None or is_missing(front) else front


def goal_text(front: FrontPart) -> str:
    """Return metrics and limits in words: `accuracy (maximize) and parameters (minimize), within latency <= 5`."""
    return join_names([f"{name} ({aim['direction']})" for name, aim in front["metrics"].items()]) + limits_text(front)


def limits_text(front: FrontPart) -> str:
    """Return the limits, to follow what is within them; empty without one."""
    limits = [limit["text"] for limit in front["limits"]]
    return f", within {join_names(limits)}" if limits else ""


def aim_text(front: FrontPart, name: str) -> str:
    """Return a metric with its direction and limits: `parameters (minimize, <= 1e+06)`."""
    aims: list[str] = [front["metrics"][name]["direction"]] if name in front["metrics"] else []
    aims += [limit["text"].removeprefix(f"{name} ") for limit in front["limits"] if limit["metric"] == name]
    return f"{name} ({', '.join(aims)})"


def names_of(front: FrontPart) -> list[str]:
    """Return the metrics, and then what has a limit."""
    return list(dict.fromkeys([*front["metrics"], *(limit["metric"] for limit in front["limits"])]))


def value_format(report: ReportJson, name: str) -> Callable[[float], str]:
    """Return what writes a metric, or what has a limit: with the digits that tell the front and the best apart."""
    front = front_of(report)
    members = [] if front is None else [member["scores"][name]["mean"] for member in front["members"]]
    values = [*members, *(trial["scores"][name] for trial in report["top"])]
    # What is counted is written as a count.
    return "{:,.0f}".format if all(value == round(value) for value in values) else score_format(values)


def read_scores(report: ReportJson) -> Iterator[Block]:
    """Set the winner's metrics, and what has a limit, beside those of the default configuration."""
    winner, front = require(report["winner"]), front_of(report)
    if "scores" not in winner or front is None:
        return
    default = require(report["baselines"])["default"]
    theirs = {} if is_missing(default) else default.get("scores", {})
    rows = []
    for name, score in winner["scores"].items():
        text = value_format(report, name)
        rows.append((aim_text(front, name), spread_text(score, text), text(theirs[name]) if name in theirs else "–"))
    yield Table(("metric", "winner (95 % interval)", "default configuration"), rows)


_MOST_MEMBERS = 20


def read_front(report: ReportJson) -> Iterator[Block]:
    """Say what the front is, how the winner was chosen from it, and how large it is."""
    if "front" not in report:
        return
    front = require(report["front"])
    yield Paragraph(_about(front))
    if len(front["metrics"]) > 1 and front["members"]:
        yield from _members(report, front)
    yield Items([*_noise(front), *_about_choice(front), *_about_volume(front)])


def _about(front: FrontPart) -> str:
    share, limits = front["share_beyond_limits"], limits_text(front)
    beyond = "" if share is None else f" {front['beyond_limits']} of {front['complete']} complete trials ({share:.0%})"
    beyond = f"{beyond} exceed a limit." if limits and beyond else ""
    if len(front["metrics"]) == 1:
        return f"Limits: {limits.removeprefix(', within ')}.{beyond}"
    if not front["members"]:
        return f"There is no front of {goal_text(front)}.{beyond}"
    are = "trial is" if len(front["members"]) == 1 else "trials are"
    text = f"**{len(front['members'])}** {are} on the front of {goal_text(front)}:"
    return f"{text} no complete trial is as good in all of these metrics and better in one.{beyond}"


def _members(report: ReportJson, front: FrontPart) -> Iterator[Block]:
    """Yield the table, the best of the leading metric first; of many the first ones, and the chosen one."""
    names, members = names_of(front), front["members"]
    shown = [m for place, m in enumerate(members) if place < _MOST_MEMBERS or m["is_chosen"]]
    texts = {name: value_format(report, name) for name in names}
    rows = [
        (
            f"{member['number']}{' ★' * member['is_chosen']}",
            *(spread_text(member["scores"][name], texts[name]) for name in names),
            point_text(member["point"]),
        )
        for member in shown
    ]
    has_intervals = any(m["scores"][name]["interval"] for m in shown for name in names)
    yield Table(("trial", *(aim_text(front, name) for name in names), "point"), rows)
    more = f"{len(shown)} of {len(members)}; report.json has all. " if len(shown) < len(members) else ""
    says = f"{more}★ is the winner." + " In brackets: 95 % intervals over folds and seeds." * has_intervals
    yield Paragraph(says if any(m["is_chosen"] for m in shown) else says.replace("★ is the winner.", "").strip())


def _noise(front: FrontPart) -> Iterator[str]:
    """Say which other trials may belong to the front; a caution says which members overlap with the winner."""
    if front["near"]:
        yield f"by the 95 % intervals the front may also have {trials_text(front['near'])}"


def trials_text(numbers: Sequence[int]) -> str:
    """Return the numbers of trials, of many the first ones."""
    more = len(numbers) - _MOST_MEMBERS
    texts = [*map(str, numbers[:_MOST_MEMBERS]), *([f"{more} more"] if more > 0 else ())]
    return f"{'trial' if len(numbers) == 1 else 'trials'} {join_names(texts)}"


def _about_choice(front: FrontPart) -> Iterator[str]:
    for change in front["choice"]["changes"] if "choice" in front else ():
        opened = "after" if change["is_test_open"] else "before"
        yield (
            f"how the winner is chosen was changed at {change['time']}, after {count_text(change['trials'], 'trial*')} "
            f"and {opened} the test part was opened: from {change['before']} to {change['after']}"
        )


def _about_volume(front: FrontPart) -> Iterator[str]:
    volume = front.get("hypervolume")
    if volume is None or is_missing(volume):
        return
    last, scale = volume["trials"][-1], volume["scale"]
    whole = volume["reference"] ** len(scale)
    ends = ", ".join(f"{name} from {best:g} to {worst:g}" for name, (best, worst) in scale.items())
    text = (
        f"hypervolume of the front: {last['hypervolume']:.4f} (of at most {whole:.4g}), reached at trial "
        f"{last['trial']:g}; scaled from the best to the worst trial within the limits ({ends}), reference "
        f"{volume['reference']:g}"
    )
    expected = volume["expected"]
    if not is_missing(expected):
        text += (
            f"; a random search of {expected['budgets'][-1]} of these trials has {expected['means'][-1]:.4f} on average"
        )
    yield text
