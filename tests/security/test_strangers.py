"""A study that was made elsewhere: what it would run, read and send is shown, and done after a yes."""

import contextlib
import hashlib
import json
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from hpo.cli.main import main
from hpo.commands.replay import OWN, TAKEN
from hpo.config.sections import StudySection
from hpo.errors import printable
from hpo.study.files.made_here import is_made_here
from hpo.study.opening import open_study
from tests.hpo.cli.commands import TABLE, TABLE_DATA, hpo, refused, searched
from tests.studies import prepared, toy_config

OBJECTIVE = """
from pathlib import Path
def run_fold(task):
    Path("ran").touch()
    return float(task["config"]["toy"]["layers"])
"""
REPLAY = ["search", "--replay", "toy", "dispatch=local", "track=none"]
COMMAND = ("objective=command", "command.line=sh run.sh {x}", "space.x=[1,2]", "study.metric=score")
# A terminal would execute control characters in a stranger's texts.
EVIL = "\x1b]0;owned\x07\x1b[2J\r\u202e\nreproduced: all 9 trainings"
EVIL_SPACE = {"toy": {"layers": [1, 2]}, "other": {"text": {"choices": [EVIL]}}}


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    folder = tmp_path_factory.mktemp("elsewhere")
    (folder / "theirs.py").write_text(OBJECTIVE)
    with contextlib.chdir(folder), pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        Path("toy.yaml").write_text(yaml.safe_dump(toy_config(trials=2, objective="theirs:run_fold")))
        assert main(["search", "--config", "toy.yaml"]) == 0
        Path("ran").unlink()
    return folder


@pytest.fixture
def stranger(monkeypatch, elsewhere):
    """Put a study of another user into `runs/toy` and `mailed.json`; return its folder."""
    shutil.copytree(elsewhere, ".", dirs_exist_ok=True)
    monkeypatch.syspath_prepend(str(Path.cwd()))
    sys.modules.pop("theirs", None)
    given_away(monkeypatch)
    yield Path("runs/toy")
    sys.modules.pop("theirs", None)


def given_away(monkeypatch):
    """Make what was searched here another user's, by another memory."""
    monkeypatch.setenv("XDG_STATE_HOME", str(Path("state").absolute()))
    shutil.copy("runs/toy/report.json", "mailed.json")


def searched_elsewhere(capsys, monkeypatch, *overrides):
    given = ("track=none", "dispatch=local", "report.figures=false", "study.trials=1", "study.name=toy", *overrides)
    code, out, err = hpo(capsys, "search", *given)
    assert code == 0, out + err
    given_away(monkeypatch)


def with_command(capsys, monkeypatch, *overrides):
    Path("run.sh").write_text("touch ran; echo '{\"score\": '$1'}'")
    searched_elsewhere(capsys, monkeypatch, *COMMAND, *overrides)
    Path("ran").unlink()


@pytest.fixture
def mirror(capsys, monkeypatch):
    """Return the URL of a stranger's mirror of a search by a command, where nothing else of the study is."""
    url = f"file://{Path('mirror').absolute()}"
    with_command(capsys, monkeypatch, f"study.mirror={url}")
    shutil.rmtree("runs")
    return url


def put_in_mirror(section, **values):
    manifest = json.loads(Path("mirror/manifest.json").read_text())
    config = yaml.safe_load(Path("mirror/files", manifest["files"]["config.yaml"]).read_text())
    config[section] |= values
    text = yaml.safe_dump(config, sort_keys=False)
    manifest["files"]["config.yaml"] = digest = hashlib.sha256(text.encode()).hexdigest()
    Path("mirror/files", digest).write_text(text)
    Path("mirror/manifest.json").write_text(json.dumps(manifest))


def changed(folder, **sections):
    path = folder / "config.yaml"
    tree = yaml.safe_load(path.read_text())
    for name, section in sections.items():
        tree[name] = tree[name] | section
    path.write_text(yaml.safe_dump(tree))
    (folder / "report.json").unlink()


@pytest.mark.slow("search --replay toy dispatch=local track=none")
@pytest.mark.parametrize("command", [["reproduce", "toy"], REPLAY, ["reproduce", "mailed.json"]], ids=" ".join)
def test_its_objective_is_named_and_run_after_a_yes(capsys, stranger, command):
    err = refused(capsys, *command)
    assert f"theirs:run_fold ({Path('theirs.py').absolute()}, in your working directory)" in err
    assert "--trust" in err
    assert not Path("ran").exists()
    code, out, err = hpo(capsys, *command, "--trust")
    assert code == 0, out + err
    assert Path("ran").exists()
    shutil.rmtree("runs/toy-replay", ignore_errors=True)
    assert hpo(capsys, *command)[0] == 0


