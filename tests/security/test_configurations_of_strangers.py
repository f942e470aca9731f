"""What a stranger's configuration may make the toolkit's own objectives do: it is shown, and done after a yes."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest
import yaml

from tests.hpo.cli.commands import TABLE, TABLE_DATA, hpo, refused, searched
from tests.studies import toy_config


def handed_on(capsys, monkeypatch, *overrides):
    """Search here, as somebody else; return the folder and a copy of its report, which now are a stranger's."""
    code, out, err = hpo(
        capsys, "search", "track=none", "dispatch=local", "study.trials=1", "study.name=toy", *overrides
    )
    assert code == 0, out + err
    monkeypatch.setenv("XDG_STATE_HOME", str(Path("state").absolute()))
    shutil.copy("runs/toy/report.json", "mailed.json")


COMMANDS = (["reproduce", "toy"], ["reproduce", "mailed.json"], ["search", "--replay", "toy", "track=none"])
COMMAND = ("objective=command", "command.line=sh run.sh {x}", "space.x=[1,2]", "study.metric=score")


@pytest.mark.slow
def test_a_command_is_shown_and_run_after_a_yes(capsys, monkeypatch):
    Path("run.sh").write_text("touch ran; echo '{\"score\": '$1'}'")
    handed_on(capsys, monkeypatch, *COMMAND)
    Path("ran").unlink()
    for command in COMMANDS:
        err = refused(capsys, *command)
        assert "with it command.line='sh run.sh {x}'" in err
        assert not Path("ran").exists()
    for command in COMMANDS:
        assert hpo(capsys, *command, "--trust")[0] == 0
    assert Path("ran").exists()


@pytest.mark.slow
def test_a_command_among_the_searched_values_or_the_earlier_ones_is_shown_as_well(capsys, monkeypatch):
    Path("run.sh").write_text("touch ran; echo '{\"score\": '$1'}'")
    handed_on(capsys, monkeypatch, *COMMAND)
    report = json.loads(Path("mailed.json").read_text())
    kept = report["config"]
    kept["space"]["command"] = {"line": {"choices": ["touch searched"]}}
    trial = {"data": {"name": "x"}, "command": {"line": "touch before"}}
    report["study"]["allowed_changes"] = [
        {"time": "", "changes": ["config: x"], "trial": trial, "threads": 1, "processes": 1, "trials": 1}
        | {"unfinished": []}
    ]
    Path("mailed.json").write_text(json.dumps(report))
    err = refused(capsys, "reproduce", "mailed.json")
    assert "touch searched" in err
    assert "touch before" in err


def test_an_earlier_configuration_of_my_own_study_that_is_not_mine_is_not_run(capsys):
    """A report of mine that came back, with another configuration for its trial."""
    folder = searched(capsys, toy_config(trials=1))
    report = json.loads((folder / "report.json").read_text())
    trial = {"toy": {"always": 2}}
    report["study"]["allowed_changes"] = [
        {"time": "", "changes": ["config: x"], "trial": trial, "threads": 1, "processes": 1, "trials": 1}
        | {"unfinished": []}
    ]
    Path("mailed.json").write_text(json.dumps(report))
    assert "was not made here" in refused(capsys, "reproduce", "mailed.json")


def mirrored(capsys, monkeypatch, *overrides):
    """Search here, as somebody else, with a mirror; return its URL, and go where nothing else of it is."""
    url = f"file://{Path('mirror').absolute()}"
    handed_on(capsys, monkeypatch, f"study.mirror={url}", *overrides)
    shutil.rmtree("runs")
    return url


def test_a_strangers_mirror_is_copied_and_run_after_a_yes(capsys, monkeypatch):
    Path("run.sh").write_text("touch ran; echo '{\"score\": '$1'}'")
    url = mirrored(capsys, monkeypatch, *COMMAND)
    Path("ran").unlink()
    err = refused(capsys, "resume", url, "study.trials=2")
    assert "with it command.line='sh run.sh {x}'" in err
    assert "read runs/toy/config.yaml, then `hpo resume toy`" in err
    assert not Path("ran").exists()
    shutil.rmtree("runs")
    assert hpo(capsys, "resume", url, "study.trials=2", "--trust")[0] == 0
    assert Path("ran").exists()


