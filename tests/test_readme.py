"""The README's commands and its example of an own trainer, as they stand there."""

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from hpo.cli.main import COMMANDS, main
from tests.studies import REPOSITORY, rows

README = (REPOSITORY / "README.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, re.DOTALL)
LINES = [line for language, block in BLOCKS if language == "bash" for line in block.splitlines()]


def commands():
    """Yield the words of every `hpo` command in the README's shell blocks."""
    for line in LINES:
        for part in line.split("&&"):
            words = shlex.split(part, comments=True)
            if words[:1] == ["hpo"]:
                yield words[1:]


@pytest.mark.slow
def test_the_example_of_an_own_trainer_runs(capsys):
    assert main(["new", "forest"]) == 0
    assert main(["search", "--config-dir", "my_conf", "study=forest", "dispatch=local", "track=none"]) == 0
    trials = rows(Path("runs/forest/trials.csv"))
    assert len(trials) == 12
    assert max(float(trial["score"]) for trial in trials) > 0.9
    assert main(["test", "forest"]) == 0
    assert "180 examples, opened 1 time" in capsys.readouterr().out


@pytest.mark.slow
def test_the_script_runs(tmp_path):
    Path("tune.py").write_text(
        next(block for language, block in BLOCKS if language == "python" and "hpo.search" in block)
    )
    done = subprocess.run([sys.executable, "tune.py"], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "40/40" in done.stdout
    assert (tmp_path / "best.html").exists()
    assert main(["reproduce", "train"]) == 0


@pytest.mark.parametrize("words", [w for w in commands() if w[0] == "search"], ids=" ".join)
def test_every_search_command_composes(capsys, words):
    if "study=forest" in words:
        assert main(["new", "forest"]) == 0
    assert main([*words, "--cfg", "job"]) == 0


def test_a_search_over_a_table_runs(capsys):
    words = next(w for w in commands() if "data=table" in w and w[0] == "search")
    Path("tests").symlink_to(REPOSITORY / "tests")
    assert main(words) == 0
    assert "simulated: 8 workers" in capsys.readouterr().out


def test_our_strategies_drive_optuna_as_the_readme_shows():
    import optuna

    block = next(block for language, block in BLOCKS if "as_sampler" in block)
    names = {}
    exec(compile(block, "README.md", "exec"), names)  # Our own README.
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=names["sampler"])
    study.optimize(lambda t: t.suggest_float("lr", 1e-5, 1.0, log=True) * t.suggest_categorical("layers", [1, 2, 3]), 8)
    assert len(study.trials) == 8


@pytest.mark.slow
def test_the_comparison_of_strategies_runs(capsys):
    words = next(w for w in commands() if w[0] == "compare" and "--strategies" in w)
    Path("tests").symlink_to(REPOSITORY / "tests")
    assert main([*words, "--repeats", "1"]) == 0
    assert "One search each does not compare" in capsys.readouterr().out


def test_every_command_exists_and_every_command_is_shown():
    assert {words[0] for words in commands()} == set(COMMANDS)


def test_the_tree_names_every_room():
    tree = next(block for language, block in BLOCKS if language == "text" and block.startswith("hpo/"))
    named = set(re.findall(r"[\w.]+(?:/|\.py)", tree))
    for package in ("hpo", "model"):
        folder = REPOSITORY / package
        rooms = {f"{path.name}/" for path in folder.iterdir() if path.is_dir() and path.name != "__pycache__"}
        rooms |= {path.name for path in folder.glob("*.py") if not path.name.startswith("__")}
        assert rooms <= named
    for path in (REPOSITORY / "hpo" / "engine").iterdir():
        assert path.name.startswith("__") or {path.name, f"{path.name}/"} & named, path


def test_one_version_stands_everywhere():
    version = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["version"]
    assert yaml.safe_load((REPOSITORY / "CITATION.cff").read_text())["version"] == version
    headings = re.findall(r"^## ([\d.]+)", (REPOSITORY / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == version


def test_what_the_documents_for_contributors_name_is_there():
    for name in ("CONTRIBUTING.md", "SECURITY.md", "README.md"):
        text = (REPOSITORY / name).read_text()
        for path in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
            assert (REPOSITORY / path).exists(), f"{name}: {path}"
    for path in re.findall(
        r"`((?:hpo|model|conf|tests|\.github)/[\w./-]*)`", (REPOSITORY / "CONTRIBUTING.md").read_text()
    ):
        assert (REPOSITORY / path).exists(), path
