"""The progress of a search in a terminal: a line for a trial, the panel, the time that is left."""

import io
from dataclasses import replace
from types import SimpleNamespace

import pytest
from rich.console import Console

from hpo.config.goals import SCALE
from hpo.show.progress import TerminalProgress
from hpo.show.tables import table_text
from hpo.study.results.choosing import why_none
from hpo.trials.goal import Goal, finished, goal_of
from hpo.trials.history import History
from hpo.trials.trial import Outcome, TaskLayout, Trial
from hpo.workers.dispatch.dispatcher import TaskReport
from hpo.workers.training.tasks import Task
from tests.studies import config_from_dict, toy_config

STUDY = config_from_dict(toy_config(trials=4)).study.model_copy(update={"metric": "accuracy"})
GOALS = {"metrics": {"accuracy": "maximize", "size": "minimize"}, "limits": {"memory": 4}}
SEVERAL = STUDY.model_copy(update={**GOALS, "trials": 5})


def display(section=STUDY, layout=None, history=None, **others):
    config, space = SimpleNamespace(study=section), SimpleNamespace(dimensions=())
    study = SimpleNamespace(config=config, counts="trials", layout=layout or TaskLayout(), space=space)
    return TerminalProgress(study, history or History(), **others)


def done(number, value, goal=None, **changes):
    scores = value if isinstance(value, dict) else {"accuracy": value}
    outcome = Outcome(scores, seconds=1.5) if value else Outcome(error="no luck")
    trial = finished(Trial(number, 0, {"model.d_model": 32}), {0: outcome}, goal or Goal({"accuracy": "maximize"}))
    return replace(trial, **changes)


def measured(number, accuracy, size, memory=1.0):
    return done(number, {"accuracy": accuracy, "size": size, "memory": memory}, goal_of(SEVERAL))


def lines_of(capsys, trials, section=STUDY):
    with display(section) as progress:
        for trial in trials:
            progress.trial_finished(trial)
    return capsys.readouterr().out.splitlines(), panel(progress)


def panel(progress):
    screen = io.StringIO()
    Console(file=screen, width=120).print(progress.panel())
    return screen.getvalue()


def test_a_line_for_every_finished_trial(capsys):
    lines, _ = lines_of(capsys, [done(number, value) for number, value in enumerate((0.5, 0.75, 0.6, None))])
    assert [line[:13] for line in lines] == ["1/4  trial 0 ", "2/4  trial 1 ", "3/4  trial 2 ", "4/4  trial 3 "]
    assert ["*" in line for line in lines] == [True, True, False, False]
    assert ("d_model=32  1.5 s" in lines[0], "left)" in lines[0]) == (True, True)
    assert "failed: fold 0: no luck" in lines[3]
    half_a_minute = STUDY.model_copy(update={"trials": 10**9, "minutes": 0.5})
    assert "(30 s left)" in lines_of(capsys, [done(0, 0.5)], half_a_minute)[0][0]


def test_without_a_trial_within_the_limits_the_nearest_is_named():
    trials = [measured(0, 0.9, 1.0, 9.0), measured(1, 0.5, 1.0, 5.0), done(2, None)]
    says = "no trial keeps the limits (memory <= 4); the nearest is trial 1: accuracy 0.5000, size 1.0000, memory 5"
    assert why_none(History(trials), goal_of(SEVERAL)) == says
    of_finalists = "no finalist keeps the limits (memory <= 4) on fresh seeds"
    assert why_none(History([*trials, measured(3, 0.1, 2.0)]), goal_of(SEVERAL)) == of_finalists


@pytest.mark.parametrize(("changes", "section", "says", "stars"), [
    (lambda n: {"point": {SCALE: n}, "is_scaled": True}, {"scales": [{}, {}]}, "of its scale", [1, 1, 1, 0]),
    (lambda n: {"amount": n}, {}, "the best so far among the trials that were tr", [1, 1, 0, 1]),
], ids=["scales", "amounts"])  # fmt: skip
def test_the_star_is_the_best_of_its_scale_or_of_the_most_trained(capsys, changes, section, says, stars):
    values = enumerate(((0.9, 1), (0.5, 2), (0.95, 1), (0.4 if section else 0.6, 2)))
    trials = [done(number, value, **changes(place)) for number, (value, place) in values]
    (legend, *lines), _ = lines_of(capsys, trials, STUDY.model_copy(update=section))
    assert (says in legend, ["*" in line for line in lines]) == (True, [*map(bool, stars)])


