"""The timeline of a report: a bar for every task, who was idle, and a clock that pauses with the search."""

import pytest

from hpo.engine.trials.trial import Outcome, TaskLayout
from hpo.report.facts.sections.cost import describe_cost
from hpo.report.figures.canvas.clock import Clock
from hpo.report.figures.timeline import draw_timeline
from tests.hpo.report.made_up import scored, subject, trial


def test_the_timeline_has_a_bar_for_every_task_where_and_when_it_ran():
    trials = [trial(0, [0.5, 0.6]), trial(1, [0.7, None]), trial(2, [0.4], state="stopped"), trial(3, [0.9, 0.8])]
    content = draw_timeline(subject(trials, layout=TaskLayout(folds=2)))
    bars = {t.name: t for t in content.figure.data}
    assert {name: len(t.x) for name, t in bars.items()} == {"complete": 3, "winner": 2, "stopped early": 1, "failed": 1}
    found = sorted((base, length) for t in bars.values() for base, length in zip(t.base, t.x, strict=True))
    ran = sorted((o.started - 100.0, o.seconds) for t in trials for o in t.outcomes.values())
    assert [base for base, _ in found] == pytest.approx([start for start, _ in ran])
    assert [length for _, length in found] == pytest.approx([seconds for _, seconds in ran])
    assert bars["failed"].customdata[0] == "trial 1, fold_1"
    cost = describe_cost(trials, 1, 0.0)
    assert f": {cost['idle_share']:.1%}." in content.caption
    assert content.figure.layout.yaxis.ticktext[0] == f"worker 1, idle {cost['idle_share']:.0%}"


def test_the_idle_share_counts_workers_that_were_asked_for_and_never_seen():
    trials = scored(6)
    cost = describe_cost(trials, 4, 0.0)
    content = draw_timeline(subject(trials, workers=4))
    assert cost["idle_share"] > 0.7
    assert f"(4 asked for, 1 seen), first start to last end: {cost['idle_share']:.1%}" in content.caption


def test_bars_that_a_picture_cannot_tell_apart_are_one_and_none_is_lost():
    trials = scored(9_000)
    content = draw_timeline(subject(trials))
    assert sum(len(t.x) for t in content.figure.data) <= 3_000
    assert "9,000 tasks" in content.caption
    assert "are one bar" in content.caption
    end = max(base + length for t in content.figure.data for base, length in zip(t.base, t.x, strict=True))
    assert end == pytest.approx((3 * 8_999 + 2) / 3600)


def test_workers_that_never_ran_together_share_a_lane():
    content = draw_timeline(subject([trial(k, [0.5], worker=worker) for k, worker in enumerate((9, 3, 4, 4))]))
    assert len(content.figure.layout.yaxis.ticktext) == 1
    assert "share a lane" in content.caption


def test_workers_are_counted_at_once():
    """A search that was interrupted goes on with new processes, and so does one whose worker died."""
    assert describe_cost([trial(k, [0.5], worker=k) for k in range(1, 4)], None, 0.0)["workers_seen"] == 1
    together = [trial(k, [0.5, 0.5], worker=1 + k % 2, seconds=9.0) for k in range(4)]
    assert describe_cost(together, None, 0.0)["workers_seen"] == 2


def test_the_clock_stands_still_while_nobody_runs_the_search():
    def ran(*starts):
        return [Outcome(started=start, seconds=60.0, worker=1) for start in starts]

    clock = Clock.of(ran(1000.0, 1060.0, 90_000.0))
    assert clock.pauses == ((1120.0, 90_000.0),)
    assert [clock.at(time) for time in (1000.0, 1090.0, 1120.0, 90_000.0, 90_060.0)] == [0, 90, 120, 120, 180]
    assert "1 pause" in clock.note
    assert Clock.of(ran(1000.0, 1100.0)).pauses == ()
    assert Clock.of([]).at(5.0) == 5.0
