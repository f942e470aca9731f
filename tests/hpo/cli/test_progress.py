"""The progress display: plain lines without a terminal, a panel with what runs on one."""

import io
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from hpo.config.goals import SCALE
from hpo.config.study_config import config_from_dict
from hpo.show.progress import TerminalProgress
from hpo.study.results.choosing import why_none
from hpo.trials.goal import Goal, finished, goal_of
from hpo.trials.history import History
from hpo.trials.space.reader import space_from_dict
from hpo.trials.trial import Outcome, TaskLayout, Trial
from hpo.workers.dispatch.dispatcher import TaskReport
from hpo.workers.training.tasks import Task
from tests.studies import toy_config

STUDY = config_from_dict(toy_config(trials=4)).study.model_copy(update={"metric": "accuracy"})


def shown(section=STUDY, layout=None, space=None, history=None, **others):
    """Return the progress of a study with this section, layout and space."""
    space = space or SimpleNamespace(dimensions=())
    config = SimpleNamespace(study=section)
    study = SimpleNamespace(config=config, counts="trials", layout=layout or TaskLayout(), space=space)
    return TerminalProgress(study, history or History(), **others)


def done(number, value):
    outcome = Outcome({"accuracy": value}, seconds=1.5) if value else Outcome(error="no luck")
    return finished(Trial(number, 0, {"model.d_model": 32}), {0: outcome}, Goal({"accuracy": "maximize"}))


def test_a_line_for_every_finished_trial(capsys):
    with shown() as progress:
        for number, value in enumerate((0.5, 0.75, 0.6, None)):
            progress.trial_finished(done(number, value))
    lines = capsys.readouterr().out.splitlines()
    assert [line[:13] for line in lines] == ["1/4  trial 0 ", "2/4  trial 1 ", "3/4  trial 2 ", "4/4  trial 3 "]
    assert ["*" in line for line in lines] == [True, True, False, False]
    assert "d_model=32  1.5 s" in lines[0]
    assert "left)" in lines[0]
    assert "failed: fold 0: no luck" in lines[3]


def test_of_a_ladder_the_star_is_the_best_of_its_scale(capsys):
    with shown(STUDY.model_copy(update={"scales": [{}, {}]})) as progress:
        for number, (value, scale) in enumerate(((0.9, 1), (0.5, 2), (0.95, 1), (0.4, 2))):
            trial = replace(done(number, value), point={SCALE: scale}, is_scaled=True)
            progress.trial_finished(trial)
    told, *lines = capsys.readouterr().out.splitlines()
    assert "of its scale" in told
    assert ["*" in line for line in lines] == [True, True, True, False]
    assert "0.5000 (trial 1)" in panel(progress)


def test_columns_are_as_wide_as_the_values_of_the_space(capsys):
    space = space_from_dict({"lr": {"low": 1e-5, "high": 0.1, "log": True}, "width": [8, 256], "act": ["relu", "tanh"]})
    points = [{"lr": 0.01, "width": 8, "act": "relu"}, {"lr": 5.57e-5, "width": 256, "act": "tanh"}]
    with shown(space=space) as progress:
        for number, point in enumerate(points):
            progress.trial_finished(replace(done(number, 0.5), point=point))
    first, second = capsys.readouterr().out.splitlines()
    for word in ("lr=", "width=", "act=", " s"):
        assert first.index(word) == second.index(word)


def test_of_trials_that_are_trained_by_different_amounts_the_best_is_one_that_was_trained_furthest(capsys):
    with shown() as progress:
        for number, (value, amount) in enumerate(((0.9, 1), (0.5, 3), (0.95, 1), (0.6, 3))):
            progress.trial_finished(replace(done(number, value), amount=amount))
    told, *lines = capsys.readouterr().out.splitlines()
    assert "the best so far of the most trained trials" in told
    assert ["*" in line for line in lines] == [True, True, False, True]


@pytest.mark.parametrize("width", [20, 120])
def test_the_panel_shows_counts_best_and_running_trials(width):
    progress = shown(layout=TaskLayout(2), history=History([done(0, 0.75)]))
    task = Task(1, 1, {})
    point = {"epoch": 3, "epochs": 9, "accuracy": 0.6}
    progress.reported(Trial(1, 0, {"model.d_model": 32}), TaskReport(task, point=point))
    screen = io.StringIO()
    Console(file=screen, width=width).print(progress.panel())
    text = " ".join(screen.getvalue().split())
    assert "1 of 4 trials" in text
    if width == 120:
        assert "best accuracy 0.7500 (trial 0)" in text
        last = screen.getvalue().splitlines()[-1].rstrip()
        assert last == "trial 1, fold 2 of 2  epoch 3/9  accuracy 0.6000  0 s ago"


