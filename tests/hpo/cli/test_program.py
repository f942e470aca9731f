"""`hpo` as a program of its own, and what it leaves alone where it runs inside another."""

import re
import signal
import subprocess
import sys
import time
from collections import deque
from pathlib import Path

import pytest

from hpo import __version__
from hpo.session.stopping import Stopped, Stopping
from hpo.workers.training.tasks import Payload
from hpo.workers.training.worker import run_task
from tests.faults.driver import LOCAL, TOY
from tests.studies import REPOSITORY, environment

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Where a process is ended without Python's own leave: the command's own, and children that this toolkit or a user's
# code has made.
ENDS_AT_ONCE = {
    "hpo/session/program.py": "asserts that the process is the command's own",
    "hpo/session/stopping.py": "asks the same",
    "hpo/workers/dispatch/process/task_process.py": "a copy of a worker's child",
    "hpo/workers/objective/process_state.py": "a copy of a process that a user's code made",
    "hpo/track/process.py": "MLflow's process",
}
LEAVES_A_THREAD = """
import atexit, threading, time
from concurrent.futures import ThreadPoolExecutor
pool = ThreadPoolExecutor()

def run(task):
    threading.Thread(target=time.sleep, args=(SECONDS,), name="left").start()
    pool.submit(len, "")
    atexit.register(print, "finished")
    raise ValueError
"""
# What a notebook's cell does, and its user; then the kernel goes on.
NOTEBOOK = """
import os, signal, sys, threading, time
from pathlib import Path
from hpo.cli.main import main

def user():
    while not Path(sys.argv[1]).exists():
        time.sleep(0.05)
    os.kill(os.getpid(), getattr(signal, sys.argv[2]))

before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)], os.umask(0o022)
threading.Thread(target=user, daemon=True).start()
try:
    print("returned", main(sys.argv[3:]))
except KeyboardInterrupt as error:
    print("raised", type(error).__name__, error.args)
after = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)], os.umask(0o022)
print("as before" if after[0] == before[0] else after)
"""


def test_it_runs_as_a_module_by_the_name_of_the_package():
    def said(*words):
        command = [sys.executable, "-m", "hpo", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    assert said("--version") == (0, f"hpo {__version__}\n", "")
    code, _, err = said("serach")
    assert (code, err.count("\n")) == (2, 1)


def in_a_notebook(flag, number, *arguments):
    command = [sys.executable, "-c", NOTEBOOK, flag, number.name, *arguments]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.slow("where0-2")
@pytest.mark.nightly
@pytest.mark.parametrize(
    ("where", "number"),
    [(LOCAL, signal.SIGINT), ((*TOY, "dispatch.workers=1"), signal.SIGTERM)],
)
def test_an_interrupted_search_leaves_the_program_alive_that_called_it(where, number):
    done = in_a_notebook("sleeps", number, "search", "objective=tests.faults.objectives:sleeps", *where)
    assert (done.returncode, done.stderr.count("Traceback")) == (0, 0), done.stderr
    assert f"raised Stopped ({int(number)},)\nas before\n" in done.stdout
    assert "continue with: hpo resume toy" in done.stderr


def test_an_interruption_before_the_search_has_begun_leaves_it_alive_as_well():
    Path("waits.py").write_text("import time\nfrom pathlib import Path\nPath('flag').touch()\ntime.sleep(60)\n")
    done = in_a_notebook("flag", signal.SIGINT, "search", "objective=waits:run", *LOCAL)
    assert (done.returncode, done.stdout) == (0, "raised Interruption (2,)\nas before\n"), done.stderr


def test_in_another_program_the_second_signal_raises_wherever_it_comes_and_the_handlers_are_put_back():
    before = [signal.getsignal(number) for number in SIGNALS]
    with Stopping() as stopping:
        signal.raise_signal(signal.SIGTERM)
        assert stopping.number == signal.SIGTERM
        with pytest.raises(Stopped):
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(Stopped):
            stopping.check()
    assert [signal.getsignal(number) for number in SIGNALS] == before


def ignores_signals(task):
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    yield {"epoch": 1}
    while signal.getsignal(signal.SIGTERM) is signal.SIG_IGN:
        time.sleep(0.01)
    signal.raise_signal(signal.SIGTERM)
    return 1.0


def checked_for_seconds(stopping):
    for _ in range(200):
        stopping.check()
        time.sleep(0.02)


def test_a_signal_that_an_objective_ignores_stops_the_search_when_it_has_ended_its_step():
    """What it does with signals lasts while it runs; while it runs, they are counted."""
    payload = Payload(f"{__name__}:ignores_signals", {}, "score")
    with Stopping() as stopping:
        handlers = [signal.getsignal(number) for number in SIGNALS]
        steps = run_task(payload)
        next(steps)
        assert [signal.getsignal(number) for number in SIGNALS] == handlers
        deque(steps, maxlen=0)
        assert [signal.getsignal(number) for number in SIGNALS] == handlers
        assert stopping.number is None
        with pytest.raises(Stopped, match=str(int(signal.SIGTERM))):
            checked_for_seconds(stopping)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("seconds", "says"), [(60, "a thread of the objective ('left') did not end, so it was stopped\n"), (0, "")]
)
def test_a_thread_that_an_objective_has_left_holds_up_the_command_for_some_seconds_alone(seconds, says):
    """It ends with its own exit code, after what libraries do at Python's end."""
    Path("leaves.py").write_text(LEAVES_A_THREAD.replace("SECONDS", str(seconds)))
    code = (
        "import sys\nfrom hpo.cli.main import main\nfrom hpo.session import program\n"
        "program.SECONDS_FOR_THREADS = 0.3\nsys.exit(main())"
    )
    command = [sys.executable, "-c", code, "search", "objective=leaves:run", *LOCAL, "study.trials=1"]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False, timeout=30)
    assert (done.returncode, done.stderr, done.stdout.splitlines()[-1]) == (1, says, "finished")


def test_a_process_is_ended_at_once_in_known_places_alone():
    sources = {path.relative_to(REPOSITORY).as_posix(): path.read_text() for path in (REPOSITORY / "hpo").rglob("*.py")}
    assert {place for place, text in sources.items() if re.search(r"os\._exit\(|os\.abort\(", text)} == set(
        ENDS_AT_ONCE
    )
