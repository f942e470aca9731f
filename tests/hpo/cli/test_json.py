"""`--json`: one object on standard output and nothing else, with the fields that docs/reference/json.md lists."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from hpo.cli.main import FUNCTIONS
from hpo.config.documents import json_line
from tests.hpo.cli.commands import documented, hpo, printed
from tests.studies import REPOSITORY, environment, toy_config

# A fault of each kind: of the command line, of the configuration, of a study, data, a file, and others' systems.
FAULTS = {
    "no such command": ["serach"],
    "no such option": ["logs", "made", "--nope"],
    "a bad value of an option": ["logs", "made", "--tail", "0"],
    "an option missing": ["export", "made"],
    "no such key": ["search", "model.num_layer=3"],
    "no such configuration": ["search", "--cfg", "job", "--config", "missing.yaml"],
    "no such study": ["logs", "nothing"],
    "nothing printed": ["logs", "made"],
    "a name that no file can have": ["logs", "x" * 5000],
    "no such data": ["search", "data=text_classification", "data.path=missing.csv"],
    "an input that is not there": ["predict", "made", "--input", "missing.txt"],
    "a storage of no kind": ["export", "made", "--optuna", "foo://x"],
    "no such address": ["sync", "made", "track.uri=file:./x"],
    "nothing to compare": ["compare", "made"],
    "a table that is not there": ["import", "x", "--csv", "missing.csv"],
    "a server that has nothing to show": ["ui"],
}
OBJECTIVE = """
import os, sys

def run_fold(task):
    print("from Python")
    os.system("echo from a child; echo to its other stream >&2")
    yield {"epoch": 1, "score": 0.5}
    return 1.0