@pytest.mark.parametrize(("typed", "expected"), [("yes", 0), ("", 2)])
def test_at_a_terminal_the_user_is_asked(capsys, monkeypatch, stranger, typed, expected):
    asked = []
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda question: asked.append(question) or typed)
    code, out, _ = hpo(capsys, "reproduce", "toy")
    assert (code, len(asked)) == (expected, 1)
    assert "this study was not made on this machine: it runs " in out
    assert Path("ran").exists() == (expected == 0)


def test_another_configuration_of_a_trusted_study_is_not_trusted(capsys, stranger):
    assert hpo(capsys, "reproduce", "toy", "--trust")[0] == 0
    changed(stranger, toy={"always": 2})
    assert "was not made on this machine" in refused(capsys, "reproduce", "toy")


@pytest.mark.slow
def test_what_was_made_here_needs_no_yes_wherever_it_went(capsys):
    searched(capsys, toy_config(trials=2))
    assert hpo(capsys, "report", "toy", "--publish")[0] == 0
    shutil.copy("runs/toy/report.json", "mailed.json")
    for study in ("studies/toy", "mailed.json"):
        assert hpo(capsys, "reproduce", study)[0] == 0


def test_values_of_the_environment_are_named_before_they_are_given(capsys, monkeypatch, stranger):
    monkeypatch.setenv("PLANTED_TOKEN", "hunter22")
    changed(stranger, toy={"token": "${oc.env:PLANTED_TOKEN}"})
    for command in (["reproduce", "toy"], REPLAY):
        assert "reads PLANTED_TOKEN from your environment (toy.token)" in refused(capsys, *command)


def test_a_command_is_shown_and_run_after_a_yes(capsys, monkeypatch):
    with_command(capsys, monkeypatch)
    assert "also runs command.line='sh run.sh {x}'" in refused(capsys, "reproduce", "mailed.json")
    assert not Path("ran").exists()
    assert hpo(capsys, "reproduce", "mailed.json", "--trust")[0] == 0
    assert Path("ran").exists()
    report = json.loads(Path("mailed.json").read_text())
    report["config"]["space"]["command"] = {"line": {"choices": ["touch searched"]}}
    change = {"time": "", "changes": ["config: x"], "threads": 1, "processes": 1, "trials": 1, "unfinished": []}
    change["trial"] = {"data": {"name": "x"}, "command": {"line": "touch before"}}
    report["study"]["allowed_changes"] = [change]
    Path("mailed.json").write_text(json.dumps(report))
    err = refused(capsys, "reproduce", "mailed.json")
    assert "touch searched" in err
    assert "touch before" in err


def test_a_strangers_mirror_is_copied_and_run_after_a_yes(capsys, mirror):
    err = refused(capsys, "resume", mirror, "study.trials=2")
    assert "also runs command.line='sh run.sh {x}'" in err
    assert "read runs/toy/config.yaml, then `hpo resume toy`" in err
    assert not Path("ran").exists()
    shutil.rmtree("runs")
    assert hpo(capsys, "resume", mirror, "study.trials=2", "--trust")[0] == 0
    assert Path("ran").exists()


ENVIRONMENT = {"pip": ["theirs==1"], "env_vars": {"LD_PRELOAD": "theirs.so"}}
PACKAGES = "dispatch.environment.pip=['theirs==1'], dispatch.environment.env_vars.LD_PRELOAD='theirs.so'"
CLUSTER = {"name": "ray", "address": "ray://127.0.0.1:9", "environment": ENVIRONMENT}


@pytest.mark.parametrize(("section", "values", "words"), [
    ("dispatch", CLUSTER, f"and installs on its workers {PACKAGES}"),
    ("study", {"on_trial": "touch ran"}, "and runs on this machine study.on_trial='touch ran'"),
    ("track", {"name": "mlflow", "uri": "http://127.0.0.1:9/x"}, "and connects to track.uri=http://127.0.0.1:9/x"),
])  # fmt: skip
def test_a_strangers_mirror_says_what_else_it_would_run_install_set_and_send(capsys, mirror, section, values, words):
    put_in_mirror(section, **values)
    assert words in refused(capsys, "resume", mirror)
    assert not Path("ran").exists()


def test_a_file_outside_of_the_working_directory_is_named_before_it_is_read(capsys, monkeypatch, tmp_path):
    shutil.copy(TABLE, tmp_path / "private.csv")
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path / "inner")
    Path("link.csv").symlink_to(tmp_path / "private.csv")
    searched_elsewhere(capsys, monkeypatch, *TABLE_DATA, "data.path=link.csv")
    for command in (["reproduce", "toy"], REPLAY):
        assert "reads outside of the working directory: data.path='link.csv'" in refused(capsys, *command)
    text = Path("mailed.json").read_text()
    Path("mailed.json").write_text(text.replace("link.csv", "../private.csv"))
    assert "outside of the working directory: data.path='../private.csv'" in refused(capsys, "reproduce", "mailed.json")
    Path("mailed.json").write_text(text)
    shutil.copy(TABLE, "mine.csv")
    assert hpo(capsys, "reproduce", "mailed.json", "data.path=mine.csv")[0] == 0


