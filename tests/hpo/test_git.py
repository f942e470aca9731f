"""Git is asked about a folder, and nothing that the folder's repository names is run."""

import subprocess
from pathlib import Path

import pytest

from hpo.git import git

STATUS = ("status", "--porcelain", "--untracked-files=no", "--ignore-submodules=all")


@pytest.fixture
def repository(tmp_path):
    """Make a repository with one file, on which git has to run a filter before it knows whether it changed."""
    run_git("init", "-q", ".")
    Path("file.txt").write_text("x\n")
    Path(".gitattributes").write_text("*.txt filter=evil\n")
    run_git("add", "-A")
    run_git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x")
    Path("file.txt").write_text("x\n")
    return tmp_path


def run_git(*arguments):
    subprocess.run(["git", *arguments], check=True)


@pytest.mark.parametrize("way", ["filter", "process", "included", "watcher", "hook"])
def test_nothing_that_a_repository_names_runs(repository, way):
    run = f"touch {repository}/ran; cat"
    settings = {"filter": {"filter.evil.clean": run}, "watcher": {"core.fsmonitor": run}}
    settings["process"] = {"filter.evil.process": run, "filter.evil.required": "true"}
    settings["included"] = {"include.path": "../more"}
    Path("more").write_text(f'[filter "evil"]\n\tclean = "{run}"\n')
    for key, value in settings.get(way, {}).items():
        run_git("config", key, value)
    if way == "hook":
        hook = Path(".git/hooks/post-index-change")
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\n{run}\n")
        hook.chmod(0o755)
    assert (git(*STATUS), len(git("rev-parse", "HEAD").strip())) == ("", 40)
    assert not Path("ran").exists()
    # So that this test tests something.
    subprocess.run(["git", *STATUS], check=False, capture_output=True)
    assert Path("ran").exists()


def test_a_filter_that_cannot_be_overridden_is_not_asked(repository):
    run_git("config", "filter.a=b.clean", f"touch {repository}/ran; cat")
    Path(".gitattributes").write_text("*.txt filter=a=b\n")
    assert git(*STATUS) is None
    assert not Path("ran").exists()


def test_outside_of_a_repository_there_is_no_answer(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert git("rev-parse", "HEAD") is None
