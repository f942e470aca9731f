"""The timeline of a report: a bar for every task, who was idle, and a clock that pauses with the search."""

import json
import time
from dataclasses import replace

import numpy as np
import pytest

from hpo.report.figures.timeline import draw_timeline
from hpo.report.sections.cost import describe_cost, read_cost, stretch_runs
from hpo.study.opening import read_study
from hpo.trials.record.record import Stretch
from hpo.trials.trial import TaskLayout
from tests.hpo.report.made_up import scored, subject, trial
from tests.studies import prepared, run_toy, toy_config


def test_the_timeline_has_a_bar_for_every_task_where_and_when_it_ran():
    trials = [trial(0, [0.5, 0.6]), trial(1, [0.7, None]), trial(2, [0.4], state="stopped"), trial(3, [0.9, 0.8])]
    content = draw_timeline(subject(trials, layout=TaskLayout(folds=2)))
    bars = {t.name: t for t in content.figure.data}
    assert {name: len(t.x) for name, t in bars.items()} == {"complete": 3, "winner": 2, "stopped early": 1, "failed": 1}
    drawn = sorted((base, length) for t in bars.values() for base, length in zip(t.base, t.x, strict=True))
    ran = sorted((o.started - 100.0, o.seconds) for t in trials for o in t.outcomes.values())
    assert np.array(drawn) == pytest.approx(np.array(ran))
    assert bars["failed"].customdata[0] == "trial 1, fold_1"
    idle = describe_cost(subject(trials))["idle_share"]
    assert content.figure.layout.yaxis.ticktext[0] == f"worker 0, idle {idle:.0%}"


def test_the_idle_share_counts_workers_that_were_given_and_never_seen():
    drawn = subject(scored(6), workers=4)
    idle, caption = describe_cost(drawn)["idle_share"], draw_timeline(drawn).caption
    assert idle > 0.7
    assert f"(4 requested, at most 1 at once) from the first task to the last, excluding pauses: {idle:.1%}" in caption
    # Trainings of no time leave no worker idle.
    cost = describe_cost(subject([trial(0, [0.5], seconds=0.0)]))
    assert (cost["wall_seconds"], cost["idle_share"], cost["overhead_share"]) == (0.0, 0.0, 0.0)
    assert "Idle share of the workers: 0%" in next(read_cost({"cost": cost})).text


@pytest.mark.slow
def test_bars_that_a_picture_cannot_tell_apart_are_one_and_none_is_lost():
    content = draw_timeline(subject(scored(4_000)))
    assert sum(len(t.x) for t in content.figure.data) <= 3_000
    assert "4,000 tasks" in content.caption
    assert "share a bar" in content.caption
    end = max(base + length for t in content.figure.data for base, length in zip(t.base, t.x, strict=True))
    assert end == pytest.approx((3 * 3_999 + 2) / 3600)


def test_workers_are_counted_at_once_and_those_that_never_ran_together_share_a_row():
    """A search that was interrupted goes on with new processes, and so does one whose worker died."""
    one_by_one = subject([trial(k, [0.5], worker=worker) for k, worker in enumerate((9, 3, 4, 4))])
    assert describe_cost(one_by_one)["workers_seen"] == 1
    content = draw_timeline(one_by_one)
    assert len(content.figure.layout.yaxis.ticktext) == 1
    assert "share a row" in content.caption
    together = [trial(k, [0.5, 0.5], worker=1 + k % 2, seconds=9.0) for k in range(4)]
    assert describe_cost(subject(together))["workers_seen"] == 2


def test_a_search_that_was_resumed_has_its_workers_and_no_pauses():
    trials = [trial(k, [0.5, 0.6], worker=k + 1) for k in range(3)]
    stretches = [Stretch(trials[k].started - 0.1, 1) for k in range(3)]
    cost = describe_cost(replace(subject(trials), stretches=stretches))
    # A worker whose clock is behind stays in its stretch.
    late = [Stretch(stretch.start + 0.4, 1) for stretch in stretches]
    assert describe_cost(replace(subject(trials), stretches=late)) == cost
    assert (cost["workers_seen"], cost["wall_seconds"]) == (1, pytest.approx(15.0))
    assert cost["idle_share"] == cost["overhead_share"] == pytest.approx(0.2)
    content = draw_timeline(replace(subject(trials), stretches=stretches))
    assert "1 at once) from the first task to the last, excluding pauses: 20.0%" in content.caption
    assert "Left out (dotted): 2 pauses without a running task (2.0 s)." in content.caption
    ran = stretch_runs([o for t in trials for o in t.outcomes.values()], [stretches[1], Stretch(stretches[2].start, 3)])
    assert [(each.workers, each.seen, len(each.outcomes)) for each in ran] == [(None, 1, 2), (1, 1, 2), (3, 1, 2)]


@pytest.mark.slow
def test_a_search_notes_when_it_goes_on_and_the_report_counts_no_pause(tmp_path):
    folder = tmp_path / "study"
    for trials in (2, 4, 4, 5):
        run_toy(folder, toy_config("random", trials=trials))
        time.sleep(0.3)
    cost = json.loads((folder / "report.json").read_text())["cost"]
    record = read_study(prepared(folder, toy_config("random", trials=5)))
    assert (cost["workers_seen"], len(record.stretches)) == (1, 3)
    with_pauses = max(t.ended for t in record.trials()) - min(t.started for t in record.trials())
    assert cost["training_seconds"] <= cost["wall_seconds"] <= with_pauses - 0.9
    assert "on 1 worker," in (folder / "report.md").read_text()
