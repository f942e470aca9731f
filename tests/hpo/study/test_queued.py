"""Points that another program queues in a study's record: tried as points of the search, and repeated with it."""

import math
from dataclasses import replace
from pathlib import Path

import optuna
import pytest

from hpo.engine.loop import search
from hpo.errors import HpoError
from hpo.session.session import run_study
from hpo.session.user_requests import UserRequests
from hpo.study.opening import open_study
from hpo.study.reproduce.replay import read_added
from hpo.trials.record.storage import sqlite_url
from hpo.trials.record.user_actions import AddedPoint
from hpo.trials.space.space import point_key
from hpo.workers.dispatch.local import LocalDispatcher
from tests.studies import ORDERED, REPOSITORY, prepared, report_again, rows, run_toy, toy_config
from tests.toy import score

FEW, ALL = 5, 12
ABSENT = {"toy.layers": 5, "toy.width": 64, "toy.lr": 0.1}


def in_optuna(folder):
    return optuna.load_study(study_name="toy", storage=sqlite_url(folder / "study.db"))


def point_of(row):
    return {"toy.layers": int(row["toy.layers"]), "toy.width": int(row["toy.width"]), "toy.lr": float(row["toy.lr"])}


def the_score_and_queue(task):
    """Queue a point in the study of this folder, as a person beside it would, and train."""
    in_optuna(Path("study")).enqueue_trial(ABSENT, skip_if_exists=True)
    yield from score(task)
    return {"score": 1.0}


def run_again(folder, config, report):
    """Run the search of a report again, as a replay does; return its rows."""
    study = prepared(folder, config)
    study = replace(study, added=read_added(report["added_points"], study.space))
    record = open_study(study)
    run_study(study, record, LocalDispatcher(str(REPOSITORY)), None)
    record.close()
    return rows(study.folder.trials_path)


@pytest.mark.slow("random")
@pytest.mark.nightly
@pytest.mark.parametrize("strategy", ["evolutionary", "grid", "random", "tpe"])
def test_it_is_tried_next_and_the_report_repeats_the_search(tmp_path, strategy, caplog):
    folder, config = tmp_path / "study", toy_config(strategy)
    before = run_toy(folder, toy_config(strategy, trials=FEW))
    assert ABSENT not in map(point_of, before)
    in_optuna(folder).enqueue_trial(ABSENT)
    after = run_toy(folder, config)
    assert "Optuna's trial 5 will be tried next" in caplog.text
    assert after[:FEW] == before
    tried = [point_of(row) for row in after]
    assert tried[FEW] == ABSENT
    assert len({point_key(point) for point in tried}) == ALL
    report = report_again(folder, config, has_page=False).summary
    assert [(each["point"], each["after"]) for each in report["added_points"]] == [(ABSENT, FEW)]
    assert run_again(tmp_path / "again", config, report) == after
    assert in_optuna(folder).trials[FEW].state == optuna.trial.TrialState.WAITING, "another program's trial is changed"


@pytest.mark.slow("at its end")
@pytest.mark.nightly
@pytest.mark.parametrize(("seconds", "found"), [(0, 4), (math.inf, 6)], ids=["while it runs", "at its end"])
def test_one_that_comes_while_the_search_runs_is_told_and_tried_once(seconds, found, caplog, monkeypatch):
    """Four lanes are filled when it comes; with the budget spent, it waits for a larger one."""
    monkeypatch.setattr(UserRequests, "seconds_between", seconds)
    for trials in (6, 8):
        config = toy_config("tpe", trials=trials, objective=f"{__name__}:the_score_and_queue")
        study = prepared(Path("study"), config)
        record = open_study(study)
        run_study(study, record, LocalDispatcher(str(REPOSITORY)), None)
        record.close()
        assert caplog.text.count("will be tried next if the budget allows") == 1
    assert caplog.text.count("Optuna's trial") == 1, "what was taken up is told again"
    tried = [point_of(row) for row in rows(study.folder.trials_path)]
    assert [number for number, point in enumerate(tried) if point == ABSENT] == [found]


@pytest.mark.nightly
@pytest.mark.parametrize(("queued", "line"), [
    ({"toy.lr": 3.0}, "toy.lr=3.0 is not in its range (0.001, 0.01, 0.1); give a value in the range; it is left alone"),
    ({"lr": 0.1}, "'lr' is not searched; allowed: toy.layers, toy.width, toy.lr; did you mean 'toy.lr'?; it is left"),
    ("tried", "Optuna's trial 5 is trial 2 already, and is left alone"),
])  # fmt: skip
def test_what_is_no_new_point_of_the_space_is_named_and_left_alone(tmp_path, queued, line, caplog):
    folder, config = tmp_path / "study", toy_config()
    before = run_toy(folder, toy_config(trials=FEW))
    in_optuna(folder).enqueue_trial(point_of(before[2]) if queued == "tried" else queued)
    after = run_toy(folder, config)
    assert line in caplog.text
    assert after == run_toy(tmp_path / "undisturbed", config)


@pytest.mark.parametrize(("told", "line"), [
    ([{"point": ABSENT | {"toy.lr": 9.0}, "after": 0}], "toy.lr=9.0 is not in its range"),
    ([{"after": 0}], "must be a list of points"),
    ([{"point": ABSENT, "after": "x"}], "must be a list of points"),
    (7, "must be a list of points"),
])  # fmt: skip
def test_what_a_strangers_report_tells_of_added_points_is_read_or_refused_in_one_line(told, line, tmp_path):
    space = prepared(tmp_path, toy_config()).space
    assert read_added([{"point": ABSENT, "after": 3}], space) == (AddedPoint(ABSENT, 3),)
    with pytest.raises(HpoError, match=rf"^report\.json: added_points: .*{line}"):
        read_added(told, space)


@pytest.mark.slow
def test_after_the_end_of_a_strategy_it_is_tried_alone(tmp_path):
    """One that has nothing more to propose, though the budget is not spent."""
    folder = tmp_path / "study"
    settings = toy_config("evolutionary")["strategy"] | {"generations": 1, "population": 4}
    config = toy_config(settings, space=ORDERED)
    assert len(run_toy(folder, config)) == 4
    in_optuna(folder).enqueue_trial({"toy.lr": 0.1})
    left_out = {"toy.layers": 2, "toy.width": 16, "toy.lr": 0.1}
    assert point_of(run_toy(folder, config)[-1]) == left_out, "what is left out has its default"
    study = prepared(folder, config)
    record = open_study(study)
    assert study.is_over(record)
    search(study.rules(), record, LocalDispatcher(str(REPOSITORY)), ALL)
    assert len(record.trials()) == 5
    record.close()
