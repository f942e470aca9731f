"""`hpo show`: a study, or one of its trials, at a glance, whatever state it is in; nothing of it is changed."""

import json
import os
import shutil
import sys
import time
from pathlib import Path

import pytest

from hpo.machine import Host
from hpo.report.pages.html import render_macro
from hpo.show.details import curve_chart
from hpo.show.page.reading import PageReader
from hpo.show.page.texts import workers
from hpo.study.files.folder import StudyFolder
from hpo.study.files.lock import Holder
from hpo.study.files.status import RunningTask, write_running
from hpo.study.results.run import StudyRun
from hpo.study.view.one_trial import read_trial
from hpo.study.view.reader import StudyReader
from hpo.trials.trial import training_seed
from tests.hpo.cli.commands import documented, hpo, printed, refused, searched
from tests.hpo.commands.searched import found
from tests.hpo.study.test_status import PUBLISHED, contents
from tests.studies import rows, run_toy, toy_config

SPACE = {"lr": [0.1, 0.5, 0.9], "layers": [1, 2]}


def vars_or_text(value):
    return vars(value) if isinstance(value, Holder) else str(value)


def trains(config, trial):
    """Its second trial fails, and in its last it is looked at, and what a kill would leave is kept."""
    for epoch in range(1, 6):
        trial.report(epoch=epoch, score=config["lr"] * epoch)
    sys.stdout.write("the end is near\n")
    if trial.number == 1:
        raise RuntimeError("this point cannot be trained")
    if trial.number == 3:
        view, deadline = StudyReader(StudyFolder(Path("runs/mine")), "mine"), time.monotonic() + 20
        # It is written beside the search.
        while (
            not any((task.trial, task.point.get("epoch")) == (3, 5) for task in view.snapshot().tasks)
            and time.monotonic() < deadline
        ):
            time.sleep(0.01)
        Path("seen.json").write_text(json.dumps(view.view().to_dict(), default=vars_or_text))
        Path("trial.json").write_text(json.dumps(read_trial(view, 3).to_dict(), default=str))
        shutil.copytree("runs/mine", "runs/killed")
    return config["lr"]


@pytest.fixture(scope="module")
def mine(tmp_path_factory):
    """Return a folder with `runs/mine`, that has ended, and `runs/killed`, the same as a kill has left it."""
    folder, before = tmp_path_factory.mktemp("mine"), Path.cwd()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr("hpo.session.status_writer.StatusWriter.seconds_between", 0.01)
        config = {"lr": 0.1, "layers": 2}
        found(
            trains,
            space=SPACE,
            config=config,
            trials=4,
            name="mine",
            settings={"study.mirror": f"file://{folder}/copy"},
        )
    assert Path.cwd() == before
    return folder


@pytest.fixture
def runs(mine, monkeypatch):
    monkeypatch.chdir(mine)
    return mine / "runs"


@pytest.fixture(autouse=True)
def _width(monkeypatch):
    """Let lines be as long as they may be, whatever terminal the tests run in."""
    monkeypatch.setenv("COLUMNS", "100")


def shown(capsys, *arguments):
    """Return the lines, which fit on one screen, and leave everything as it is."""
    before = contents(".")
    code, out, err = hpo(capsys, "show", *arguments)
    assert (code, err) == (0, ""), err
    lines = out.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 100
    assert contents(".") == before
    return lines


def said(lines, what):
    """Return what is said of something."""
    place = [line.startswith(f"{what} ") for line in lines].index(True)
    more = next((n for n, line in enumerate(lines[place + 1 :]) if not line.startswith(" ")), len(lines))
    return "\n".join(line[12:] for line in lines[place : place + 1 + more])