@pytest.mark.parametrize("workers", [1, 8])
def test_the_time_left_counts_the_trials_that_run(workers):
    now = [0.0]
    progress = display(STUDY.model_copy(update={"trials": 80}), clock=lambda: now[0])
    for number in range(workers):
        progress.trial_opened(Trial(number, 0, {}))
    now[0] = 10.0
    progress.trial_finished(done(0, 0.5))
    assert 80 * 10 / workers / 2 <= progress.seconds_left() <= 80 * 10 / workers * 2


def test_the_panel_shows_counts_best_and_running_trials(monkeypatch):
    progress = display(STUDY.model_copy(update={"metric": "f1[/x]"}), TaskLayout(2), History([done(0, 0.75)]))
    point = {"epoch": 3, "epochs": 9, "f1[/x]": 1}
    progress.reported(Trial(1, 0, {"model.d_model": 32}), TaskReport(Task(1, 1, {}), point=point))
    text = panel(progress)
    assert ("1 of 4 trials" in text, "best f1[/x] 0.7500 (trial 0)" in text) == (True, True)
    assert text.splitlines()[-1].rstrip() == "trial 1, fold 2 of 2  epoch 3/9  f1[/x] 1.0000  0 s ago"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert "f1[/x]" in table_text(["f1[/x]"], [["1"]])
    assert [table_text(["same"] * 2, rows).count("same") for rows in ([], [["1", "2"]])] == [2, 2]


def test_with_several_metrics_lines_have_all_and_mark_the_front_and_what_exceeds_a_limit(capsys):
    values = [(0.5, 10.0), (0.6, 12.0, 5.0), (0.4, 11.0), (0.4, 9.0), (0.5, 8.0)]
    (front, *lines), text = lines_of(capsys, [measured(number, *each) for number, each in enumerate(values)], SEVERAL)
    limit = lines.pop(1)
    assert ("on the Pareto front" in front, limit) == (True, "! exceeds a limit: memory <= 4")
    assert [mark for line in lines for mark in "*!" if mark in line] == ["*", "!", "*", "*"]
    assert lines[0].startswith("1/5  trial 0  accuracy 0.5000  size 10  memory 1.0000 *  d_model=32")
    assert "front of 1" in text


def test_a_first_long_trial_says_which_fold_begins_and_a_point_every_ten_seconds(capsys):
    now = [0.0]
    progress = display(layout=TaskLayout(5), clock=lambda: now[0])
    progress.task_begun(Task(0, 0, {}))
    for now[0] in range(1, 25):
        point = {"epoch": now[0], "epochs": 30, "accuracy": now[0] / 100}
        progress.reported(Trial(0, 0, {}), TaskReport(Task(0, 0, {}), point=point))
    progress.task_begun(Task(0, 1, {}))
    # Once a trial has finished, there are lines enough.
    progress.trial_finished(done(0, 0.5))
    now[0] = 61
    progress.task_begun(Task(1, 0, {}))
    *lines, last = capsys.readouterr().out.splitlines()
    assert lines == [
        "trial 0, fold 1 of 5 begins",
        "trial 0, fold 1 of 5  epoch 10/30  accuracy 0.1000",
        "trial 0, fold 1 of 5  epoch 20/30  accuracy 0.2000",
        "trial 0, fold 2 of 5 begins",
    ]
    assert last.startswith("1/4  trial 0")


def test_a_minute_of_silence_is_followed_by_a_line_of_what_runs(capsys):
    now = [0.0]
    progress = display(layout=TaskLayout(2), clock=lambda: now[0])
    for index in range(2):
        progress.task_begun(Task(0, index, {}))
    progress.reported(Trial(0, 0, {}), TaskReport(Task(0, 1, {}), point={"epoch": 3, "epochs": 9}))
    capsys.readouterr()
    for now[0] in (30.0, 59.0, 61.0, 90.0, 119.0, 121.0):
        progress.show_silence()
    first, second = capsys.readouterr().out.splitlines()
    assert first == "running: trial 0, fold 1 of 2  began 61 s ago; trial 0, fold 2 of 2  epoch 3/9  61 s ago"
    assert "began 2 min ago" in second
