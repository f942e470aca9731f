"""No room, no permission, no descriptors: one line with the path and what is free; afterwards the study goes on."""

import ctypes
import os
import resource
import subprocess
from pathlib import Path

import pytest

from tests.faults.driver import LOCAL, finished, gone_on, hpo
from tests.hpo.cli.commands import hpo as in_this_process


def refused(code, err, *words):
    """Assert that a command that the machine stopped ended with one line and no traceback."""
    lines = err.strip().splitlines()
    assert (code, lines[-1].startswith("error: ")) == (1, True), err
    for word in words:
        assert word in lines[-1]
    # A warning may say that there was no room for a backup.
    assert all(line.startswith(("error: ", "warning: ")) for line in lines)


def test_a_full_disk_under_a_worker_fails_no_trial(undisturbed, capsys):
    """The point is not to blame if a checkpoint cannot be written, so its trial stays open."""
    Path("disk_is_full").write_text("6")
    code, _, err = in_this_process(capsys, "search", "objective=toy_faults:full_disk", *LOCAL)
    refused(code, err, "trial 6", "No space left", "runs/toy/checkpoints", "bytes free", "hpo resume toy")
    Path("disk_is_full").unlink()
    assert gone_on() == undisturbed


@pytest.mark.nightly
def test_a_process_without_descriptors_prints_how_many_it_may_have(undisturbed):
    Path("files_run_out").write_text("4")
    few = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))}
    code, _, err = hpo("search", "objective=toy_faults:many_files", *LOCAL, **few)
    refused(code, err, "Too many open files", "64 files", "hpo resume toy")
    Path("files_run_out").unlink()
    assert gone_on() == undisturbed


@pytest.fixture
def small_disk(tmp_path):
    """A file system of its own with little room; the working directory is in it."""
    folder = tmp_path / "small"
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", folder], capture_output=True, check=False)
    if made.returncode:
        pytest.skip("mounting a file system is not allowed here")
    before = Path.cwd()
    os.chdir(folder)
    yield folder
    os.chdir(before)
    subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.mark.slow
def test_a_disk_that_is_full_at_the_start_or_after_some_trials(undisturbed, small_disk):
    search = ("search", "objective=toys:score", *LOCAL)
    ballast = small_disk / "ballast"
    for room in (0, 600):  # KiB
        ballast.write_bytes(bytes((24 * 1024 - room) * 1024))
        code, _, err = hpo(*search)
        refused(code, err, "bytes free")
        ballast.unlink()
    assert gone_on() == undisturbed


@pytest.mark.nightly
def test_a_file_system_that_becomes_read_only(undisturbed, small_disk):
    finished("search", "objective=toys:score", *LOCAL, "study.trials=5")
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    code, _, err = hpo("resume", "toy", "study.trials=15")
    refused(code, err, "Read-only file system", "runs/toy", "bytes free")
    subprocess.run(["mount", "-o", "remount,rw", small_disk], check=True)
    assert finished("resume", "toy", "study.trials=15") == undisturbed


def bound_by_permissions():
    """Give up what lets root pass over permissions; for everybody else this changes nothing."""
    drop_from_bounding_set, dac_override, dac_read_search = 24, 1, 2
    for capability in (dac_override, dac_read_search):
        ctypes.CDLL(None).prctl(drop_from_bounding_set, capability, 0, 0, 0)


@pytest.mark.slow
def test_a_folder_that_may_not_be_written():
    Path("runs").mkdir(mode=0o500)
    code, _, err = hpo("search", "objective=toys:score", *LOCAL, preexec_fn=bound_by_permissions)
    refused(code, err, "runs", "bytes free")
