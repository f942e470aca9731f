"""What a first long trial says while it runs."""

import shutil

from hpo.show.progress import TerminalProgress
from hpo.trials.goal import Goal, finished
from hpo.trials.trial import Outcome, TaskLayout, Trial
from hpo.workers.dispatch.dispatcher import TaskReport
from hpo.workers.training.tasks import Task
from tests.hpo.cli.commands import TABLE, TABLE_DATA
from tests.hpo.cli.commands import hpo as command
from tests.hpo.cli.test_progress import shown as shown_of

TRIALS = [Trial(number, 0, {"lr": 0.1}) for number in range(2)]


class Clock:
    """A time that tests set."""

    now = 100.0

    def __call__(self):
        return self.now


def watched(layout):
    clock = Clock()
    progress = shown_of(layout=layout, clock=clock)

    def begin(second, trial, index):
        clock.now = 100.0 + second
        progress.task_begun(Task(trial, index, {}))

    def report(second, trial, index, epoch):
        clock.now = 100.0 + second
        point = {"epoch": epoch, "epochs": 9, "accuracy": epoch / 10}
        progress.reported(TRIALS[trial], TaskReport(Task(trial, index, {}), point=point))

    def end(second, trial):
        clock.now = 100.0 + second
        outcomes = {index: Outcome({"accuracy": 0.5}, seconds=1.0) for index in range(layout.size)}
        progress.trial_finished(finished(TRIALS[trial], outcomes, Goal({"accuracy": "maximize"})))

    return begin, report, end


def test_a_first_long_trial_says_which_fold_begins_and_a_point_every_ten_seconds(capsys):
    begin, report, end = watched(TaskLayout(5))
    begin(0, 0, 0)
    for second in range(1, 25):
        report(second, 0, 0, second)
    begin(25, 0, 1)
    for second in range(26, 40):
        report(second, 0, 1, second - 25)
    begin(40, 0, 2)
    end(60, 0)
    begin(61, 1, 0)
    report(95, 1, 0, 9)
    begin(96, 1, 1)
    *lines, last = capsys.readouterr().out.splitlines()
    assert lines == [
        "trial 0, fold 1 of 5 begins",
        "trial 0, fold 1 of 5  epoch 10/9  accuracy 1.0000",
        "trial 0, fold 1 of 5  epoch 20/9  accuracy 2",
        "trial 0, fold 2 of 5 begins",
        "trial 0, fold 2 of 5  epoch 10/9  accuracy 1.0000",
        "trial 0, fold 3 of 5 begins",
    ]
    assert last.startswith("1/4  trial 0")


def test_without_points_the_first_fold_and_those_that_begin_after_ten_seconds_are_told(capsys):
    begin, _, _ = watched(TaskLayout(3, 2))
    for index, second in enumerate((0, 4, 8, 12, 13, 14)):
        begin(second, 0, index)
    assert capsys.readouterr().out.splitlines() == [
        "trial 0, fold 1 of 3, repeat 1 of 2 begins",
        *(f"trial 0, fold {fold} of 3, repeat 2 of 2 begins" for fold in (1, 2, 3)),
    ]


def test_of_several_workers_each_line_says_the_trial(capsys):
    begin, report, _ = watched(TaskLayout())
    begin(0, 0, 0)
    begin(0, 1, 0)
    report(9, 0, 0, 1)
    report(11, 1, 0, 2)
    report(12, 0, 0, 2)
    report(21, 0, 0, 3)
    assert capsys.readouterr().out.splitlines() == [
        "trial 1  epoch 2/9  accuracy 0.2000",
        "trial 0  epoch 3/9  accuracy 0.3000",
    ]


def test_short_trials_print_no_more_than_that_the_first_fold_begins(capsys):
    begin, report, end = watched(TaskLayout(2))
    for index in range(2):
        begin(4 * index, 0, index)
        report(4 * index + 1, 0, index, 1)
    end(9, 0)
    begin(10, 1, 0)
    begins, line = capsys.readouterr().out.splitlines()
    assert begins == "trial 0, fold 1 of 2 begins"
    assert line.startswith("1/4  trial 0")


def test_a_search_tells_its_folds_in_the_order_in_which_workers_get_them(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(TerminalProgress, "silent_seconds", 0)
    shutil.copy(TABLE, "table.csv")
    code, out, err = command(capsys, "search", *TABLE_DATA, "track=none", "study.trials=3", "strategy=random")
    assert code == 0, out + err
    lines = out.splitlines()
    begins = [line for line in lines if line.endswith("begins")]
    assert begins == [f"trial 0, fold {fold} of 3 begins" for fold in (1, 2, 3)]
    assert lines.index(begins[-1]) < next(k for k, line in enumerate(lines) if line.startswith("1/3"))