def test_a_minute_of_silence_is_followed_by_a_line_of_what_runs(capsys):
    now = [0.0]
    progress = shown(layout=TaskLayout(3), clock=lambda: now[0])
    for index in range(3):
        progress.task_begun(Task(0, index, {}))
    progress.reported(Trial(0, 0, {}), TaskReport(Task(0, 1, {}), point={"epoch": 3, "epochs": 9}))
    capsys.readouterr()
    for now[0] in (30.0, 59.0, 61.0, 90.0, 119.0):
        progress.show_silence()
    (line,) = capsys.readouterr().out.splitlines()
    assert line == (
        "running: trial 0, fold 1 of 3  began 61 s ago; trial 0, fold 2 of 3  epoch 3/9  61 s ago; "
        "trial 0, fold 3 of 3  began 61 s ago"
    )
    now[0] = 121.0
    progress.show_silence()
    assert "began 2 min ago" in capsys.readouterr().out
    assert "0 of 4 trials" in panel(progress)


def panel(progress):
    screen = io.StringIO()
    Console(file=screen, width=120).print(progress.panel())
    return screen.getvalue()


def test_the_time_left_is_at_most_that_of_the_budget(capsys):
    study = STUDY.model_copy(update={"trials": 10**9, "minutes": 0.5})
    with shown(study, seconds_before=10.0) as progress:
        progress.trial_finished(done(0, 0.5))
    assert "(20 s left)" in capsys.readouterr().out


SEVERAL = STUDY.model_copy(
    update={"metrics": {"accuracy": "maximize", "size": "minimize"}, "limits": {"memory": 4}, "trials": 5}
)


def measured(number, accuracy, size, memory=1.0):
    outcome = Outcome({"accuracy": accuracy, "size": size, "memory": memory}, seconds=1.5)
    return finished(Trial(number, 0, {"model.d_model": 32}), {0: outcome}, goal_of(SEVERAL))


def test_with_several_metrics_lines_have_all_and_mark_the_front_and_what_exceeds_a_limit(capsys):
    trials = [(0.5, 10.0), (0.6, 12.0, 5.0), (0.4, 11.0), (0.4, 9.0), (0.5, 8.0)]
    with shown(SEVERAL) as progress:
        for number, values in enumerate(trials):
            progress.trial_finished(measured(number, *values))
    front, *lines = capsys.readouterr().out.splitlines()
    limit = lines.pop(1)
    assert "on the Pareto front" in front
    assert limit == "! exceeds a limit: memory <= 4"
    assert [mark for line in lines for mark in "*!" if mark in line] == ["*", "!", "*", "*"]
    assert lines[0].startswith("1/5  trial 0  accuracy 0.5000  size 10  memory 1.0000 *  d_model=32")
    assert "front of 1" in panel(progress)


def test_the_front_that_is_shown_is_that_of_the_history(capsys):
    rng = np.random.default_rng(0)
    trials = [measured(number, *rng.integers(0, 9, 2).astype(float), rng.choice([1.0, 5.0])) for number in range(60)]
    progress = shown(SEVERAL, history=History(trials[:20]))
    for trial in trials[20:]:
        progress.trial_finished(trial)
    assert f"front of {len(History(trials).front)} " in panel(progress)


def test_without_a_trial_within_the_limits_the_nearest_is_named():
    trials = [measured(0, 0.9, 1.0, 9.0), measured(1, 0.5, 1.0, 5.0), done(2, None)]
    says = "no trial keeps the limits (memory <= 4); the nearest is trial 1: accuracy 0.5000, size 1.0000, memory 5"
    assert why_none(History(trials), goal_of(SEVERAL)) == says
    of_finalists = "no finalist keeps the limits (memory <= 4) on fresh seeds"
    assert why_none(History([*trials, measured(3, 0.1, 2.0)]), goal_of(SEVERAL)) == of_finalists
    assert why_none(History(trials[2:]), goal_of(SEVERAL)) == "every trial failed, the first with: fold 0: no luck"