def test_one_that_has_ended(capsys, runs):
    lines = shown(capsys, "mine")
    best = max(StudyRun.read(StudyFolder(runs / "mine")).trials, key=lambda trial: trial.score or 0)
    assert said(lines, "study") == "mine: ended"
    assert "score (maximize)" in said(lines, "searches")
    assert said(lines, "done").startswith("4 of 4 trials: 3 complete, 1 failed;")
    assert said(lines, "winner").startswith(f"trial {best.number}, score {best.score:.4f}\n")
    assert f"lr     = {best.point['lr']}" in said(lines, "winner")
    assert "trial 1: fold 0: RuntimeError" in said(lines, "failed")
    assert "runs/mine/logs/trial_0001_fold_0.log" in said(lines, "failed")
    report = json.loads((runs / "mine/report.json").read_text())
    assert said(lines, "cautions").split("\n")[0][:60] == report["cautions"][0][:60]
    assert "hpo resume mine study.trials=8" in said(lines, "next")


def test_one_that_runs(runs):
    study, trial = (json.loads(Path(name).read_text()) for name in ("seen.json", "trial.json"))
    assert study["says"].startswith("running since ")
    assert study["process"]["process"] == os.getpid()
    assert (study["done"], study["trials"]["running"], len(study["failures"])) == (3, 1, 1)
    (task,) = study["running"]
    assert (task["trial"], task["task"], task["worker"]) == (3, "fold_0", 0)
    assert (task["host"], task["process"]) == (os.uname().nodename, os.getpid())
    assert 0 <= task["seconds_silent"] <= task["seconds"]
    assert [step["command"] for step in study["next"]] == ["hpo watch mine", "hpo stop mine"]
    assert (trial["state"], trial["host"]) == ("running", os.uname().nodename)
    assert [(task["state"], task["host"]) for task in trial["tasks"]] == [("running", os.uname().nodename)]


def test_each_field_of_what_runs_and_of_a_training_is_documented(capsys, runs):
    study, trial = (json.loads(Path(name).read_text()) for name in ("seen.json", "trial.json"))
    ended, _ = printed(capsys, "show", "mine", "--trial", "0")
    assert set(study["running"][0]) == documented("A training under way")
    assert set(study["failures"][0]) == documented("A failure")
    assert set(trial["tasks"][0]) == set(ended["tasks"][0]) == documented("A training of it")


def test_a_worker_elsewhere_and_its_gpus_are_shown_with_its_number_in_the_record(capsys, runs):
    folder = StudyFolder(runs / "mine")
    site = Host("ada", 7, ["2", "3"])
    task = RunningTask(trial=9, task=0, worker=1, started=time.time(), **vars(site))
    with folder.lock():
        write_running(folder, [task])
        running = " ".join(said(shown(capsys, "mine"), "running").split())
        assert running.startswith("worker 1: trial 9,")
        assert "process 7 on ada, GPU 2, 3" in running
        (told,) = StudyReader(folder, "mine").view().running
        seen = PageReader(folder).read()
    assert (told.host, told.process, told.gpus) == tuple(vars(site).values())
    page = render_macro("live_parts.html", "workers", **workers(seen.view, seen.workers))
    assert "<td>1</td><td>trial 9," in page
    assert str(site) in page


def test_one_that_was_killed(capsys, runs):
    lines = shown(capsys, "killed")
    assert said(lines, "study") == "killed: interrupted"
    assert "2 complete, 1 failed, 1 interrupted" in said(lines, "done")
    assert not any(line.startswith("running") for line in lines)
    assert said(lines, "next").startswith("hpo resume killed")
    assert shown(capsys, "killed", "--trial", "3")[0].endswith("3 of study killed: interrupted")

    # The process may have written its last status before its last trials, which are in the record.
    path = Path("runs/killed/status.json")
    written = json.loads(path.read_text())
    path.write_text(json.dumps(written | {"done": 1, "trials": {"complete": 1, "running": 1}, "best": 0}))
    assert shown(capsys, "killed") == lines


