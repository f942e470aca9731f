"""A study that was made elsewhere: it says what is trained, and nothing of where, for whom, or with which program."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from hpo.commands.replay import OWN, TAKEN
from hpo.config.sections import StudySection
from hpo.study.files.made_here import is_made_here
from hpo.study.opening import open_study
from hpo.workers.objective.path import origin_of
from tests.hpo.cli.commands import hpo, refused, searched
from tests.studies import prepared, toy_config

OURS = """
from pathlib import Path

Path("imported").touch()


def run_fold(task):
    Path("ran").touch()
    return float(task["config"]["toy"]["layers"])
"""


def module():
    return f"theirs_{abs(hash(str(Path.cwd())))}"


@pytest.fixture
def stranger(capsys, monkeypatch):
    """Put a study that somebody else made, with an objective in a module, into `runs/toy`; return its folder."""
    # A name of its own in every test: a module is imported once.
    Path(f"{module()}.py").write_text(OURS)
    folder = searched(capsys, toy_config(trials=3, objective=f"{module()}:run_fold"))
    monkeypatch.syspath_prepend(str(Path.cwd()))
    for name in ("imported", "ran"):
        Path(name).unlink()
    # Another user's memory.
    monkeypatch.setenv("XDG_STATE_HOME", str(Path("state").absolute()))
    return folder


def changed(folder, **sections):
    """Change the frozen configuration of a study, as whoever hands it on may."""
    path = folder / "config.yaml"
    tree = yaml.safe_load(path.read_text())
    for name, section in sections.items():
        tree[name] = {**tree[name], **section} if isinstance(section, dict) else section
    path.write_text(yaml.safe_dump(tree))
    (folder / "report.json").unlink()


@pytest.mark.quick("command2")
@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [["reproduce", "toy"], ["search", "--replay", "toy", "dispatch=local", "track=none"], ["reproduce", "mailed.json"]],
)
def test_its_objective_is_named_and_run_after_a_yes(capsys, stranger, command):
    shutil.copy(stranger / "report.json", "mailed.json")
    err = refused(capsys, *command)
    assert f"{module()}:run_fold ({Path(module()).absolute()}.py, in your working directory)" in err
    assert "--trust" in err
    assert not Path("ran").exists()
    code, out, err = hpo(capsys, *command, "--trust")
    assert code == 0, out + err
    assert Path("ran").exists()
    # Once is enough.
    shutil.rmtree("runs/toy-replay", ignore_errors=True)
    assert hpo(capsys, *command)[0] == 0


@pytest.mark.quick("yes-0", "-2")
@pytest.mark.slow
@pytest.mark.parametrize(("typed", "expected"), [("yes", 0), ("no", 2), ("", 2)])
def test_at_a_terminal_it_is_asked(capsys, monkeypatch, stranger, typed, expected):
    asked = []
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda question: asked.append(question) or typed)
    code, out, _ = hpo(capsys, "reproduce", "toy")
    assert (code, len(asked)) == (expected, 1)
    assert "this study was not made here: it runs " in out
    assert Path("ran").exists() == (expected == 0)


def test_another_configuration_of_a_trusted_study_is_not_trusted(capsys, stranger):
    assert hpo(capsys, "reproduce", "toy", "--trust")[0] == 0
    changed(stranger, toy={"always": 2})
    assert "was not made here" in refused(capsys, "reproduce", "toy")


@pytest.mark.slow
def test_what_was_made_here_needs_no_yes_wherever_it_went(capsys):
    searched(capsys, toy_config(trials=2))
    assert hpo(capsys, "report", "toy", "--publish")[0] == 0
    shutil.copy("runs/toy/report.json", "mailed.json")
    for study in ("toy", "studies/toy", "mailed.json"):
        assert hpo(capsys, "reproduce", study)[0] == 0


def test_values_of_the_environment_are_named_before_they_are_given(capsys, monkeypatch, tmp_path):
    """Even to an objective of the toolkit: an address may carry them away."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PLANTED_TOKEN", "hunter22")
    folder = Path("theirs")
    folder.mkdir()
    tree = toy_config(objective="hpo.objectives.table:run_fold", data={"path": "http://h/${oc.env:PLANTED_TOKEN}"})
    (folder / "config.yaml").write_text(yaml.safe_dump(tree))
    (folder / "environment.json").write_text('{"format": 1}')
    (folder / "trials.csv").write_text("number,state,score\n0,complete,1\n")
    for command in (["reproduce", "theirs"], ["search", "--replay", "theirs"]):
        assert "PLANTED_TOKEN of your environment (data.path)" in refused(capsys, *command)


