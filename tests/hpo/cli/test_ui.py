"""`hpo ui`: the right page, and no one in who was not asked."""

import contextlib
import os
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

from hpo.study.files.folder import StudyFolder
from hpo.track.servers import allowed_hosts, guarded, running
from hpo.track.views import opened
from tests.faults.driver import start, wait_for_line
from tests.faults.mlflow_server import free_port
from tests.hpo.cli.commands import hpo, refused
from tests.tracked import new_store, run, runs_of, tracked_study

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.fixture(autouse=True)
def served(monkeypatch):
    """Return the command and the environment of the server that was to be run, whose page answers at once."""
    seen = SimpleNamespace(command=None, environment=None)

    @contextlib.contextmanager
    def running(command, environment, _host, _port):
        seen.command, seen.environment = command, environment
        yield SimpleNamespace(poll=lambda: None, wait=lambda: 0)

    monkeypatch.setattr("hpo.track.servers.running", running)
    return seen


@pytest.fixture
def store(tmp_path):
    return new_store(tmp_path)


@pytest.mark.quick("arguments[!01]*")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--host", "0.0.0.0"), ("not loopback", "without a password", "--expose")),
        (("--host", "192.168.1.2"), ("not loopback", "delete", "--expose")),
        (("--expose",), ("--expose", "no effect", "leave it out")),
        (("--optuna",), ("--optuna", "--study")),
        (("--optuna", "--study", "x", "--password"), ("--password", "no effect")),
        (("--optuna", "--study", "x", "--uri", "sqlite:///a.db"), ("--uri", "no effect")),
        (("--study", "nothing"), ("study", "no 'nothing'")),
        (("--uri", "sqlite:///none.db"), ("no runs yet", "hpo search")),
        (("--port", "99999"), ("1 to 65535", "99999")),
    ],
)
def test_bad_input_is_refused_in_one_line(capsys, store, arguments, words):
    message = refused(capsys, "ui", *arguments, is_silent=True)
    assert all(word in message for word in words), message


def test_a_taken_port_is_refused(capsys, store):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "give another --port" in refused(capsys, "ui", "--port", str(taken.getsockname()[1]), is_silent=True)


def test_of_a_store_that_is_served_there_already_the_addresses_are_printed(capsys, store, served):
    listens = "server = socket.create_server(('127.0.0.1', 0)); print(server.getsockname()[1], flush=True)"
    code = f"import socket, time; {listens}; time.sleep(60)"
    here = {"stdout": subprocess.PIPE, "text": True, "env": os.environ | {"MLFLOW_BACKEND_STORE_URI": store}}
    with subprocess.Popen([sys.executable, "-c", code], **here) as other:
        port = other.stdout.readline().strip()
        code, out, err = hpo(capsys, "ui", "--uri", store, "--port", port, "--no-browser")
        assert (code, served.command) == (0, None)
        assert f"http://127.0.0.1:{port}/" in out
        assert f"process {other.pid} serves this store already" in err
        other.kill()


def test_the_server_listens_on_loopback_and_answers_to_its_own_names_alone(capsys, store, served, monkeypatch):
    monkeypatch.setenv("MLFLOW_SERVER_DISABLE_SECURITY_MIDDLEWARE", "true")
    monkeypatch.setenv("MLFLOW_SERVER_ALLOWED_HOSTS", "*")
    code, out, err = hpo(capsys, "ui", "--port", "5123", "--no-browser")
    assert code == 0
    assert served.command[served.command.index("--host") + 1] == "127.0.0.1"
    hosts = set(served.environment["MLFLOW_SERVER_ALLOWED_HOSTS"].split(","))
    assert hosts == {f"{name}{port}" for name in ("127.0.0.1", "localhost", "[::1]") for port in ("", ":5123")}
    assert "MLFLOW_SERVER_DISABLE_SECURITY_MIDDLEWARE" not in served.environment
    assert served.environment["MLFLOW_DISABLE_TELEMETRY"] == "true"
    assert out == "http://127.0.0.1:5123/#/experiments?workflowType=machine_learning\n"
    assert err.startswith("note: other users of this machine can reach port 5123")


