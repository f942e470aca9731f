"""Completion of words: in bash where it is installed, and by the answers that the shells' scripts get."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hpo.cli.completion import SCRIPTS
from hpo.cli.main import COMMANDS, FUNCTIONS
from tests.hpo.cli.commands import hpo, prints, refused
from tests.studies import environment

KNOWN = """\
training: {epochs: 3}
study: {name: digits, trials: 8, seed: 1}
space: {first: [default], training: {lr: {low: 0.1, high: 1}}, model: {layers: [1, 2]}}
"""


@pytest.fixture(autouse=True)
def here(monkeypatch, tmp_path):
    """Let there be a study, one that cannot be read, a file, and a configuration of the user's."""
    monkeypatch.chdir(tmp_path)
    for path in ("runs/digits/config.yaml", "runs/digits_two/config.yaml", "runs/none/x", "mine/study/forest.yaml"):
        Path(path).parent.mkdir(parents=True)
        Path(path).touch()
    Path("runs/digits/config.yaml").write_text(KNOWN)
    Path("mine/study/forest.yaml").write_text("trees: 9  # how many\n")
    Path("reviews.csv").touch()


def answered(capsys, *words):
    code, out, err = hpo(capsys, "--complete", "fish", *words)
    assert (code, err) == (0, "")
    offered = [line.partition("\t")[0] for line in out.splitlines()]
    cut = max(words[-1].rfind("="), words[-1].rfind(":")) + 1
    in_bash = prints(capsys, "--complete", "bash", " ".join(["hpo", *words])).splitlines()
    assert in_bash == [word[cut:] for word in offered]
    return offered


@pytest.mark.parametrize(("words", "expected"), [
    (["wat"], ["watch"]), (["--v"], ["--version"]),
    (["--install-completion", "f"], ["fish"]), (["no-such-command", ""], []),
    (["show", ""], ["digits", "digits_two"]), (["show", "--trial", ""], []),
    (["compare", "digits_"], ["digits_two"]),
    (["search", "data/metrics=def"], ["data/metrics=default"]), (["search", "study=f"], []),
    (["search", "--progress", "j"], ["json"]), (["search", "--progress=n"], ["--progress=none"]),
    (["search", "objective=mine:f", "model.d_"], []),
    (["search", "objective=command", "command.l"], ["command.line="]),
    (["search", "data=translation", "model.tied"], ["model.tied_embeddings="]),
    (["search", "strategy.et"], []),
    (["train", "training.ep"], ["training.epochs=", "training.epsilon="]),
    (["resume", "digits", "tr"], ["track=mlflow", "track=none"]),
    (["extend", "digits", "t"], ["track=mlflow", "track=none", "training.epochs="]),
    (["add", "digits", "model.layers=1", "training.lr="], ["training.lr="]),
    (["show", "--trial", "3", "digits_"], ["digits_two"]), (["show", "digits", "--t"], ["--trial"]),
    (["search", "strategy=gr"], ["strategy=grid"]),
    (["search", "--config-dir", "mine", "study=f"], ["study=forest"]),
    (["search", "study.tri"], ["study.trials=", "study.trial_minutes=", "study.trial_files_bytes="]),
    (["search", "strategy=asha", "strategy.et"], ["strategy.eta="]),
    (["search", "space.training."], ["space.training.lr=", "space.training.batch_size="]),
    (["search", "--config-dir", "mine", "study=forest", "study.tre"], ["study.trees="]),
    (["resume", "digits", "s"], ["study.trials="]), (["add", "digits", ""], ["training.lr=", "model.layers="]),
    *((["resume", study, "study.tri"], []) for study in ("digits_two", "none", "s3://a")),
])  # fmt: skip
def test_words_are_completed(capsys, words, expected):
    assert answered(capsys, *words) == expected


def test_the_options_of_every_command_are_offered(capsys):
    for name in FUNCTIONS:
        assert {"--help", "--json", "--debug"} <= set(answered(capsys, name, "--")), name


def test_all_commands_are_offered_with_what_they_do(capsys):
    assert answered(capsys, "") == [*COMMANDS]
    assert f"show\t{COMMANDS['show']}\n" in hpo(capsys, "--complete", "fish", "")[1]
    assert hpo(capsys, "--complete", "zsh", "sho")[1] == f"show:{COMMANDS['show']}\n"
    assert hpo(capsys, "--complete", "bash", 'hpo show "dig') == (0, "", "")


@pytest.mark.parametrize(("shell", "place"), [
    ("bash", ".local/share/bash-completion/completions/hpo"), ("zsh", ".zfunc/_hpo"),
    ("fish", ".config/fish/completions/hpo.fish"),
])  # fmt: skip
def test_a_script_is_written_where_its_shell_looks(capsys, monkeypatch, tmp_path, shell, place):
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "ZDOTDIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", f"/bin/{shell}")
    code, out, _ = hpo(capsys, "--install-completion")
    assert (code, out.startswith(f"wrote {tmp_path / place}; start a new {shell} ")) == (0, True)
    assert (tmp_path / place).read_text() == SCRIPTS[shell]
    assert hpo(capsys, "--install-completion", shell)[1] == out


def test_a_shell_that_is_not_known_is_refused(capsys, monkeypatch):
    assert "did you mean 'fish'?" in refused(capsys, "--install-completion", "fsh", is_silent=True)
    monkeypatch.setenv("SHELL", "/bin/dash")
    assert "one of bash, zsh, fish, $SHELL is 'dash'" in refused(capsys, "--install-completion", is_silent=True)


BASH = """
complete_line() { COMP_LINE=$1; COMP_POINT=${#1}; _hpo hpo; printf '%s ' "${COMPREPLY[@]}"; echo; }
complete_line 'hpo wat'; complete_line 'hpo show '; complete_line 'hpo new '; complete_line 'hpo search strategy=gri'
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_in_bash(tmp_path):
    (tmp_path / "hpo").write_text(f'#!/bin/sh\nexec {sys.executable} -m hpo "$@"\n')
    (tmp_path / "hpo").chmod(0o755)
    variables = environment() | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = ["bash", "--norc", "-c", SCRIPTS["bash"] + BASH]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["watch ", "digits digits_two ", " ", "grid "]