@pytest.mark.slow("mirror")
@pytest.mark.nightly
@pytest.mark.parametrize("key", ["storage", "mirror"])
def test_a_replay_takes_nothing_of_where_it_ran_and_where_it_was_shown(capsys, monkeypatch, stranger, key):
    """Their server would have got a value of our environment, and our objective run on their cluster."""
    monkeypatch.setenv("PLANTED_TOKEN", "hunter22")
    evil = f"file://{Path('evil').absolute()}"
    changed(
        stranger,
        track={"name": "mlflow", "uri": "http://127.0.0.1:9/${oc.env:PLANTED_TOKEN}"},
        dispatch={"name": "ray", "address": "127.0.0.1:9", "allow_open_cluster": True, "threads": 3},
        study={
            "artifacts": evil,
            key: {"mirror": evil, "storage": "postgresql://127.0.0.1:9/${oc.env:PLANTED_TOKEN}"}[key],
        },
    )
    code, out, _ = hpo(capsys, "search", "--replay", "toy", "--trust", "--cfg", "job")
    assert code == 0
    shown = yaml.safe_load(out)
    assert (shown["track"]["uri"], shown["dispatch"]["address"]) == ("sqlite:///mlflow.db", None)
    assert shown["dispatch"]["allow_open_cluster"] is False
    assert [shown["study"][key] for key in ("storage", "mirror", "artifacts")] == [None, None, None]
    # What decides last digits is theirs.
    assert shown["dispatch"]["threads"] == 3
    code, out, err = hpo(capsys, "search", "--replay", "toy", "--trust", "dispatch=local", "track=none")
    assert (code, "replayed: all 3 trials" in out) == (0, True), out + err
    assert "hunter22" not in Path("runs/toy-replay/config.yaml").read_text()
    assert not Path("evil").exists()


def test_every_key_of_a_study_is_either_taken_by_a_replay_or_the_replays_own():
    assert sorted([*TAKEN, *OWN]) == sorted(StudySection.model_fields)


@pytest.mark.slow
def test_a_replay_is_kept_and_copied_where_its_own_overrides_say(capsys, stranger):
    place = f"file://{Path('mine').absolute()}"
    command = ["search", "--replay", "toy", "--trust", f"study.mirror={place}", "study.name=again", "--cfg", "job"]
    code, out, err = hpo(capsys, *command)
    assert code == 0, err
    assert [yaml.safe_load(out)["study"][key] for key in ("mirror", "name", "seed")] == [place, "again", 0]


@pytest.mark.quick("torch:load")
@pytest.mark.slow
@pytest.mark.parametrize(
    "objective", ["hydra.utils:instantiate", "subprocess:run", "torch:load", "hpo.study.files.folder:RUNS"]
)
def test_what_nobody_meant_as_an_objective_is_not_even_imported(capsys, stranger, objective):
    report = json.loads((stranger / "report.json").read_text())
    report["config"]["objective"] = report["study"]["objective"] = objective
    Path("mailed.json").write_text(json.dumps(report))
    for trust in ([], ["--trust"]):
        assert "objective: " in refused(capsys, "reproduce", "mailed.json", *trust)


def test_what_a_package_declares_and_what_lies_here_may_be_objectives(tmp_path):
    Path("mine.py").write_text(OURS)
    here = str(tmp_path)
    assert origin_of("mine:run_fold", here) == "working directory"
    assert origin_of("tests.toy:score", None) == "declared"
    assert origin_of("model.objective:run_fold", here) == origin_of("hpo.objectives.table:run_fold", None) == "toolkit"
    assert not Path("imported").exists()


def test_a_memory_that_cannot_be_read_or_written_costs_a_question_and_no_study(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    study = prepared(tmp_path / "study", toy_config(trials=1))
    open_study(study).close()
    assert not is_made_here(study.config)