@pytest.mark.slow
def test_a_strangers_mirror_says_where_else_it_would_send_what_it_finds(capsys, monkeypatch):
    shutil.copy(TABLE, "table.csv")
    url = mirrored(capsys, monkeypatch, *TABLE_DATA)
    put_in_mirror("track", name="mlflow", uri="http://127.0.0.1:9/x")
    assert "and goes to track.uri=http://127.0.0.1:9/x" in refused(capsys, "resume", url)
    shutil.rmtree("runs")
    # What is given here is nobody else's.
    code, out, err = hpo(capsys, "resume", url, "study.trials=2", "track=none")
    assert code == 0, out + err
    assert "--trust: has no effect without a URL" in refused(capsys, "resume", "toy", "--trust")


@pytest.mark.slow
def test_a_strangers_command_for_each_trial_is_asked_about(capsys, monkeypatch):
    shutil.copy(TABLE, "table.csv")
    url = mirrored(capsys, monkeypatch, *TABLE_DATA)
    put_in_mirror("study", on_trial="touch ran")
    assert "and runs here study.on_trial='touch ran'" in refused(capsys, "resume", url)
    shutil.rmtree("runs")
    assert hpo(capsys, "resume", url, "study.trials=3", "--trust")[0] == 0
    assert Path("ran").exists()


@pytest.mark.slow
def test_a_strangers_mirror_says_what_it_would_install_and_set_on_a_cluster_of_yours(capsys, monkeypatch):
    shutil.copy(TABLE, "table.csv")
    url = mirrored(capsys, monkeypatch, *TABLE_DATA)
    environment = {"pip": ["theirs==1"], "env_vars": {"LD_PRELOAD": "theirs.so"}}
    put_in_mirror("dispatch", name="ray", address="ray://127.0.0.1:9", environment=environment)
    err = refused(capsys, "resume", url, "dispatch.address=ray://127.0.0.1:8")
    packages = "dispatch.environment.pip=['theirs==1'], dispatch.environment.env_vars.LD_PRELOAD='theirs.so'"
    assert f"and its workers have {packages}" in err


def put_in_mirror(section, **values):
    """Change a section of the configuration in the mirror, as its owner can."""
    manifest = json.loads(Path("mirror/manifest.json").read_text())
    config = yaml.safe_load(Path("mirror/files", manifest["files"]["config.yaml"]).read_text())
    config[section] |= values
    text = yaml.safe_dump(config, sort_keys=False)
    manifest["files"]["config.yaml"] = digest = hashlib.sha256(text.encode()).hexdigest()
    Path("mirror/files", digest).write_text(text)
    Path("mirror/manifest.json").write_text(json.dumps(manifest))


@pytest.mark.quick("link")
@pytest.mark.slow
@pytest.mark.parametrize("way", ["absolute", "above", "link"])
def test_a_file_outside_of_the_working_directory_is_named_before_it_is_read(capsys, monkeypatch, tmp_path, way):
    here = Path.cwd()
    shutil.copy(TABLE, tmp_path / "private.csv")
    (here / "inner").mkdir()
    monkeypatch.chdir(here / "inner")
    Path("link.csv").symlink_to(tmp_path / "private.csv")
    path = {"absolute": tmp_path / "private.csv", "above": "../private.csv", "link": "link.csv"}[way]
    handed_on(capsys, monkeypatch, *TABLE_DATA, f"data.path={path}")
    for command in COMMANDS:
        assert f"reads outside of the working directory: data.path='{path}'" in refused(capsys, *command)
    shutil.copy(TABLE, "mine.csv")
    assert hpo(capsys, "reproduce", "mailed.json", "data.path=mine.csv")[0] == 0
