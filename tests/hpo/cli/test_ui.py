"""`hpo ui`: it opens the page of what was named, and lets in nobody else."""

import contextlib
import os
import re
import socket
import subprocess
import sys
import time
from base64 import b64encode
from dataclasses import replace
from types import SimpleNamespace
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import psutil
import pytest
from mlflow import MlflowClient

import hpo as toolkit
from hpo.track.servers import guarded, running
from tests.faults.driver import start, wait_for_line
from tests.faults.mlflow_server import free_port
from tests.hpo.cli.commands import hpo, prints, refused
from tests.studies import StudyFolder, toy_config
from tests.tracked import new_store, run, tracked_study

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.fixture(autouse=True)
def served(monkeypatch):
    """Return the command and the environment of the server that would be started, whose page answers at once."""
    seen = SimpleNamespace(command=None, environment=None, code=None)

    @contextlib.contextmanager
    def running(command, environment, _host, _port):
        seen.command, seen.environment = command, environment
        yield SimpleNamespace(poll=lambda: seen.code, wait=lambda: 0)

    monkeypatch.setattr("hpo.track.servers.running", running)
    return seen


@pytest.fixture
def store(tmp_path):
    return new_store(tmp_path)


@pytest.mark.parametrize(("arguments", "words"), [
    (("--host", "0.0.0.0"), ("other machines", "delete", "without a password", "--expose")),
    (("--expose",), ("--expose", "no effect", "leave it out")), (("--optuna",), ("--optuna", "--study")),
    (("--optuna", "--study", "x", "--password"), ("--password", "no effect")),
    (("--optuna", "--study", "x", "--uri", "sqlite:///a.db"), ("--uri", "no effect")),
    (("--study", "nothing"), ("study", "no 'nothing'")), (("--uri", "http://a:9", "--port", "9"), ("--port: has no",)),
    (("made",), ("--study: 'made' has no MLflow store, because the study has track=none", "by --uri")),
    (("--uri", "sqlite:///none.db"), ("no runs yet", "hpo search")),
])  # fmt: skip
def test_bad_input_is_refused_in_one_line(capsys, store, study, arguments, words):
    message = refused(capsys, "ui", *arguments, is_silent=True)
    assert all(word in message for word in words), message


def test_a_taken_port_is_refused_but_where_the_store_is_served_its_addresses_are_printed(capsys, store, served):
    listens = "server = socket.create_server(('127.0.0.1', 0)); print(server.getsockname()[1], flush=True)"
    command = [sys.executable, "-c", f"import socket, time; {listens}; time.sleep(60)"]
    environ = os.environ | {"MLFLOW_BACKEND_STORE_URI": store}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ) as other:
        port = other.stdout.readline().strip()
        assert "give another --port" in refused(capsys, "ui", "--port", port, is_silent=True)
        code, out, err = hpo(capsys, "ui", "--uri", store, "--port", port, "--no-browser")
        assert (code, served.command, f"http://127.0.0.1:{port}/" in out) == (0, None, True)
        assert f"process {other.pid} serves this store already" in err
        other.kill()


def test_a_server_that_ends_at_once_is_said(capsys, store, served):
    served.code = 3
    code, _, err = hpo(capsys, "ui", "--no-browser", "--port", "5123")
    assert (code, "error: ui: MLflow's server ended with exit code 3; see its output above\n" in err) == (2, True)


def test_the_server_listens_on_loopback_and_answers_to_its_own_names_alone(capsys, store, served, monkeypatch):
    monkeypatch.setenv("MLFLOW_SERVER_DISABLE_SECURITY_MIDDLEWARE", "true")
    monkeypatch.setenv("MLFLOW_SERVER_ALLOWED_HOSTS", "*")
    code, _, err = hpo(capsys, "ui", "--port", "5123", "--no-browser")
    assert (code, served.command[served.command.index("--host") + 1]) == (0, "127.0.0.1")
    hosts = set(served.environment["MLFLOW_SERVER_ALLOWED_HOSTS"].split(","))
    assert hosts == {f"{name}{port}" for name in ("127.0.0.1", "localhost", "[::1]") for port in ("", ":5123")}
    assert "MLFLOW_SERVER_DISABLE_SECURITY_MIDDLEWARE" not in served.environment
    assert err.startswith("note: other users of this machine can reach port 5123")


def test_an_exposed_server_warns_and_answers_to_its_addresses_alone(capsys, store, served):
    code, _, err = hpo(capsys, "ui", "--host", "0.0.0.0", "--expose", "--port", "5123", "--no-browser")
    assert (code, err.startswith("warning: exposed on 0.0.0.0"), "without a password" in err) == (0, True, True)
    hosts = served.environment["MLFLOW_SERVER_ALLOWED_HOSTS"].split(",")
    assert ("*" in hosts, socket.gethostname() in hosts) == (False, True)


def test_a_store_s_password_is_no_argument(capsys, served):
    code, out, err = hpo(capsys, "ui", "--uri", "postgresql://user:secret-word@127.0.0.1/runs", "--no-browser")
    assert code == 0
    assert "secret-word" not in str(served.command) + out + err
    assert served.environment["MLFLOW_BACKEND_STORE_URI"].endswith("@127.0.0.1/runs")


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    folder = tmp_path_factory.mktemp("two")
    new_store(folder)
    with contextlib.chdir(folder):
        for name, trials in (("one", 2), ("other", 1)):
            study = tracked_study(folder, study=toy_config(trials=trials)["study"] | {"name": name})
            run(replace(study, folder=StudyFolder(folder / "runs" / name)))
    return folder