"""


@pytest.fixture
def toy():
    """Write a configuration of the toy study."""
    Path("toy.yaml").write_text(yaml.safe_dump(toy_config(trials=3)))
    return "--config", "toy.yaml"


@pytest.mark.parametrize("case", FAULTS)
def test_a_fault_has_the_same_text_and_exit_code(capsys, study, case):
    code, out, err = hpo(capsys, *FAULTS[case])
    assert (out, err.startswith("error: "), code) == ("", True, 2)
    text = err.removeprefix("error: ").removesuffix("\n")
    assert printed(capsys, *FAULTS[case], code=code) == ({"error": text, "exit_code": code}, f"error: {text}\n")


def test_every_command_that_prints_json_is_on_the_page():
    page = (REPOSITORY / "docs/reference/json.md").read_text()
    assert [name for name in FUNCTIONS if f"hpo {name}" not in page] == []


def test_what_json_cannot_say_is_null_and_paths_are_text():
    values = {"a": float("nan"), "b": [float("inf"), 1], "c": Path("x"), "d": {"é": (True, None)}}
    assert json.loads(json_line(values)) == {"a": None, "b": [None, 1], "c": "x", "d": {"é": [True, None]}}
    assert json_line(values).isascii()


def test_a_study_has_the_same_fields_from_every_command(capsys, toy):
    searched, _ = printed(capsys, "search", *toy)
    assert set(searched) == documented("A study")
    assert set(searched["best"]) == documented("A trial of it")
    report = json.loads(Path(searched["files"]["report.json"]).read_text())
    assert searched["best"]["point"] == report["winner"]["point"]
    assert (searched["state"], searched["done"], searched["budget"]) == ("ended", 3, 3)
    assert searched["cost"] == report["cost"]
    reported, _ = printed(capsys, "report", "toy")
    assert {path.name for path in map(Path, reported.pop("written"))} == set(searched["files"])
    assert reported == searched
    resumed, err = printed(capsys, "resume", "toy", "study.trials=4")
    assert {**resumed, "done": 3, "budget": 3}.keys() == searched.keys()
    assert resumed["done"] == 4
    assert "4/4  trial 3" in err


@pytest.mark.slow
def test_a_front_and_why_there_is_no_winner(capsys):
    tree = toy_config(trials=3)
    tree["study"] |= {"metrics": {"score": "maximize", "parameters": "minimize"}, "metric": None, "direction": None}
    Path("toy.yaml").write_text(yaml.safe_dump(tree))
    searched, _ = printed(capsys, "search", "--config", "toy.yaml")
    numbers = [member["trial"] for member in searched["front"]]
    assert searched["best"]["trial"] in numbers
    assert all(set(member) == documented("A trial of it") for member in searched["front"])
    assert set(searched["best"]["scores"]) == {"score", "parameters"}
    tree["study"] |= {"limits": {"parameters": 0}, "name": "none"}
    Path("toy.yaml").write_text(yaml.safe_dump(tree))
    searched, _ = printed(capsys, "search", "--config", "toy.yaml", code=1)
    assert searched["best"] is None
    assert "no trial keeps the limits" in searched["why_none"]


def test_progress_as_json_lines(capsys, toy):
    result, err = printed(capsys, "search", *toy, "--progress", "json")
    events = [json.loads(line) for line in err.splitlines()]
    kinds = [event.pop("event") for event in events]
    told = [kind for kind in kinds if kind not in ("task", "point")]
    assert told == ["begun", "trial", "trial", "trial", "ended"]
    assert events[-1] == result
    for kind, event in zip(kinds[:-1], events[:-1], strict=True):
        assert set(event) == documented(f"`{kind}`")
    trials = [event for event in events if "is_best" in event]
    assert [event["done"] for event in trials] == [1, 2, 3]
    assert trials[-1]["best"]["trial"] == result["best"]["trial"]
    code, out, err = hpo(capsys, "resume", "toy", "study.trials=4", "--progress", "none")
    assert (code, err) == (0, "")
    assert "4/4" not in out
    assert "winner: trial" in out


@pytest.mark.slow
def test_before_a_search_and_after_it(capsys, toy):
    dry, _ = printed(capsys, "search", *toy, "--dry-run")
    assert set(dry) == documented("hpo search --dry-run")
    tree, _ = printed(capsys, "search", *toy, "--cfg", "job")
    assert tree["study"]["name"] == "toy"
    assert not Path("runs").exists()
    printed(capsys, "search", *toy)
    added, _ = printed(capsys, "add", "toy", "toy.layers=5", "toy.width=8", "toy.lr=0.1")
    assert set(added) == documented("hpo add")
    extended, _ = printed(capsys, "extend", "toy", "toy.momentum=0.9", "study.name=more")
    assert set(extended) == documented("A study")
    replayed, _ = printed(capsys, "search", "--replay", "toy", "study.name=again", "track=none", "dispatch=local")
    assert replayed["replay"] == {"of": str(Path("runs/toy").absolute()), "trials": 3, "tolerance": 0, "differing": {}}


@pytest.mark.slow
def test_the_other_commands(capsys, study):
    tested, _ = printed(capsys, "test", "made", "--no-default")
    assert set(tested) == documented("A study") | {"evaluation"}
    assert (tested["evaluation"]["size"] > 0, tested["evaluation"]["metrics"]) == (True, tested["test"])
    again, _ = printed(capsys, "reproduce", "made", "--folds", "0")
    assert set(again) == documented("hpo reproduce")
    assert (again["is_reproduced"], len(again["trainings"])) == (True, 1)
    exported, _ = printed(capsys, "export", "made", "--optuna", "sqlite:///o.db")
    assert set(exported) == documented("hpo export")
    Path("t.csv").write_text("lr,score\n0.1,1\n0.2,2\n")
    imported, _ = printed(capsys, "import", "taken", "--csv", "t.csv", "--metric", "score")
    assert set(imported) == documented("hpo import")
    made, _ = printed(capsys, "new", "forest")
    assert set(made) == documented("hpo new")
    job, _ = printed(capsys, "cluster", "slurm")
    assert set(job) == documented("hpo cluster")


@pytest.mark.slow
def test_a_single_training(capsys, monkeypatch):
    monkeypatch.syspath_prepend(str(Path.cwd()))
    Path("noisy_json.py").write_text(OBJECTIVE)
    Path("noisy_json.yaml").write_text(yaml.safe_dump(single()))
    trained, err = printed(capsys, "train", "--config", "noisy_json.yaml", "--progress", "json")
    assert set(trained) == documented("hpo train")
    assert trained["metrics"] == {"score": 1.0}
    assert {"event": "point", "point": {"epoch": 1, "score": 0.5}} in [
        json.loads(line) for line in err.splitlines() if line.startswith("{")
    ]


@pytest.mark.slow
def test_nothing_else_reaches_standard_output_also_not_from_a_child():
    Path("noisy_json.py").write_text(OBJECTIVE)
    Path("noisy_json.yaml").write_text(yaml.safe_dump(single()))
    command = [sys.executable, "-m", "hpo", "train", "--config", "noisy_json.yaml", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=60, check=False)
    assert (done.returncode, done.stdout.count("\n")) == (0, 1), done.stderr
    assert json.loads(done.stdout)["metrics"] == {"score": 1.0}
    for line in ("from Python", "from a child", "to its other stream", "epoch 1  score 0.5"):
        assert f"{line}\n" in done.stderr


@pytest.mark.slow
def test_a_signal_is_an_error_too():
    sleeps = "import time\nfrom pathlib import Path\n\ndef run(task):\n    Path('begun').touch()\n    time.sleep(60)\n"
    Path("sleeps.py").write_text(sleeps)
    Path("toy.yaml").write_text(yaml.safe_dump(toy_config(objective="sleeps:run")))
    command = [sys.executable, "-m", "hpo", "search", "--config", "toy.yaml", "--json", "--progress", "json"]
    options = {"env": environment(), "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **options) as search:
        while not Path("begun").exists():
            assert search.poll() is None
            time.sleep(0.05)
        search.send_signal(signal.SIGTERM)
        out, _ = search.communicate(timeout=60)
    says = "stopped: 0 of 12 trials are saved in runs/toy; continue with: hpo resume toy"
    assert (search.returncode, json.loads(out)) == (143, {"error": says, "exit_code": 143})


def single():
    """A configuration of `hpo train`."""
    tree = toy_config(objective="noisy_json:run_fold")
    tree["study"] = {key: tree["study"][key] for key in ("name", "metric", "direction")}
    return {key: tree[key] for key in ("objective", "study", "split")} | {"dispatch": {"threads": 1}}


@pytest.mark.slow
def test_the_logs_of_a_study_and_of_a_trial(capsys, toy):
    printed(capsys, "search", *toy)
    folder = Path("runs/toy/logs")
    folder.mkdir()
    (folder / "trial_0001_fold_0.log").write_text("one\ntwo\n")
    listed, _ = printed(capsys, "logs", "toy")
    assert set(listed) == documented("hpo logs")
    path = str((folder / "trial_0001_fold_0.log").absolute())
    (log,) = listed["logs"]
    assert set(log) == documented("What a training printed")
    assert log == {"trial": 1, "task": "fold_0", "path": path, "lines": 2, "last": "two", "text": None}
    assert printed(capsys, "logs", "toy", "1")[0]["logs"][0]["text"] == "one\ntwo"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_comparison_and_what_mlflow_has(capsys, toy, study):
    compared, err = printed(
        *(capsys, "compare", "--strategies", "random,grid", "--repeats", "2", "--config", "toy.yaml"),
        *("--progress", "json"),
    )
    content = json.loads(Path(compared["folder"], "comparison.json").read_text())
    assert compared.keys() == content.keys() | documented("hpo compare")
    events = [json.loads(line) for line in err.splitlines() if line.startswith("{")]
    assert [event["done"] for event in events if event["event"] == "search"] == [1, 2, 3, 4]
    sent, _ = printed(capsys, "sync", "made", "track.uri=sqlite:///mlflow.db")
    assert set(sent) == documented("hpo sync")
    assert sent["recorded"] == sent["there"]
