"""`hpo watch`: what the search shows, in any terminal or on a page; nothing is created or changed."""

import contextlib
import io
import itertools
import re
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import yaml

from hpo.cli.main import main
from hpo.show.watching import WatchedProgress
from hpo.study.files.folder import StudyFolder
from hpo.study.files.status import RunningTask, read_status, write_running, write_status
from hpo.study.results.run import StudyRun
from hpo.study.storage.mirror import Mirror
from hpo.study.view.reader import Snapshot, StudyReader, open_reader
from tests.hpo.cli.commands import documented, hpo, printed, refused
from tests.hpo.study.test_status import contents
from tests.studies import environment, toy_config

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
    assert "\nnext:   hpo resume toy   goes on with it\n" in out


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


@pytest.mark.slow
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
