"""`hpo show`, `hpo watch` and the progress of a search: any state, in any terminal or on a page; nothing changes."""

import contextlib
import io
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from html import unescape
from pathlib import Path

import pytest
import yaml

import hpo as toolkit
from hpo.machine import Host
from hpo.report.pages.html import render_macro
from hpo.show.details import curve_chart
from hpo.show.page.reading import PageReader
from hpo.show.page.texts import state, workers
from hpo.show.watching import WatchedProgress
from hpo.study.files.status import RunningTask, read_running, read_status, write_running, write_status
from hpo.study.storage.mirror import Mirror
from hpo.study.view.one_trial import read_trial
from hpo.study.view.reader import Snapshot, StudyReader, open_reader
from hpo.trials.trial import training_seed
from tests.hpo.cli.commands import documented, hpo, main, printed, refused
from tests.hpo.commands.searched import found
from tests.hpo.study.test_status import contents, read_everything
from tests.studies import StudyFolder, StudyRun, environment, toy_config

SPACE = {"lr": [0.1, 0.5, 0.9], "layers": [1, 2]}


def trains(config, trial):
    """Fail in trial 1; in trial 3 write down what a reader sees of the running search, and copy what a kill leaves."""
    for epoch in range(1, 6):
        trial.report(epoch=epoch, score=config["lr"] * epoch)
    sys.stdout.write("the end is near\n")
    if trial.number == 1:
        raise RuntimeError("this point cannot be trained")
    if trial.number == 3:
        folder, deadline = StudyFolder(Path("runs/mine")), time.monotonic() + 20
        while not any((task.trial, task.point.get("epoch")) == (3, 5) for task in read_running(folder)):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        time.sleep(0.2)
        reader = StudyReader(folder, "mine")
        seen = {"study": reader.view().to_dict(), "trial": read_trial(reader, 3).to_dict()}
        Path("seen.json").write_text(json.dumps(seen, default=str))
        shutil.copytree("runs/mine", "runs/killed")
    return config["lr"]


@pytest.fixture(scope="module")
def mine(tmp_path_factory):
    """Return a folder with `runs/mine`, a study that has ended, and `runs/killed`, the same as a kill leaves it."""
    folder = tmp_path_factory.mktemp("mine")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr("hpo.session.status_writer.StatusWriter.seconds_between", 0.01)
        given = {"config": {"lr": 0.1, "layers": 2}, "settings": {"study.mirror": f"file://{folder}/copy"}}
        found(trains, space=SPACE, trials=4, name="mine", **given)
    return folder


@pytest.fixture
def runs(mine, monkeypatch):
    monkeypatch.chdir(mine)
    return mine / "runs"