@pytest.mark.slow
def test_a_replay_takes_nothing_of_where_it_ran_and_where_it_was_shown(capsys, monkeypatch, stranger):
    """Their server would get a value of our environment, and our objective run on their cluster."""
    monkeypatch.setenv("PLANTED_TOKEN", "hunter22")
    evil = f"file://{Path('evil').absolute()}"
    track = {"name": "mlflow", "uri": "http://127.0.0.1:9/${oc.env:PLANTED_TOKEN}"}
    dispatch = {"name": "ray", "address": "127.0.0.1:9", "allow_open_cluster": True, "threads": 3}
    changed(stranger, track=track, dispatch=dispatch, study={"artifacts": evil, "mirror": evil})
    code, out, _ = hpo(capsys, "search", "--replay", "toy", "--trust", "--cfg", "job")
    assert code == 0
    shown = yaml.safe_load(out)
    assert (shown["track"]["uri"], shown["dispatch"]["address"]) == ("sqlite:///mlflow.db", None)
    assert shown["dispatch"]["allow_open_cluster"] is False
    assert [shown["study"][key] for key in ("storage", "mirror", "artifacts")] == [None, None, None]
    assert shown["dispatch"]["threads"] == 3
    code, out, err = hpo(capsys, *REPLAY, "--trust")
    assert (code, "replayed: all 2 trials" in out) == (0, True), out + err
    assert "hunter22" not in Path("runs/toy-replay/config.yaml").read_text()
    assert not Path("evil").exists()


def test_every_key_of_a_study_is_either_taken_by_a_replay_or_the_replays_own():
    assert sorted([*TAKEN, *OWN]) == sorted(StudySection.model_fields)


def test_what_nobody_meant_as_an_objective_is_not_even_imported(capsys, stranger):
    report = json.loads(Path("mailed.json").read_text())
    for objective in ("hydra.utils:instantiate", "subprocess:run", "torch:load", "hpo.study.files.folder:RUNS"):
        report["config"]["objective"] = report["study"]["objective"] = objective
        Path("mailed.json").write_text(json.dumps(report))
        assert "objective: " in refused(capsys, "reproduce", "mailed.json", "--trust")


def test_a_memory_that_cannot_be_read_or_written_costs_a_question_and_no_study(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    open_study(study := prepared(tmp_path / "study", toy_config(trials=1))).close()
    assert not is_made_here(study.config)


@pytest.fixture(scope="module")
def with_evil_texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("toy")
    with contextlib.chdir(folder):
        Path("toy.yaml").write_text(yaml.safe_dump(toy_config(trials=1, space=EVIL_SPACE, other={"text": "x"})))
        assert main(["search", "--config", "toy.yaml"]) == 0
    return folder


def refuse_unprintable(capsys, *command):
    code, out, err = hpo(capsys, *command)
    assert all(printable(line) == line for line in (out + err).split("\n")), command
    return code, (out + err).splitlines()


@pytest.mark.parametrize("keys", [
    ("environment", EVIL), ("environment", "packages", "torch"), ("config", EVIL), ("study", "allowed_changes"),
    ("config", "strategy", "name"), ("space", 0, "key"), ("winner", "point", "toy.layers"), ("data", "files")
])  # fmt: skip
def test_no_field_of_a_report_reaches_the_terminal_as_it_is(capsys, with_evil_texts, keys):
    changed = inner = json.loads((with_evil_texts / "runs/toy/report.json").read_text())
    for key in keys[:-1]:
        inner = inner[key]
    lists = {"allowed_changes": [{"changes": [EVIL]}], "files": [{"path": EVIL, "sha256": EVIL}]}
    inner[keys[-1]] = lists.get(keys[-1], EVIL)
    Path("mailed.json").write_text(json.dumps(changed))
    code, lines = refuse_unprintable(capsys, "reproduce", "mailed.json", "--trust")
    assert code in (0, 1, 2)
    assert "reproduced: all 9 trainings" not in lines


@pytest.mark.slow
def test_no_value_of_a_study_does(capsys, with_evil_texts, monkeypatch):
    monkeypatch.chdir(with_evil_texts)
    replay = ["search", "--replay", "toy", "track=none", "dispatch=local"]
    readers = (["list"], ["show", "toy"], ["show", "toy", "--trial", "0"], ["compare", "toy", "toy-replay"])
    for command in (replay, ["report", "toy"], *readers):
        assert refuse_unprintable(capsys, *command)[0] == 0
