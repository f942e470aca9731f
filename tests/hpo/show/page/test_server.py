"""The server of live pages: who may read what, what comes when something changes, and that it ends."""

import json
import os
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from html import escape

import pytest
from starlette.testclient import TestClient

from hpo.commands.show import studies
from hpo.show.lines import list_texts
from hpo.show.page import server
from hpo.show.page.server import Pages, application
from hpo.study.files.folder import IMPORT, StudyFolder
from hpo.study.files.status import Status, write_status
from hpo.study.view.logs import read_log
from tests.studies import SPACES, run_toy, toy_config

TOKEN = "secret-token"
HERE = "http://127.0.0.1:8000"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with one study, which has ended; one trial in eleven fails."""
    folder = tmp_path_factory.mktemp("runs")
    run_toy(folder / "toy", toy_config("random", SPACES["continuous"], 24))
    (folder / "toy" / "logs").mkdir()
    (folder / "toy" / "logs" / "trial_0003_fold_0.log").write_text("what it <printed>\n")
    (folder.parent / "outside").mkdir(exist_ok=True)
    shutil.copyfile(folder / "toy" / "config.yaml", folder.parent / "outside" / "config.yaml")
    return folder


@pytest.fixture
def client(runs):
    pages = Pages(None, runs)
    yield TestClient(application(pages, TOKEN), HERE)
    pages.close()


def messages(client, address):
    """Return what the events of a page say, which end by themselves where nothing more comes."""
    lines = client.get(address).text.split("\n")
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


def changed(client, address):
    return {name: part for message in messages(client, address) for name, part in message["changed"].items()}


@pytest.mark.parametrize(
    ("path", "headers", "says"),
    [
        ("/", {}, "with its token"),
        ("/another/", {}, "with its token"),
        (f"/{TOKEN}x/", {}, "with its token"),
        (f"/{TOKEN}/", {"host": "evil.example:8000"}, "Invalid host"),
        (f"/{TOKEN}/events", {"origin": "http://evil.example"}, "another site"),
        (f"/{TOKEN}/events", {"origin": "http://127.0.0.1:9999"}, "another site"),
        (f"/{TOKEN}/events", {"origin": "null"}, "another site"),
    ],
)
def test_others_are_refused(client, path, headers, says):
    answer = client.get(path, headers=headers)
    assert (answer.status_code in (400, 403), says in answer.text) == (True, True), answer.text
    assert "toy" not in answer.text


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_nothing_is_written(client, method):
    assert client.request(method, f"/{TOKEN}/").status_code == 403


@pytest.mark.parametrize("name", ["none", "..%2Foutside", "%2e%2e%2Foutside", "/etc", ""])
def test_no_name_leads_out_of_the_folder(client, name):
    answer = client.get(f"/{TOKEN}/studies/{name}/", follow_redirects=False)
    assert answer.status_code == 404, answer.text


def test_a_study_s_page_has_the_report_s_figures_and_what_a_running_one_has(client, runs):
    before = sorted(path.name for path in (runs / "toy").iterdir())
    parts = changed(client, f"/{TOKEN}/studies/toy/events")
    assert {"state", "workers", "trials", "failures", "cautions", "best-so-far", "learning-curves"} <= parts.keys()
    assert "Best score so far over" in parts["best-so-far"]["says"]
    assert parts["best-so-far"]["figure"]["data"]
    assert parts["trials"]["html"].count("<tr id='trial-") == 24
    assert "cannot be trained" in parts["failures"]["html"]
    page = client.get(f"/{TOKEN}/studies/toy/")
    assert {f"data-part='{name}'" for name in parts} <= {*page.text.replace(">", " ").split(" ")}
    # What has come already is on it, and not sent again.
    version = page.text.partition("data-version='")[2].partition("'")[0]
    assert messages(client, f"/{TOKEN}/studies/toy/events?since={version}") == [{"over": True, "changed": {}}]
    assert page.headers["referrer-policy"] == "no-referrer"
    assert sorted(path.name for path in (runs / "toy").iterdir()) == before


def test_a_log_and_a_report_are_a_click_away(client, runs):
    assert "what it <printed>" in (answer := client.get(f"/{TOKEN}/studies/toy/log/3")).text
    assert answer.headers["content-type"].startswith("text/plain")
    assert client.get(f"/{TOKEN}/studies/toy/log/4").status_code == 404
    assert client.get(f"/{TOKEN}/studies/toy/report").status_code == 404


def test_a_log_that_is_a_pipe_or_slow_to_read_holds_up_no_other_answer(runs, monkeypatch):
    pipe = runs / "toy" / "logs" / "trial_0008_fold_0.log"
    os.mkfifo(pipe)
    has_begun, may_end = threading.Event(), threading.Event()

    def read_slowly(path, most):
        has_begun.set()
        assert may_end.wait(30)
        return read_log(path, most)

    monkeypatch.setattr(server, "read_log", read_slowly)
    pages = Pages(None, runs)
    # Entered, it has one event loop for all requests.
    with TestClient(application(pages, TOKEN), HERE) as client, ThreadPoolExecutor() as pool:
        slow = pool.submit(client.get, f"/{TOKEN}/studies/toy/log/8")
        assert has_begun.wait(30)
        assert client.get(f"/{TOKEN}/studies/toy/report").status_code == 404
        assert not slow.done()
        may_end.set()
        assert "is not a regular file, and is not read" in slow.result().text
    pages.close()
    pipe.unlink()


def test_a_link_out_of_a_study_is_not_followed(client, runs):
    outside = runs.parent / "secret"
    outside.write_text("SECRET")
    link = runs / "toy" / "logs" / "trial_0009_fold_0.log"
    link.symlink_to(outside)
    answer = client.get(f"/{TOKEN}/studies/toy/log/9")
    link.unlink()
    assert (answer.status_code, "SECRET" in answer.text) == (404, False)
    (runs / "linked").symlink_to(runs.parent / "outside")
    assert client.get(f"/{TOKEN}/studies/linked/").status_code == 404
    (runs / "linked").unlink()


def test_the_page_of_one_study_has_no_other(runs):
    pages = Pages(StudyFolder(runs / "toy"), runs)
    alone = TestClient(application(pages, TOKEN), HERE)
    assert "data-part='best-so-far'" in alone.get(f"/{TOKEN}/").text
    assert alone.get(f"/{TOKEN}/studies/toy/").status_code == 404
    pages.close()


def test_all_studies_are_listed_whatever_has_become_of_them(runs, client, tmp_path):
    folder = tmp_path / "runs"
    shutil.copytree(runs / "toy", folder / "broken")
    shutil.copytree(runs / "toy", folder / "<b>")
    (folder / "broken" / "config.yaml").write_text("a: [")
    (folder / "broken" / "status.json").unlink(missing_ok=True)
    write_status(StudyFolder(folder / "<b>"), Status(name="<b>", state="running", scores={"score": 0.5}))
    (folder / "before").mkdir()
    (folder / "before" / IMPORT).write_text('{"source": "old.csv", "metric": "loss", "direction": "minimize"}')
    (folder / "before" / "trials.csv").write_text("number,state,score\n0,complete,0.5\n1,complete,0.25\n")
    text = page_of_all(folder)
    for there in ("unreadable", "interrupted", "studies/%3Cb%3E/", "&lt;b&gt;", "imported", *listed(folder)):
        assert there in text
    assert "<b>" not in text.partition("<main")[2]
    # It is no study, and has no page.
    assert "studies/before/" not in text


def test_the_page_of_all_studies_says_that_there_is_none(tmp_path):
    assert "There is no study under" in page_of_all(tmp_path)
    assert "there is no folder" in page_of_all(tmp_path / "none")


def page_of_all(folder):
    pages = Pages(None, folder)
    text = TestClient(application(pages, TOKEN), HERE).get(f"/{TOKEN}/").text
    pages.close()
    return text


def listed(folder):
    """Return what `hpo list` says of the studies, but for the size."""
    texts = [list_texts(view) | {"size": ""} for view in studies(folder).studies]
    return [escape(text) for each in texts for text in each.values()]


@pytest.mark.slow
def test_a_running_study_is_followed_until_it_ends_and_again_when_it_goes_on(runs, tmp_path):
    folder = StudyFolder(tmp_path / "toy")
    shutil.copytree(runs / "toy", folder.path)
    pages = Pages(folder, tmp_path)
    with folder.lock():
        watch = pages.watch("")
        with watch.viewed({"timeline"}):
            version, text = until(watch, False, 0, "timeline")
        assert "<td>nothing</td>" in text
        # Nobody sees it.
        assert "parallel-coordinates" not in text
        with watch.viewed():
            version, text = until(watch, False, 0, "importance")
    with watch.viewed():
        later, text = until(watch, True, version)
    assert later > version
    # What has not changed is not sent.
    assert {"state", "workers"} <= json.loads(text)["changed"].keys() <= {"state", "workers", "cautions"}
    with folder.lock(), watch.viewed():
        _, text = until(watch, False, later)
    assert "goes on with it" not in text
    pages.close()


def until(watch, is_over, version, part=None):
    """Wait until a page changes, has ended or goes on, and has a part; return its version, and what has changed."""
    end = time.monotonic() + 30
    while (now := watch.since(version))[1] != is_over or now[0] == version or (part is not None and part not in now[2]):
        assert time.monotonic() < end
        time.sleep(0.05)
    return now[0], now[2]