@pytest.fixture(autouse=True)
def _width(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")


def shown(capsys, *arguments):
    """Return the lines, which fit on one screen; nothing changes."""
    before = contents(".")
    code, out, err = hpo(capsys, "show", *arguments)
    assert (code, err) == (0, ""), err
    lines = out.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 100
    assert contents(".") == before
    return lines


def said(lines, name):
    place = [line.startswith(f"{name} ") for line in lines].index(True)
    more = next((n for n, line in enumerate(lines[place + 1 :]) if not line.startswith(" ")), len(lines))
    return "\n".join(line[12:] for line in lines[place : place + 1 + more])


def has(lines, **parts):
    return {name: part for name, part in parts.items() if part not in said(lines, name)} == {}


def test_one_that_has_ended(capsys, runs):
    lines = shown(capsys, "mine")
    best = max(StudyRun.read(StudyFolder(runs / "mine")).trials, key=lambda trial: trial.score or 0)
    assert has(lines, study="mine: ended", searches="score (maximize)", done="4 of 4 trials: 3 complete, 1 failed;")
    assert has(lines, winner=f"trial {best.number}, score {best.score:.4f}\n")
    assert has(lines, winner=f"lr     = {best.point['lr']}", failed="runs/mine/logs/trial_0001_fold_0.log")
    assert has(lines, failed="trial 1: fold 0: RuntimeError", next="hpo resume mine study.trials=8")
    caution = json.loads((runs / "mine/report.json").read_text())["cautions"][0]
    assert said(lines, "cautions").split("\n")[0][:60] == caution[:60]


def test_one_that_runs(runs):
    seen, host = json.loads(Path("seen.json").read_text()), os.uname().nodename
    study, trial = seen["study"], seen["trial"]
    (task,) = study["running"]
    assert (study["says"].startswith("running since "), study["process"]["process"]) == (True, os.getpid())
    assert (study["done"], study["trials"]["running"], len(study["failures"])) == (3, 1, 1)
    assert (task["trial"], task["task"], task["worker"], task["host"]) == (3, "fold_0", 0, host)
    assert 0 <= task["seconds_silent"] <= task["seconds"]
    assert [step["command"] for step in study["next"]] == ["hpo watch mine", "hpo stop mine"]
    assert [(each["state"], each["host"]) for each in (trial, *trial["tasks"])] == [("running", host)] * 2


def test_a_worker_elsewhere_and_its_gpus_are_shown_with_its_number_in_the_record(capsys, runs):
    folder, host = StudyFolder(runs / "mine"), Host("ada", 7, ["2", "3"])
    with folder.lock():
        write_running(folder, [RunningTask(trial=9, task=0, worker=1, started=time.time(), **vars(host))])
        running = " ".join(said(shown(capsys, "mine"), "running").split())
        assert running.startswith("worker 1: trial 9,")
        assert "process 7 on ada, GPU 2, 3" in running
        reading = PageReader(folder).read()
    assert str(host) in render_macro("live_parts.html", "workers", **workers(reading.view, reading.workers))


def test_of_one_that_was_killed_every_reader_reads_the_record(capsys, runs):
    lines, folder = shown(capsys, "killed"), StudyFolder(runs / "killed")
    assert said(lines, "study") == "killed: interrupted"
    assert has(lines, done="2 complete, 1 failed, 1 interrupted", next="hpo resume killed")
    assert not any(line.startswith("running") for line in lines)
    assert shown(capsys, "killed", "--trial", "3")[0].endswith("3 of study killed: interrupted")
    # The number of a dead process may be that of another one, such as this one.
    assert (folder.path / "driver.lock").read_text().startswith(f"process {os.getpid()} ")
    assert [trial.state for trial in read_everything(folder.path)[1]] == ["complete", "failed", "complete", "running"]
    # The last status of a killed process may be seconds old.
    path = folder.path / "status.json"
    old = {"done": 1, "trials": {"complete": 1, "running": 1}, "best": 0, "texts": {"score": "old"}}
    path.write_text(json.dumps(json.loads(path.read_text()) | old))
    assert shown(capsys, "killed") == lines
    (listed,) = printed(capsys, "list", "--where", "name=killed")[0]["studies"]
    assert (listed["state"], listed["done"]) == ("interrupted", 3)
    for view in (PageReader(folder).read().snapshot.status, StudyReader(folder, "killed").snapshot().status):
        assert (view.state, view.done, view.score) == ("interrupted", 3, listed["best"]["score"])


def test_a_trial(capsys, runs):
    run = StudyRun.read(StudyFolder(runs / "mine"))
    trial, lines = run.trials[0], shown(capsys, "mine", "--trial", "0")
    assert said(lines, "trial") == f"0 of study mine: complete, score {trial.score:.4f}"
    seed = training_seed(run.config.study.seed, trial.key, 0)
    for part in (f"seed {seed}, process {os.getpid()} on {os.uname().nodename}", "▁▃▅▆█", "the end is near"):
        assert has(lines, fold_0=part)
    assert has(shown(capsys, "mine", "--trial", "1"), trial="failed", failed="this point cannot be trained")
    assert "trial 9; the study has the trials 0 to 3" in refused(capsys, "show", "mine", "--trial", "9", is_silent=True)


def test_a_chart_rises_and_falls_as_its_curve():
    for length in (2, 39, 41, 1000):
        rising = curve_chart([*range(length)], columns=40)
        assert (list(rising), len(rising) <= 40, rising[0] != rising[-1]) == (sorted(rising), True, True)
        assert curve_chart([-place for place in range(length)], columns=40) == rising[::-1]
        assert len(set(curve_chart([1.0] * length))) == 1


def test_programs_get_the_fields_that_are_documented(capsys, runs):
    commands = (["show", "mine"], ["show", "mine", "--trial", "1"], ["list"])
    study, trial, listed = (printed(capsys, *words)[0] for words in commands)
    running = json.loads(Path("seen.json").read_text())
    assert set(study) == set(listed["studies"][0]) == documented("A study")
    assert set(trial) == documented("hpo show --trial")
    assert set(trial["tasks"][0]) == set(running["trial"]["tasks"][0]) == documented("A training of it")
    assert set(listed) == documented("hpo list")
    assert set(running["study"]["running"][0]) == documented("A training under way")
    assert set(study["failures"][0]) == documented("A failure")


def test_a_copy_at_a_url_is_shown_as_of_its_time(capsys, runs):
    url = f"file://{runs.parent}/copy"
    here, there = shown(capsys, "mine"), shown(capsys, url)
    assert has(there, study="as copied to the mirror at 20", winner=said(here, "winner"), next="hpo resume file://")
    assert said(shown(capsys, url, "--trial", "0"), "fold_0")
    assert "no copy of a study" in refused(capsys, "show", f"{url}/nowhere", is_silent=True)


def close(config):
    return 0.912347 + config["x"] / 1e6


def failing(config):
    raise RuntimeError(f"no luck with {config['x']}")


def two(config):
    return {"score": close(config), "size": float(config["x"] + 1)}


def seeded(config, trial):
    return config["x"] / 100 + trial.seed % 97 / 1000


CASES = {
    "close": (close, {"trials": 8}, "0.912352"),
    "failing": (failing, {}, "every trial failed, the first with: fold 0: RuntimeError"),
    "limits": (close, {"limits": {"score": 0.95}}, "no trial keeps the limits (score >= 0.95); the nearest is trial"),
    "two": (two, {"metric": {"score": "maximize", "size": "minimize"}, "direction": None}, "the knee of the front"),
    "finalists": (seeded, {"settings": {"study.finalists": 2}}, "on fresh seeds ("),
}


@pytest.mark.parametrize("case", CASES)
def test_every_place_says_the_same(case, capsys):
    function, given, part = CASES[case]
    study = found(function, **({"space": {"x": [*range(6)]}, "trials": 6, "name": case, "progress": True} | given))
    ended = " ".join(capsys.readouterr().out.split())
    view, folder = study.status, StudyFolder(Path("runs", case))
    says = f"{view.best.values}" if view.best else view.why_none
    assert part in (says if case != "two" else f"{says}: {view.why_chosen}")
    lines = shown(capsys, case)
    watched, loaded = hpo(capsys, "watch", case)[1], toolkit.load(case)
    for text in (ended, "\n".join(lines), watched, str(loaded), loaded._repr_html_()):
        assert says in unescape(" ".join(text.split()))
    page = render_macro("live_parts.html", "state", **state(PageReader(folder).read().view))
    # It has the interval in small letters behind it.
    for part in [view.best.headline, view.best.headline_note] if view.best else [says]:
        assert part in unescape(" ".join(page.split()))
    report = (folder.path / "report.md").read_text().replace("**", "")
    assert (view.best.values_with_spread if view.best else says) in report
    (listed,) = printed(capsys, "list", "--where", f"name={case}")[0]["studies"]
    programs, _ = printed(capsys, "show", case)
    for values in (listed, programs):
        assert values["best"] is None if view.best is None else values["best"]["texts"] == view.best.texts
    assert programs["why_none"] == view.why_none
    assert "study.trials" not in said(lines, "next"), "no point is left for a larger budget"


TRIALS = 5
LINE = re.compile(r"^( *\d+/\d+  trial .*? s)(?:  \(.* left\))?$", re.MULTILINE)


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    """Return a folder with a finished study, and the lines of its trials, as the search prints them."""
    folder, out = tmp_path_factory.mktemp("watched"), io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(out):
        Path("toy.yaml").write_text(yaml.safe_dump(toy_config("evolutionary", trials=TRIALS)))
        assert main(["search", "--config", "toy.yaml"]) == 0
    return folder, LINE.findall(out.getvalue())


@pytest.fixture
def lines(watched):
    shutil.copytree(watched[0] / "runs", "runs")
    return watched[1]


def test_its_lines_are_those_of_the_search(capsys, lines):
    study = StudyRun.read(StudyFolder(Path("runs/toy")))
    status = read_status(study.folder)
    task = RunningTask(trial=9, task=-1, worker=0, started=0.0, point={"epoch": 3, "epochs": 9, "score": 0.5})
    with WatchedProgress(study, status) as progress:
        for _ in range(2):
            progress.show(Snapshot(status, [task]), study)
    assert (len(lines), LINE.findall(capsys.readouterr().out)) == (TRIALS, lines)


def test_how_a_study_that_does_not_run_ended_is_said_at_once(capsys, lines):
    before, folder = contents("."), StudyFolder(Path("runs/toy"))
    code, out, err = hpo(capsys, "watch", "toy")
    assert (code, err) == (0, "")
    winner = folder.report()["winner"]
    assert f"winner: trial {winner['number']}, score {winner['score']:.4f}\n" in out
    assert out.startswith(f"study toy: ended\n{TRIALS} of {TRIALS} trials, ")
    assert (set(printed(capsys, "watch", "toy")[0]), contents(".")) == (documented("A study"), before)
    write_status(folder, read_status(folder).model_copy(update={"state": "running"}))
    code, out, _ = hpo(capsys, "watch", "toy")
    assert (code, out.splitlines()[0]) == (1, "study toy: interrupted")
    assert "\nnext:   hpo resume toy   continues the study\n" in out


def test_a_mirror_is_followed_to_the_end_of_the_search(capsys, monkeypatch, lines):
    folder, url = StudyFolder(Path("runs/toy")), f"file://{Path.cwd()}/there"
    ended = read_status(folder)
    mirror = Mirror(url, folder, "toy", ended.study_id)
    write_status(folder, ended.model_copy(update={"state": "running", "done": 3}))
    write_running(folder, [RunningTask(trial=3, task=0, worker=0, started=1.0, point={"epoch": 1})])
    mirror.copy()
    monkeypatch.setattr("hpo.study.view.reader.MirrorReader.seconds", 0.0)
    with open_reader(url) as reader:
        scratch, snapshots = reader.folder.path, reader.follow()
        first = next(snapshots)
        assert (first.status.state, [task.trial for task in first.tasks], first.fault) == ("running", [3], None)
        Path("there").rename("away")
        assert "no copy of a study" in next(snapshots).fault
        Path("away").rename("there")
        assert next(snapshots).fault is None
        write_status(folder, ended)
        mirror.copy()
        *_, last = itertools.islice(snapshots, 5)
        assert (last.status.state, last.tasks, last.status.scores) == ("ended", [], ended.scores)
    assert not scratch.exists()
    before = contents(".")
    code, out, _ = hpo(capsys, "watch", url)
    assert (code, out.splitlines()[0], contents(".")) == (0, "study toy: ended", before)
    assert "must be a study's name or folder, given the URL" in refused(capsys, "stop", url, is_silent=True)


def test_a_study_that_is_trained_elsewhere_is_followed_between_two_reports(monkeypatch, lines):
    monkeypatch.setattr(StudyReader, "seconds", 0.0)
    folder = StudyFolder(Path("runs/toy"))
    ended, snapshots = read_status(folder), StudyReader(folder, "toy").follow()
    write_status(folder, ended.model_copy(update={"state": "running", "phase": "ask-and-tell"}))
    assert next(snapshots).status.state == "open"
    write_status(folder, ended)
    assert [snapshot.status.state for snapshot in snapshots] == ["ended"]


@pytest.mark.nightly
def test_a_running_search_is_followed_by_another_process():
    code = "import time\n\ndef run(task):\n    time.sleep(0.2)\n    yield {'epoch': 1, 'score': 0.5}\n    return 1.0\n"
    Path("sleeps.py").write_text(code)
    Path("toy.yaml").write_text(yaml.safe_dump(toy_config(objective="sleeps:run", trials=12)))
    command = [sys.executable, "-m", "hpo"]
    options = {"env": environment(), "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([*command, "search", "--config", "toy.yaml"], **options) as search:
        while StudyReader(StudyFolder(Path("runs/toy")), "toy").snapshot().status.state != "running":
            assert search.poll() is None
        with subprocess.Popen([*command, "watch", "toy"], **options) as watch:
            shown, _ = search.communicate(timeout=120)
            seen, err = watch.communicate(timeout=120)
    assert (search.returncode, watch.returncode, err) == (0, 0, "")
    assert re.match(r"(study toy: starting since .*\n)?study toy: running since ", seen)
    followed = LINE.findall(seen)
    assert followed
    assert followed == LINE.findall(shown)[-len(followed) :]
    assert "study toy: ended" in seen


@pytest.mark.slow
def test_its_page_answers_requests_with_its_token_until_it_is_interrupted(tmp_path):
    command = [sys.executable, "-m", "hpo", "watch", "--page", "--no-browser"]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True) as server:
        address = server.stdout.readline().strip()
        with urllib.request.urlopen(address, timeout=30) as answer:
            assert b"There is no study under" in answer.read()
        with pytest.raises(urllib.error.HTTPError, match="403") as refusal:
            urllib.request.urlopen(address.rsplit("/", 2)[0] + "/", timeout=30)
        refusal.value.close()
        server.send_signal(signal.SIGINT)
        assert server.wait(timeout=30) == 0
    assert list(tmp_path.iterdir()) == []