def test_a_trial(capsys, runs):
    seen = StudyRun.read(StudyFolder(runs / "mine"))
    trial = seen.trials[0]
    lines = shown(capsys, "mine", "--trial", "0")
    assert said(lines, "trial") == f"0 of study mine: complete, score {trial.score:.4f}"
    for key, default in {"lr": 0.1, "layers": 2}.items():
        (line,) = [line for line in lines if f" {key} " in line]
        assert ("(default" in line) == (trial.point[key] != default)
    seed = training_seed(seen.config.study.seed, trial.key, 0)
    assert f"seed {seed}, process {os.getpid()} on {os.uname().nodename}" in said(lines, "fold_0")
    assert "▁▃▅▆█" in said(lines, "fold_0")
    assert "the end is near" in said(lines, "fold_0")
    failed = shown(capsys, "mine", "--trial", "1")
    assert "failed" in said(failed, "trial")
    assert "this point cannot be trained" in said(failed, "failed")
    says = refused(capsys, "show", "mine", "--trial", "9", is_silent=True)
    assert "has no trial 9; its trials are 0 to 3" in says


def test_a_long_name_or_value_leaves_the_lines_as_they_are(capsys):
    prompt = "say it " * 1000

    def train(config):
        return float(len(config["prompt"]))

    settings = {"study.repeats": 2, "split.folds": 1}
    found(train, space={"prompt": [prompt, prompt + "again"]}, trials=2, settings=settings, progress=True)
    printed_lines = capsys.readouterr().out.splitlines()
    lines = [*printed_lines, *shown(capsys, "train"), *shown(capsys, "train", "--trial", "0")]
    assert len([line for line in lines if "say it say it" in line]) >= 5
    assert max(map(len, lines)) < 200
    assert [line for line in lines if line.startswith("fold_0_repeat_0  complete")]


def test_programs_get_the_fields_that_are_documented(capsys, runs):
    study, _ = printed(capsys, "show", "mine")
    assert set(study) == documented("A study")
    trial, _ = printed(capsys, "show", "mine", "--trial", "1")
    assert set(trial) == documented("hpo show --trial")
    listed, _ = printed(capsys, "list")
    assert set(listed) == documented("hpo list")
    assert set(listed["studies"][0]) == documented("A study")
    assert Path(study["folder"]) == runs / "mine"
    assert study["best"]["scores"] == {"score": study["best"]["score"]}


def test_a_copy_at_a_url_is_shown_as_of_then(capsys, runs):
    url = f"file://{runs.parent}/copy"
    here, there = shown(capsys, "mine"), shown(capsys, url)
    assert said(there, "study").startswith("mine: ")
    assert "from its copy of 20" in said(there, "study")
    assert said(there, "winner") == said(here, "winner")
    assert "hpo resume file://" in said(there, "next")
    copy, _ = printed(capsys, "show", url)
    assert (copy["study"], copy["folder"], copy["budget"]) == ("mine", None, 4)
    assert said(shown(capsys, url, "--trial", "0"), "fold_0")
    assert "no copy of a study" in refused(capsys, "show", f"{url}/nowhere", is_silent=True)


def test_one_that_was_published(capsys):
    lines = shown(capsys, str(PUBLISHED))
    assert "accuracy 0.9500," in said(lines, "test")
    assert "hpo reproduce" in said(lines, "next")
    assert "fold_2" in "".join(shown(capsys, str(PUBLISHED), "--trial", "14"))


def test_one_that_is_damaged_says_so(capsys, tmp_path):
    folder = tmp_path / "runs/clock"
    run_toy(folder, toy_config(trials=2))
    (folder / "status.json").write_text("{")
    assert not any(line.startswith("searches") for line in shown(capsys, "clock")), "half a line says nothing"
    (folder / "status.json").unlink()
    (folder / "study.db").write_bytes((folder / "study.db").read_bytes()[:3000])
    lines = shown(capsys, "clock")
    assert "study.db cannot be read" in said(lines, "fault")
    assert "hpo resume clock" in said(lines, "next")
    (folder / "config.yaml").write_text("a: 1")
    lines = shown(capsys, "clock")
    assert said(lines, "study").startswith("clock: unreadable: ")
    assert not any("hpo resume" in line for line in lines), "without its configuration nothing goes on"
    assert "there is no 'nothing'" in refused(capsys, "show", "nothing", is_silent=True)


