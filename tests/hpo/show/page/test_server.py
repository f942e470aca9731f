"""The server of live pages: who may read what, what is sent when something changes, and that it ends."""

import json
import os
import shutil
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from html import escape

import pytest
from starlette.testclient import TestClient

from hpo.commands.show import studies
from hpo.errors import TrackError
from hpo.show.lines import list_texts
from hpo.show.page import server
from hpo.show.page.server import Pages, PageServer, application
from hpo.study.files.folder import IMPORT, StudyFolder
from hpo.study.files.status import Status, write_status
from hpo.study.view.logs import read_log
from tests.studies import SPACES, run_toy, toy_config

TOKEN = "secret-token"
HERE = "http://127.0.0.1:8000"
STUDY = f"/{TOKEN}/studies/toy"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Return a folder with one study, which has ended; one trial in eleven fails."""
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


@pytest.mark.parametrize(("path", "headers", "says"), [
    ("/", {}, "with its token"),
    (f"/{TOKEN}x/", {}, "with its token"),
    (f"/{TOKEN}/", {"host": "evil.example:8000"}, "Invalid host"),
    (f"/{TOKEN}/events", {"origin": "http://evil.example"}, "another site"),
    (f"/{TOKEN}/events", {"origin": "null"}, "another site"),
])  # fmt: skip
def test_requests_of_others_are_refused(client, path, headers, says):
    answer = client.get(path, headers=headers)
    assert (answer.status_code in (400, 403), says in answer.text) == (True, True), answer.text
    assert "toy" not in answer.text


def test_nothing_is_written_and_no_name_or_link_leads_out_of_the_folder(client, runs):
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert client.request(method, f"/{TOKEN}/").status_code == 403
    secret, log = runs.parent / "secret", runs / "toy" / "logs" / "trial_0009_fold_0.log"
    secret.write_text("SECRET")
    log.symlink_to(secret)
    (runs / "linked").symlink_to(runs.parent / "outside")
    for name in ("none", "..%2Foutside", "%2e%2e%2Foutside", "/etc", "", "linked"):
        assert client.get(f"/{TOKEN}/studies/{name}/", follow_redirects=False).status_code == 404
    answer = client.get(f"{STUDY}/log/9")
    assert (answer.status_code, "SECRET" in answer.text) == (404, False)
    log.unlink()
    (runs / "linked").unlink()


def events(client, address):
    lines = client.get(address).text.split("\n")
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


@pytest.mark.slow
def test_a_study_s_page_has_the_report_s_figures_and_logs_and_is_sent_once(client, runs):
    before = sorted(path.name for path in (runs / "toy").iterdir())
    parts = {name: part for event in events(client, f"{STUDY}/events") for name, part in event["changed"].items()}
    assert {"state", "workers", "trials", "failures", "cautions", "best-so-far", "learning-curves"} <= parts.keys()
    assert parts["best-so-far"]["figure"]["data"]
    assert parts["trials"]["html"].count("<tr id='trial-") == 24
    assert "cannot be trained" in parts["failures"]["html"]
    page = client.get(f"{STUDY}/")
    assert {f"data-part='{name}'" for name in parts} <= {*page.text.replace(">", " ").split(" ")}
    version = page.text.partition("data-version='")[2].partition("'")[0]
    assert events(client, f"{STUDY}/events?since={version}") == [{"over": True, "changed": {}}]
    log = client.get(f"{STUDY}/log/3")
    assert ("what it <printed>" in log.text, log.headers["content-type"][:10]) == (True, "text/plain")
    assert [client.get(f"{STUDY}/{missing}").status_code for missing in ("log/4", "report")] == [404, 404]
    assert sorted(path.name for path in (runs / "toy").iterdir()) == before


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
        slow = pool.submit(client.get, f"{STUDY}/log/8")
        assert has_begun.wait(30)
        assert client.get(f"{STUDY}/report").status_code == 404
        assert not slow.done()
        may_end.set()
        assert "is not a regular file, and is not read" in slow.result().text
    pages.close()
    pipe.unlink()


@pytest.mark.slow
def test_a_figure_that_nobody_sees_is_not_drawn_and_a_study_that_goes_on_is_followed_again(runs):
    folder = StudyFolder(runs / "toy")
    pages, end, version = Pages(folder, runs), time.monotonic() + 30, 0

    def follow(is_over, part="state"):
        nonlocal version
        while (now := watch.since(version))[1] != is_over or now[0] == version or part not in now[2]:
            assert time.monotonic() < end
            time.sleep(0.05)
        version = now[0]
        return json.loads(now[2])["changed"]

    with folder.lock():
        watch = pages.watch("")
        with watch.viewed({"timeline"}):
            assert "parallel-coordinates" not in follow(False, "timeline")
    with watch.viewed():
        assert {"state", "workers"} <= follow(True).keys()
    with folder.lock(), watch.viewed():
        assert "continues the study" not in follow(False)["state"]["html"]
    pages.close()


def test_a_taken_port_is_refused(runs):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(TrackError, match=rf"^--port: cannot listen on 127.0.0.1:{port}: .*; choose another port"):
            PageServer(None, runs, port)


def page_of(*given):
    pages = Pages(*given)
    client = TestClient(application(pages, TOKEN), HERE)
    text, of_toy = client.get(f"/{TOKEN}/").text, client.get(f"{STUDY}/").status_code
    pages.close()
    return text, of_toy


def test_the_page_of_one_study_has_no_other(runs):
    text, of_toy = page_of(StudyFolder(runs / "toy"), runs)
    assert ("data-part='best-so-far'" in text, of_toy) == (True, 404)


def test_all_studies_are_listed_whatever_their_state(runs, tmp_path):
    folder = tmp_path / "runs"
    for name in ("broken", "<b>"):
        shutil.copytree(runs / "toy", folder / name)
    (folder / "broken" / "config.yaml").write_text("a: [")
    write_status(StudyFolder(folder / "<b>"), Status(name="<b>", state="running", scores={"score": 0.5}))
    (folder / "before").mkdir()
    (folder / "before" / IMPORT).write_text('{"source": "old.csv", "metric": "loss", "direction": "minimize"}')
    (folder / "before" / "trials.csv").write_text("number,state,score\n0,complete,0.5\n1,complete,0.25\n")
    text, _ = page_of(None, folder)
    listed = [value for view in studies(folder).studies for value in (list_texts(view) | {"size": ""}).values()]
    for there in ("unreadable", "interrupted", "studies/%3Cb%3E/", "imported", *map(escape, listed)):
        assert there in text
    assert "<b>" not in text.partition("<main")[2]
    # It is no study, and has no page.
    assert "studies/before/" not in text
    assert "there is no folder" in page_of(None, tmp_path / "none")[0]
