"""Tasks of several processes in Ray: a killed one takes the others with it, once, and the task is tried again."""

import os
import signal
import time
from pathlib import Path

import psutil
import pytest

from hpo.errors import DispatchError
from hpo.workers.dispatch.ray.pool import RayDispatcher
from hpo.workers.training.tasks import Payload, Task
from tests.studies import dispatch_section

MINE = """
import os, time
from pathlib import Path

def run(task):
    rank, trial = os.environ["RANK"], task["trial"]
    me = Path(f"{trial}_{rank}_{len(list(Path().glob(f'{trial}_{rank}_*')))}")
    # Whole at once: the test reads it as soon as it is there.
    written = Path(f"writing_{rank}")
    written.write_text(str(os.getpid()))
    written.rename(me)
    # The first try is waited for, to be killed.
    while me.name.endswith("_0") and not Path("go_on").exists():
        time.sleep(0.02)
    return {"score": 1.0, "world": int(os.environ["WORLD_SIZE"])}
"""


@pytest.mark.slow("0")
@pytest.mark.nightly
@pytest.mark.parametrize("victim", [0, 1, 2])
def test_a_killed_process_takes_the_others_with_it_and_the_task_is_tried_again(victim):
    Path("mine.py").write_text(MINE)
    pool = RayDispatcher(
        dispatch_section(workers=1, processes_per_task=3, cpus_per_worker=0.3, retries=1), str(Path.cwd())
    )
    try:
        pool.submit(Task(0, 0, Payload("mine:run", {}, "score", processes=3)))
        deadline = time.monotonic() + 60
        while len(list(Path().glob("0_*_0"))) < 3:
            assert time.monotonic() < deadline
            pool.wait(0.1)
        first = [psutil.Process(int(path.read_text())) for path in sorted(Path().glob("0_*_0"))]
        os.kill(first[victim].pid, signal.SIGKILL)
        outcome = None
        while outcome is None:
            outcome = next((report.outcome for report in pool.wait(1.0) if report.outcome), None)
        assert (outcome.error, outcome.attempt, outcome.metrics["world"]) == (None, 2, 3)
        assert not any(process.is_running() and process.status() != "zombie" for process in first)
        assert len(list(Path().glob("0_*"))) == 6
    finally:
        pool.close()


@pytest.mark.nightly
def test_processes_for_which_there_is_no_room_are_refused():
    with pytest.raises(DispatchError, match=r"1 worker.* of 999 processes of 1 CPU and 0 GPU each .* only 0 can"):
        RayDispatcher(dispatch_section(workers=1, processes_per_task=999), None)