def test_whoever_exposes_it_is_told_what(capsys, store, served):
    code, _, err = hpo(capsys, "ui", "--host", "0.0.0.0", "--expose", "--port", "5123", "--no-browser")
    assert code == 0
    assert err.startswith("warning: exposed on 0.0.0.0")
    assert "without a password" in err
    hosts = served.environment["MLFLOW_SERVER_ALLOWED_HOSTS"].split(",")
    assert "*" not in hosts
    assert socket.gethostname() in hosts


@pytest.mark.parametrize("host", ["10.1.2.3", "my.machine"])
def test_an_address_is_answered_to_under_that_address_alone(host):
    assert allowed_hosts(host) == [host]


def test_a_store_s_password_is_no_argument(capsys, served):
    code, out, err = hpo(capsys, "ui", "--uri", "postgresql://user:secret-word@127.0.0.1/runs", "--no-browser")
    assert code == 0
    assert "secret-word" not in str(served.command)
    assert "secret-word" not in out + err
    assert served.environment["MLFLOW_BACKEND_STORE_URI"].endswith("@127.0.0.1/runs")


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("toy")
    new_store(folder)
    with contextlib.chdir(folder):
        study = tracked_study(folder, trials=1)
        run(study)
    return study


@pytest.mark.nightly
def test_a_study_s_trials_are_opened_and_its_charts_and_run_are_named(capsys, toy, served):
    code, out, _ = hpo(capsys, "ui", "--study", str(toy.folder.path), "--no-browser")
    assert code == 0
    parent, _ = runs_of(toy)
    runs, kind = f"#/experiments/{parent.info.experiment_id}/runs", "?workflowType=machine_learning"
    table = f"http://127.0.0.1:5000/{runs}{kind}&viewStateShareKey={parent.data.tags['hpo.study_id']}"
    charts, run = f"{table}&compareRunsMode=CHART", f"http://127.0.0.1:5000/{runs}/{parent.info.run_id}{kind}"
    assert out.splitlines() == [table, f"charts: {charts}", f"its run: {run}"]
    assert served.environment["MLFLOW_BACKEND_STORE_URI"] == toy.config.track.uri


@pytest.mark.slow
def test_without_a_study_the_view_of_all_is_opened_in_the_experiment_of_the_latest(capsys, toy):
    code, out, _ = hpo(capsys, "ui", "--no-browser", "--uri", toy.config.track.uri)
    assert code == 0
    runs = f"http://127.0.0.1:5000/#/experiments/{runs_of(toy)[0].info.experiment_id}/runs"
    view = f"{runs}?workflowType=machine_learning&viewStateShareKey=hpo-studies"
    assert out.splitlines() == [view, f"charts: {view}&compareRunsMode=CHART"]


@pytest.mark.slow
def test_several_studies_are_opened_side_by_side(capsys, tmp_path):
    new_store(tmp_path)
    with contextlib.chdir(tmp_path):
        one, other = (
            replace(tracked_study(tmp_path, trials=trials), folder=StudyFolder(tmp_path / name))
            for name, trials in (("one", 3), ("other", 2))
        )
        run(one)
        run(other)
        code, out, _ = hpo(capsys, "ui", "one", "other", "--no-browser")
    assert code == 0
    lines = [line.partition("http")[0] for line in out.splitlines()]
    assert lines == ["", "charts: ", "studies: ", "their charts: "]
    client = MlflowClient(one.config.track.uri)
    experiment = client.get_experiment_by_name("tests")
    trials, studies = (
        opened(experiment.tags[f"mlflow.sharedViewState.{out.splitlines()[place].rpartition('=')[2]}"])
        for place in (0, 2)
    )
    found = client.search_runs([experiment.experiment_id], trials["searchFilter"])
    assert [run.data.tags["hpo.kind"] for run in found] == ["trial"] * 5
    both = client.search_runs([experiment.experiment_id], studies["searchFilter"])
    assert [run.data.tags["hpo.kind"] for run in both] == ["study"] * 2
    assert len({run.data.tags["mlflow.runColor"] for run in both}) == 2