def test_where_no_trial_keeps_the_limits_the_nearest_is_named(capsys):
    settings = {"study.limits": {"score": 0.9}}
    found(lambda config: config["lr"], space={"lr": [0.1, 0.3, 0.5, 0.7]}, name="beyond", trials=3, settings=settings)
    lines = shown(capsys, "beyond")
    nearest = min(StudyRun.read(StudyFolder(Path("runs/beyond"))).trials, key=lambda trial: trial.excess)
    assert f"none: no trial keeps the limits (score >= 0.9); the nearest is trial {nearest.number}" in said(
        lines, "best"
    )
    assert "hpo resume beyond study.trials=6" in said(lines, "next")
    (row,) = [line for line in hpo(capsys, "list")[1].splitlines() if line.startswith("beyond ")]
    assert " no winner " in row


def test_where_nothing_was_trained_at_the_target_there_is_no_winner_to_show_or_to_test(capsys):
    scales = {"scales": [{"width": 1}, {"width": 2}], "config": {"width": 1}, "settings": {"strategy.costs": [1, 2]}}
    found(lambda config: config["lr"], space={"lr": (0.1, 0.9)}, strategy="ladder", trials=3, name="low", **scales)
    there = json.loads(hpo(capsys, "show", "low", "--json")[1])
    assert (there["best"], there["why_none"].partition(",")[0]) == (None, "no trial is complete at the target")
    assert not any("hpo test" in each["command"] for each in there["next"])


@pytest.mark.parametrize("trials", [3, 5])
def test_where_all_was_tried_no_larger_budget_is_named(capsys, trials):
    found(lambda config: config["lr"], space={"lr": [0.1, 0.3, 0.7]}, name="all", trials=trials)
    assert "study.trials" not in said(shown(capsys, "all"), "next")


@pytest.mark.parametrize("length", [2, 3, 39, 40, 41, 1000])
def test_a_chart_rises_and_falls_as_its_curve(length):
    rising = curve_chart([place * 1.0 for place in range(length)], columns=40)
    assert list(rising) == sorted(rising)
    assert len(rising) <= 40
    assert rising[0] != rising[-1]
    assert curve_chart([-place * 1.0 for place in range(length)], columns=40) == rising[::-1]
    assert len(set(curve_chart([1.0] * length))) == 1


def test_an_added_point_that_waits_is_counted_and_the_command_that_is_named_tries_it(capsys):
    """Also where the budget counts configurations, and a search goes on without using any of it."""
    searched(capsys, toy_config("asha", trials=3, objective="tests.toy:continued"))
    first, second = ({"toy.layers": 5, "toy.width": 64, "toy.lr": lr} for lr in (0.1, 0.01))
    for point in (first, second):
        assert hpo(capsys, "add", "toy", *(f"{key}={value}" for key, value in point.items()))[0] == 0
    assert json.loads(hpo(capsys, "show", "toy", "--json")[1])["untried"] == 2
    command = said(shown(capsys, "toy"), "next").partition("   ")[0]
    out = hpo(capsys, "resume", "toy")[1]
    assert "2 added points not tried yet" in out
    assert f"next:   {command} " in out
    assert hpo(capsys, *command.split()[1:])[0] == 0
    tried = [row for row in rows(Path("runs/toy/trials.csv")) if (row["toy.layers"], row["toy.width"]) == ("5", "64")]
    assert {float(row["toy.lr"]) for row in tried} >= {0.1, 0.01}
    assert json.loads(hpo(capsys, "show", "toy", "--json")[1])["untried"] == 0