@pytest.mark.nightly
def test_studies_are_opened_in_their_experiment_alone_or_side_by_side(capsys, two, served, monkeypatch, tmp_path):
    monkeypatch.chdir(two)
    client = MlflowClient(f"sqlite:///{two}/mlflow.db")
    experiment = client.get_experiment_by_name("tests")
    runs = f"http://127.0.0.1:5000/#/experiments/{experiment.experiment_id}/runs"

    def pages(*arguments):
        out = prints(capsys, "ui", *arguments, "--no-browser")
        return {what.rstrip(": "): f"http{rest}" for what, _, rest in (x.rpartition("http") for x in out.splitlines())}

    assert pages()[""] == f"{runs}?workflowType=machine_learning&viewStateShareKey=hpo-studies"
    (parent,) = client.search_runs([experiment.experiment_id], "tags.`mlflow.runName` = 'one'")
    alone = pages("one")
    assert alone[""].endswith(f"&viewStateShareKey={parent.data.tags['hpo.study_id']}")
    assert alone["its run"] == f"{runs}/{parent.info.run_id}?workflowType=machine_learning"
    assert served.environment["MLFLOW_BACKEND_STORE_URI"] == f"sqlite:///{two}/mlflow.db"
    assert list(pages("one", "other")) == ["", "charts", "studies", "their charts"]
    elsewhere = new_store(tmp_path)
    message = refused(capsys, "ui", "--study", "one", "--uri", elsewhere, is_silent=True)
    assert ("hpo sync" in message, f"track.uri={elsewhere}" in message) == (True, True)
    config = two / "runs/other/config.yaml"
    toolkit.load("other").sync(elsewhere)
    config.write_text(re.sub("uri: .*mlflow.db", f"uri: {elsewhere}", config.read_text()))
    message = refused(capsys, "ui", "one", "other", is_silent=True)
    assert "all studies must be in one MLflow store, given 'one' in sqlite:///" in message
    monkeypatch.setitem(sys.modules, "optuna_dashboard", None)
    message = refused(capsys, "ui", "--study", "one", "--optuna", is_silent=True)
    assert "pip install 'hpo-transformer[dashboard]'" in message


def test_where_the_runs_are_on_a_server_its_own_pages_are_printed_and_none_is_started(capsys, served):
    said = hpo(capsys, "ui", "--uri", "http://127.0.0.1:9", "--no-browser")
    assert said == (0, "http://127.0.0.1:9/#/experiments?workflowType=machine_learning\n", "")
    assert served.command is None


def test_the_dashboard_is_for_reading_under_its_own_name():
    application = guarded(lambda _environ, start: start("200 OK", []) or [b"in"], ["127.0.0.1", "localhost", "[::1]"])

    def is_let_in(method, host):
        return [*application({"REQUEST_METHOD": method, "HTTP_HOST": host}, lambda *_: None)] == [b"in"]

    assert all(is_let_in("GET", host) for host in ("127.0.0.1:8080", "localhost", "[::1]:8080"))
    others = [("GET", "evil.example:8080"), ("GET", ""), ("DELETE", "127.0.0.1:8080"), ("POST", "localhost:8080")]
    assert not any(is_let_in(*each) for each in others)


@pytest.mark.slow
def test_workers_end_with_a_server_that_was_killed_from_outside(tmp_path):
    worker = tmp_path / "worker"
    begins = f"import subprocess; open({str(worker)!r}, 'w').write(str(subprocess.Popen(['sleep', '60']).pid))"
    with running([sys.executable, "-c", begins], dict(os.environ), "127.0.0.1", free_port()) as server:
        assert server.poll() == 0
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(int(worker.read_text())).wait(10)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_short_password_and_one_without_its_package_is_refused(capsys, monkeypatch, store):
    with pytest.raises(toolkit.HpoError, match=r"^password: must have 12 characters or more, given 4"):
        toolkit.open_ui(password="open", uri=store)
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "open")
    assert "--password: must have 12 characters or more, given 4" in refused(capsys, "ui", "--password")
    monkeypatch.setitem(sys.modules, "flask_wtf", None)
    assert "--password: needs Flask-WTF, which is not installed" in refused(capsys, "ui", "--password")


@pytest.mark.nightly
def test_with_a_password_only_who_knows_it_comes_in(store, tmp_path):
    port = free_port()
    command = ("ui", "--password", "--no-browser", "--uri", store, "--port", str(port))
    driver = start(*command, stderr=subprocess.DEVNULL, env={"TMPDIR": str(tmp_path)})
    try:
        password = wait_for_line(driver, "password ").strip().rpartition(" ")[2]
        codes = {known: answer(port, known) for known in ("wrong", password, None)}
    finally:
        driver.terminate()
        driver.communicate(timeout=30)
    assert codes == {"wrong": 401, password: 200, None: 401}
    assert not list(tmp_path.glob("hpo-ui-*"))


def answer(port, password):
    url = f"http://127.0.0.1:{port}/api/2.0/mlflow/experiments/search?max_results=1"
    headers = {} if password is None else {"Authorization": f"Basic {b64encode(f'hpo:{password}'.encode()).decode()}"}
    deadline = time.monotonic() + 90
    while True:
        try:
            with urlopen(Request(url, headers=headers), timeout=10) as found:
                return found.status
        except HTTPError as error:
            return error.code
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.2)
