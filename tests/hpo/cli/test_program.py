"""`hpo` as a program of its own or inside another one, `hpo train`, and `hpo new` with the page of its contract."""

import re
import signal
import subprocess
import sys
import time
from collections import deque
from dataclasses import fields
from pathlib import Path

import pytest
import yaml

import hpo as toolkit
from hpo import __version__
from hpo.session.stopping import Stopped, Stopping
from hpo.workers.objective.objective import Objective
from hpo.workers.training.tasks import Payload
from hpo.workers.training.worker import run_task
from tests.faults.driver import LOCAL
from tests.hpo.cli.commands import hpo, main, refused
from tests.studies import REPOSITORY, environment, shipped

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LEAVES_A_THREAD = """
import atexit, threading, time
from concurrent.futures import ThreadPoolExecutor
pool = ThreadPoolExecutor()

def run(task):
    threading.Thread(target=time.sleep, args=(60,), name="left").start()
    pool.submit(len, "")
    atexit.register(print, "finished")
    raise ValueError
"""


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


def test_in_another_program_an_interruption_before_a_search_has_begun_is_raised(capsys, monkeypatch):
    monkeypatch.setattr("hpo.cli.main.function_of", lambda _: signal.raise_signal(signal.SIGTERM))
    before = [signal.getsignal(number) for number in SIGNALS]
    with pytest.raises(KeyboardInterrupt) as raised:
        main(["list"])
    assert (raised.value.args, [signal.getsignal(number) for number in SIGNALS]) == ((signal.SIGTERM,), before)
    assert hpo(capsys, "--version") == (0, f"hpo {__version__}\n", "")


def ignores_signals(task):
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    yield {"epoch": 1}
    while signal.getsignal(signal.SIGTERM) is signal.SIG_IGN:
        time.sleep(0.01)
    signal.raise_signal(signal.SIGTERM)
    return 1.0


def check_for_seconds(stopping):
    for _ in range(200):
        stopping.check()
        time.sleep(0.02)


def test_a_signal_that_an_objective_ignores_stops_the_search_when_it_has_ended_its_step():
    with Stopping() as stopping:
        handlers = [signal.getsignal(number) for number in SIGNALS]
        steps = run_task(Payload(f"{__name__}:ignores_signals", {}, "score"))
        next(steps)
        assert [signal.getsignal(number) for number in SIGNALS] == handlers
        deque(steps, maxlen=0)
        assert [signal.getsignal(number) for number in SIGNALS] == handlers
        assert stopping.number is None
        with pytest.raises(Stopped, match=str(int(signal.SIGTERM))):
            check_for_seconds(stopping)


@pytest.mark.nightly
def test_a_thread_that_an_objective_has_left_holds_up_the_command_for_some_seconds_alone():
    Path("leaves.py").write_text(LEAVES_A_THREAD)
    code = "import sys\nfrom hpo.cli.main import main\nfrom hpo.session import program\n"
    code += "program.SECONDS_FOR_THREADS = 0.3\nsys.exit(main())"
    command = [sys.executable, "-c", code, "search", "objective=leaves:run", *LOCAL, "study.trials=1"]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False, timeout=30)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "finished")
    assert done.stderr == "threads that the objective left running were stopped: 'left'\n"


TRAINER = """
def run_fold(task):
    yield {"warning": "this may take a while"}
    yield {"epoch": 1, "loss": 0.25, "phase": 3}
    return {"score": 1.5}
"""


def test_warnings_and_points_of_every_kind_are_shown(capsys, monkeypatch):
    monkeypatch.syspath_prepend(str(Path.cwd()))
    Path("talking_trainer.py").write_text(TRAINER)
    study = {"name": "own", "metric": "score", "direction": "maximize"}
    tree = {"objective": "talking_trainer:run_fold", "study": study, "split": shipped("default", "split")}
    Path("own.yaml").write_text(yaml.safe_dump(tree | {"dispatch": {"threads": 1}}))
    code, out, err = hpo(capsys, "train", "--config", "own.yaml")
    assert (code, err, "epoch 1  loss 0.25  phase 3" in out) == (0, "warning: this may take a while\n", True)
    assert "score = 1.5" in out
    assert "no study exists yet" in refused(capsys, "show", "own", is_silent=True), "it is no study"


@pytest.mark.parametrize("given", ["model.shape=blue", "data.path=", "training.lr=-1", "study.direction=up"])
def test_a_configuration_that_is_refused_is_not_printed(capsys, given):
    for command in ("search", "train"):
        assert given.partition("=")[0] in refused(capsys, command, given, "--cfg", "job", is_silent=True)
    assert "space.model.num_layers" in refused(capsys, "search", "space.model.num_layers=[0]", "--cfg", "job")


FILES = [Path("forest.py"), Path("my_conf/study/forest.yaml")]


def test_it_writes_two_files_names_what_comes_next_and_overwrites_nothing(capsys):
    FILES[1].parent.mkdir(parents=True)
    FILES[1].write_text("mine")
    assert "my_conf/study/forest.yaml: exists already" in refused(capsys, "new", "forest")
    assert (FILES[0].exists(), FILES[1].read_text()) == (False, "mine")
    FILES[1].unlink()
    assert main(["new", "forest"]) == 0
    next_line = "next:   hpo search --config-dir my_conf study=forest"
    assert capsys.readouterr().out.splitlines() == ["wrote forest.py and my_conf/study/forest.yaml", next_line]
    assert not any("NAME" in file.read_text() for file in FILES)
    with pytest.raises(toolkit.HpoError, match="exists already"):
        toolkit.new("forest")
    assert toolkit.new("meadow").files[0] == Path("meadow.py")


@pytest.mark.parametrize("name", ["3x", "a-b", "class", "model", "hpo", "", "../x", "größe", "numpy", "yes", "report"])
def test_a_name_that_no_module_can_have_or_another_has_is_refused(name, capsys):
    says = refused(capsys, "new", name)
    assert re.match(r"error: name: (must be the name of a |must not have a meaning in |a module '.*' exists alr)", says)
    assert list(Path().iterdir()) == []


def test_the_page_has_every_key_of_a_task_and_every_optional_function():
    page = (REPOSITORY / "docs/extending/write_an_objective.md").read_text()
    keys = Payload("a:b", {}, "loss", test=[0], curves=[]).task({}).keys() - {"objective"}
    # Only the toolkit's own modules have `code_keys`, `code_files` and REVISION.
    own = {"path", "run_fold", "pickled", "code_keys", "code_files", "revision"}
    offered = {field.name for field in fields(Objective)} - own
    for title, names in (("What `trial` and `task` have", keys), ("What else", offered)):
        rows = re.findall(r"^\| (`.*?) \|", page.partition(f"## {title}")[2].partition("\n## ")[0], re.MULTILINE)
        assert {name.lower() for name in re.findall(r"`(\w+)", " ".join(rows))} == names