@pytest.mark.parametrize(("given", "is_off"), [(None, True), ("true", True), ("false", False)])
def test_telemetry_of_the_server_is_off_unless_mlflow_s_own_variable_turns_it_on(
    capsys, store, served, monkeypatch, given, is_off
):
    monkeypatch.delenv("MLFLOW_DISABLE_TELEMETRY", raising=False)
    monkeypatch.delenv("DO_NOT_TRACK", raising=False)
    if given is not None:
        monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", given)
    assert hpo(capsys, "ui", "--no-browser")[0] == 0
    assert (served.environment["MLFLOW_DISABLE_TELEMETRY"] == "true") == is_off
    assert (served.environment["DO_NOT_TRACK"] == "true") == is_off


@pytest.mark.slow
def test_a_study_that_is_not_in_the_store_is_told_how_to_get_there(capsys, toy, tmp_path):
    (tmp_path / "other").mkdir()
    other = new_store(tmp_path / "other")
    message = refused(capsys, "ui", "--study", str(toy.folder.path), "--uri", other, is_silent=True)
    assert "hpo sync" in message
    assert f"track.uri={other}" in message


def test_a_server_shows_its_own_pages(capsys, served):
    """Nothing is started where the runs are behind a server already."""
    code, out, _ = hpo(capsys, "ui", "--uri", "http://127.0.0.1:9", "--no-browser")
    assert code == 0
    assert out == "http://127.0.0.1:9/#/experiments?workflowType=machine_learning\n"
    assert served.command is None


@pytest.mark.slow
def test_without_optuna_dashboard_there_is_a_line_that_says_what_to_install(capsys, toy, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna_dashboard", None)
    message = refused(capsys, "ui", "--study", str(toy.folder.path), "--optuna", is_silent=True)
    assert "pip install 'hpo-transformer[dashboard]'" in message


@pytest.mark.parametrize(
    ("method", "host", "is_let_in"),
    [
        ("GET", "127.0.0.1:8080", True),
        ("GET", "localhost", True),
        ("GET", "[::1]:8080", True),
        ("GET", "evil.example:8080", False),
        ("GET", "", False),
        ("DELETE", "127.0.0.1:8080", False),
        ("POST", "localhost:8080", False),
    ],
)
def test_the_dashboard_is_for_reading_under_its_own_name(method, host, is_let_in):
    statuses = []
    application = guarded(lambda _environ, start: start("200 OK", []) or [b"in"], ["127.0.0.1", "localhost", "[::1]"])
    environ = {"REQUEST_METHOD": method, "HTTP_HOST": host}
    body = application(environ, lambda status, _headers: statuses.append(status))
    assert statuses == ["200 OK" if is_let_in else "403 Forbidden"]
    assert (list(body) == [b"in"]) == is_let_in


def test_workers_end_with_a_server_that_was_killed_from_outside(tmp_path):
    """They would go on listening, with nobody who ends them."""
    worker = tmp_path / "worker"
    begins = f"import subprocess; open({str(worker)!r}, 'w').write(str(subprocess.Popen(['sleep', '60']).pid))"
    with running([sys.executable, "-c", begins], dict(os.environ), "127.0.0.1", free_port()) as server:
        assert server.poll() == 0
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(int(worker.read_text())).wait(10)


@pytest.mark.slow
def test_with_a_password_only_who_knows_it_comes_in(store, tmp_path):
    """MLflow's own server, asked without a password, with a wrong one, and with the one that was printed."""
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
    """Return the status with which the server answers, once it does."""
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
