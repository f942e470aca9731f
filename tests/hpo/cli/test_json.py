"""`--json`: one object on standard output and nothing else, with the fields that docs/reference/json.md lists."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from hpo.cli.main import FUNCTIONS
from hpo.config.documents import json_line
from hpo.workers.dispatch.dispatcher import Gpus
from tests.hpo.cli.commands import documented, hpo, printed
from tests.studies import REPOSITORY, environment, toy_config

FAULTS = ["serach", "logs made --nope", "search model.num_layer=3", "logs nothing", "export made --optuna foo://x"]
PRINTS = """
import os

def run_fold(task):
    print("from Python")
    os.system("echo from a child; echo to its other stream >&2")
    yield {"epoch": 1, "score": 0.5}
    return 1.0
"""


def config_file(**changes):
    tree = toy_config(**{"trials": 3} | changes)
    tree["study"] |= {"metrics": {"score": "maximize", "parameters": "minimize"}, "metric": None, "direction": None}
    tree["report"] |= {"figures": False}
    Path("toy.yaml").write_text(yaml.safe_dump(tree))
    return "--config", "toy.yaml"


@pytest.mark.parametrize("case", FAULTS)
def test_a_fault_has_the_same_text_and_exit_code(capsys, study, case):
    code, out, err = hpo(capsys, *case.split())
    assert (out, err.startswith("error: "), code) == ("", True, 2)
    text = err.removeprefix("error: ").removesuffix("\n")
    assert printed(capsys, *case.split(), code=code) == ({"error": text, "exit_code": code}, f"error: {text}\n")


def test_every_command_that_prints_json_is_on_the_page():
    page = (REPOSITORY / "docs/reference/json.md").read_text()
    assert [name for name in FUNCTIONS if f"hpo {name}" not in page] == []


def test_what_json_cannot_say_is_null_and_paths_are_text():
    values = {"a": float("nan"), "b": [float("inf"), 1], "c": Path("x"), "d": {"é": (True, None)}}
    assert json.loads(json_line(values)) == {"a": None, "b": [None, 1], "c": "x", "d": {"é": [True, None]}}
    assert json_line(values).isascii()


@pytest.mark.slow
def test_a_study_has_the_same_fields_from_every_command(capsys, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr("hpo.session.session.LocalDispatcher.gpus", Gpus(2, 2.0))
        searched, _ = printed(capsys, "search", *config_file())
    assert set(searched) == documented("A study")
    assert all(set(member) == documented("A trial of it") for member in (searched["best"], *searched["front"]))
    report = json.loads(Path(searched["files"]["report.json"]).read_text())
    assert (searched["best"]["point"], searched["cost"]) == (report["winner"]["point"], report["cost"])
    assert (searched["state"], searched["done"], searched["budget"]) == ("ended", 3, 3)
    reported, _ = printed(capsys, "report", "toy")
    assert {path.name for path in map(Path, reported.pop("written"))} == set(searched["files"])
    assert reported == searched
    assert printed(capsys, "resume", "toy")[0]["cost"] == searched["cost"]
    resumed, err = printed(capsys, "resume", "toy", "study.trials=4")
    assert (resumed.keys(), resumed["done"]) == (searched.keys(), 4)
    assert "4/4  trial 3" in err


def test_progress_as_json_lines(capsys):
    result, err = printed(capsys, "search", *config_file(), "--progress", "json")
    events = [json.loads(line) for line in err.splitlines()]
    kinds = [event.pop("event") for event in events]
    assert [kind for kind in kinds if kind not in ("task", "point")] == ["begun", "trial", "trial", "trial", "ended"]
    assert events[-1] == result
    for kind, event in zip(kinds[:-1], events[:-1], strict=True):
        assert set(event) == documented(f"`{kind}`")
    assert [event["done"] for event in events if "is_best" in event] == [1, 2, 3]
    code, out, err = hpo(capsys, "resume", "toy", "study.trials=4", "--progress", "none")
    assert (code, err, "4/4" in out, "winner: trial" in out) == (0, "", False, True)


def test_a_dry_run_and_a_configuration_are_printed_and_nothing_is_created(capsys):
    dry, _ = printed(capsys, "search", *config_file(), "--dry-run")
    assert set(dry) == documented("hpo search --dry-run")
    tree, _ = printed(capsys, "search", *config_file(), "--cfg", "job")
    assert tree["study"]["name"] == "toy"
    assert not Path("runs").exists()


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore")
def test_the_other_commands_print_the_fields_that_are_documented(capsys, study):
    Path("t.csv").write_text("lr,score\n0.1,1\n0.2,2\n")
    for words in (
        *("reproduce made --folds 0", "export made --optuna sqlite:///o.db", "import taken --csv t.csv --metric score"),
        *("new forest", "cluster slurm", "sync made track.uri=sqlite:///mlflow.db", "add made training.lr=0.001"),
    ):
        assert set(printed(capsys, *words.split())[0]) == documented(f"hpo {words.split()[0]}"), words
    assert printed(capsys, "show", "made")[0]["untried"] == 1, "the added point waits"
    tested, _ = printed(capsys, "test", "made", "--no-default")
    assert set(tested) == documented("A study") | {"evaluation"}
    assert (tested["evaluation"]["size"] > 0, tested["evaluation"]["metrics"]) == (True, tested["test"])
    words = ("--strategies", "random,grid", "--repeats", "2", *config_file(), "--progress", "json")
    compared, err = printed(capsys, "compare", *words)
    content = json.loads(Path(compared["folder"], "comparison.json").read_text())
    assert compared.keys() == content.keys() | documented("hpo compare")
    events = [json.loads(line) for line in err.splitlines() if line.startswith("{")]
    assert [event["done"] for event in events if event["event"] == "search"] == [1, 2, 3, 4]


@pytest.mark.slow
def test_nothing_but_the_result_of_a_training_reaches_standard_output_also_not_from_a_child():
    Path("noisy_json.py").write_text(PRINTS)
    study = {"name": "noisy", "metric": "score", "direction": "maximize"}
    tree = {"objective": "noisy_json:run_fold", "study": study, "split": toy_config()["split"]}
    Path("noisy_json.yaml").write_text(yaml.safe_dump(tree | {"dispatch": {"threads": 1}}))
    command = [sys.executable, "-m", "hpo", "train", "--config", "noisy_json.yaml", "--json", "--progress", "json"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=60, check=False)
    assert (done.returncode, done.stdout.count("\n")) == (0, 1), done.stderr
    trained, lines = json.loads(done.stdout), done.stderr.splitlines()
    assert (set(trained), trained["metrics"]) == (documented("hpo train"), {"score": 1.0})
    assert {"from Python", "from a child", "to its other stream"} <= set(lines)
    events = [json.loads(line) for line in lines if line.startswith("{")]
    assert {"event": "point", "point": {"epoch": 1, "score": 0.5}} in events
