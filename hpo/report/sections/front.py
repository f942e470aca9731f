"""The limits, the Pareto front of a study with several metrics, and the choice of the winner from this front."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, NotRequired, cast

from pydantic import Field
from typing_extensions import TypedDict

from hpo.formatting import format_count
from hpo.report.formatting import point_text
from hpo.report.hypervolume import NUM_ORDERS
from hpo.report.part import Block, Items, Missing, Paragraph, Table, is_missing, missing, require
from hpo.report.sections import ReportJson
from hpo.report.sections.goal import (
    ChangedChoice,
    ExpectedVolume,
    FrontPart,
    Member,
    Volume,
    aim_text,
    goal_text,
    limits_text,
    names_of,
    trials_text,
    value_format,
)
from hpo.report.sections.scores import spread_text, spreads
from hpo.report.subject import Subject
from hpo.study.results.choosing import why
from hpo.study.results.run import StudyRun
from hpo.study.study import PreparedStudy
from hpo.study.winner.overlap import overlapping
from hpo.trials.fronts import REFERENCE
from hpo.trials.trial import Trial


class FrontSection(TypedDict):
    """The key `front` of report.json."""

    front: Annotated[
        NotRequired[FrontPart | Missing], Field(description="absent if the study has one metric and never had a limit")
    ]


def describe_front(study: PreparedStudy, run: StudyRun, subject: Subject, definitions: Mapping[str, str]) -> FrontPart:
    """Return the front, its hypervolume, the limits, and the choice of the winner.

    `definitions` has the definitions of metrics by name.
    """
    goal, trials = study.goal, run.trials
    overlaps, near = overlapping(subject.front, trials, goal)
    complete = [trial for trial in trials if trial.state == "complete"]
    beyond = sum(not trial.keeps_limits for trial in complete)
    changes = defaultdict[str, list[ChangedChoice]](list)
    for change in run.notes.changed_choices:
        changes[change.key].append(cast("ChangedChoice", vars(change)))
    undefined = f"{study.objective.owner}.describe_method defines no metric"
    part: FrontPart = {
        "metrics": {
            name: {"direction": direction, "definition": definitions.get(name) or missing(f"{undefined} '{name}'")}
            for name, direction in goal.metrics.items()
        },
        "limits": [
            {"metric": each.metric, "bound": float(each.bound), "is_least": each.is_least, "text": str(each)}
            for each in goal.limits
        ],
        "limit_changes": changes["study.limits"],
        "members": [_member(study, subject, trial, overlaps.get(trial.number, ())) for trial in subject.front],
        "near": near,
        "complete": len(complete),
        "beyond_limits": beyond,
        "share_beyond_limits": beyond / len(complete) if complete else None,
    }
    if len(goal.metrics) > 1:
        rule = study.config.study.choose
        part["choice"] = {"rule": rule, "text": why(rule), "changes": changes["study.choose"]}
        part["hypervolume"] = _describe_volume(subject)
    return part


def _member(study: PreparedStudy, subject: Subject, trial: Trial, overlaps: Sequence[int]) -> Member:
    member: Member = {
        "number": trial.number,
        "point": dict(trial.point),
        "scores": spreads(trial, subject.goal),
        "is_chosen": subject.is_winner(trial),
        "overlaps": list(overlaps),
    }
    if not study.is_outside:
        member["command"] = f"hpo reproduce {study.reference} --trial {trial.number}"
    if trial.amount is not None:
        member["amount"] = trial.amount
    return member


def _describe_volume(subject: Subject) -> Volume | Missing:
    grown, goal = subject.growth, subject.goal
    if not grown.trials:
        return missing("no complete trial keeps the limits" if goal.limits else "no trial is complete")
    best, worst = (goal.scores(losses) for losses in grown.scale.tolist())
    expected: ExpectedVolume | Missing
    if (reason := subject.why_no_expectation) is None:
        expected = cast("ExpectedVolume", {"orders": NUM_ORDERS, **vars(subject.expected_growth)})
    else:
        expected = missing(reason)
    steps = zip(grown.trials, grown.volumes, strict=True)
    return {
        "reference": REFERENCE,
        "scale": {name: [best[name], worst[name]] for name in goal.metrics},
        "trials": [{"trial": trial.number, "hypervolume": volume} for trial, volume in steps],
        "expected": expected,
    }


_MOST_MEMBERS = 20


def read_front(report: ReportJson) -> Iterator[Block]:
    """Yield the limits, the front, the changes of `study.limits` and `study.choose`, and the front's hypervolume.

    Yield nothing if the report has no section on the front.
    """
    if "front" not in report:
        return
    front = require(report["front"])
    yield Paragraph(_summary_text(front))
    if len(front["metrics"]) > 1 and front["members"]:
        yield from _members(report, front)
    yield Items([*_near_text(front), *_choice_changes(front), *_volume_text(report, front)])


def _summary_text(front: FrontPart) -> str:
    share, limits = front["share_beyond_limits"], limits_text(front)
    beyond = "" if share is None else f" {front['beyond_limits']} of {front['complete']} complete trials ({share:.0%})"
    beyond = f"{beyond} exceed a limit." if limits and beyond else ""
    if len(front["metrics"]) == 1:
        return f"Limits: {limits.removeprefix(', within ') or 'none'}.{beyond}"
    if not front["members"]:
        return f"There is no Pareto front of {goal_text(front)}.{beyond}"
    are, them = ("trial is", "it") if len(front["members"]) == 1 else ("trials are", "them")
    text = f"**{len(front['members'])}** {are} on the Pareto front of {goal_text(front)}:"
    return f"{text} no other trial dominates {them}.{beyond}"


def _members(report: ReportJson, front: FrontPart) -> Iterator[Block]:
    """Yield a table of the front's first 20 trials, then a note.

    The table also has the winner if the winner is a later trial of the front.
    """
    names, members = names_of(front), front["members"]
    visible = [m for place, m in enumerate(members) if place < _MOST_MEMBERS or m["is_chosen"]]
    texts = {name: value_format(report, name) for name in names}
    has_commands = all("command" in member for member in visible)
    rows = [
        (
            f"{member['number']}{' ★' * member['is_chosen']}",
            *(spread_text(member["scores"][name], texts[name]) for name in names),
            point_text(member["point"]),
            *([f"`{member['command']}`"] if has_commands else []),
        )
        for member in visible
    ]
    has_intervals = any("(" in cell for _, *cells in rows for cell in cells[: len(names)])
    yield Table(
        ("trial", *(aim_text(front, name) for name in names), "point", *(["train it again"] if has_commands else [])),
        rows,
    )
    more = f"{len(visible)} of {len(members)} trials; report.json has all. " if len(visible) < len(members) else ""
    winner = report["winner"]
    star = "★ is the winner."
    if not any(member["is_chosen"] for member in visible) and not is_missing(winner):
        star = f"The winner, trial {winner['number']}, is not on the front: scores on fresh seeds decided the choice."
    yield Paragraph(f"{more}{star}" + " In brackets: 95 % intervals over folds and seeds." * has_intervals)


def _near_text(front: FrontPart) -> Iterator[str]:
    """Yield a sentence about trials that may belong to the front, although others dominate them."""
    if front["near"]:
        yield f"{trials_text(front['near'])} may also belong to the front, according to the 95 % intervals"


def _choice_changes(front: FrontPart) -> Iterator[str]:
    for change in (*front["limit_changes"], *(front["choice"]["changes"] if "choice" in front else ())):
        what = "the choice of the winner was" if change["key"] == "study.choose" else "the limits were"
        order = "after" if change["is_test_open"] else "before"
        yield (
            f"{what} changed at {change['time']}, after "
            f"{format_count(change['trials'], 'trial*')} and {order} the test: from "
            f"{_value_text(change['before'])} to {_value_text(change['after'])}"
        )


def _value_text(value: Any) -> str:
    return "none" if value is None else str(value)


def _volume_text(report: ReportJson, front: FrontPart) -> Iterator[str]:
    volume = front.get("hypervolume")
    if volume is None or is_missing(volume):
        return
    last, scale = volume["trials"][-1], volume["scale"]
    within = " within the limits" if front["limits"] else ""
    whole = volume["reference"] ** len(scale)
    formats = {name: value_format(report, name) for name in scale}
    ends = ", ".join(
        f"{name} from {formats[name](best)} to {formats[name](worst)}" for name, (best, worst) in scale.items()
    )
    text = (
        f"hypervolume of the front: {last['hypervolume']:.4f} of at most {whole:.4g}, unchanged since trial "
        f"{last['trial']:g}; hpo first scales each metric: the best value{within} becomes 0, and the worst "
        f"value{within} becomes 1 ({ends}); the reference point is {volume['reference']:g} in each metric"
    )
    expected = volume["expected"]
    if not is_missing(expected):
        text += f"; random search reaches {expected['means'][-1]:.4f} on average with {expected['budgets'][-1]} trials"
    yield text
