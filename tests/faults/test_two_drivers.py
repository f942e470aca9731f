"""One driver a study: a second is refused with who has it, and that of a dead one is taken over."""

import os
from pathlib import Path

import pytest

from tests.faults.driver import LOCAL, gone_on, hpo, start, wait_for_line

SEARCH = ("search", "objective=tests.faults.objectives:waits", *LOCAL)


@pytest.mark.slow
def test_a_second_driver_is_refused_with_process_and_host_and_a_dead_ones_lock_is_taken_over(undisturbed):
    Path("wait").touch()
    first = start(*SEARCH)
    wait_for_line(first, " 2/15")
    code, _, err = hpo("resume", "toy")
    assert code == 2
    assert f"runs/toy is being run by process {first.pid} on {os.uname().nodename}" in err
    assert len(err.strip().splitlines()) == 1
    first.kill()
    first.communicate()
    Path("wait").unlink()
    assert gone_on() == undisturbed
