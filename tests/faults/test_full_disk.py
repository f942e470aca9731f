"""No room, no permission, no descriptors: one line with the path and what is free; afterwards the study goes on."""

import ctypes
import errno
import os
import subprocess
from pathlib import Path

import pytest

from tests.faults.driver import LOCAL, gone_on, hpo
from tests.hpo.cli.commands import hpo as in_this_process


def refused(code, err, *words):
    lines = err.strip().splitlines()
    assert (code, lines[-1].startswith("error: ")) == (1, True), err
    for word in words:
        assert word in lines[-1]
    # A warning may say that there was no room for a backup.
    assert all(line.startswith(("error: ", "warning: ")) for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ENOSPC", "EROFS", "EMFILE"])
def test_a_machine_that_can_write_or_open_nothing_more_fails_no_trial(undisturbed, capsys, name):
    Path("disk_is_full").write_text("6")
    code, _, err = in_this_process(capsys, "search", "objective=toy_faults:full_disk", f"+error={name}", *LOCAL)
    said, left = os.strerror(getattr(errno, name)), "files" if name == "EMFILE" else "bytes free"
    refused(code, err, "trial 6", said, "runs/toy/checkpoints", left, "hpo resume toy")
    Path("disk_is_full").unlink()
    assert gone_on() == undisturbed


@pytest.fixture
def small_disk(tmp_path):
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
    search, ballast = ("search", "objective=toys:score", *LOCAL), small_disk / "ballast"
    for room in (0, 600):  # KiB
        ballast.write_bytes(bytes((24 * 1024 - room) * 1024))
        code, _, err = hpo(*search)
        refused(code, err, "bytes free")
        ballast.unlink()
    assert gone_on() == undisturbed


def bound_by_permissions():
    """Give up what lets root pass over permissions; for everybody else this changes nothing."""
    drop_from_bounding_set, dac_override, dac_read_search = 24, 1, 2
    for capability in (dac_override, dac_read_search):
        ctypes.CDLL(None).prctl(drop_from_bounding_set, capability, 0, 0, 0)


@pytest.mark.slow
def test_a_folder_that_may_not_be_read_or_written():
    Path("runs/theirs").mkdir(parents=True, mode=0o000)
    code, out, err = hpo("list", preexec_fn=bound_by_permissions)
    assert (code, "theirs: runs/theirs: cannot be read: Permission denied" in out) == (0, True), err
    code, _, err = hpo("show", "theirs", preexec_fn=bound_by_permissions)
    assert (code, "runs/theirs cannot be read: permission denied" in err) == (2, True)
    Path("runs").chmod(0o500)
    code, _, err = hpo("search", "objective=toys:score", *LOCAL, preexec_fn=bound_by_permissions)
    refused(code, err, "runs", "bytes free")
