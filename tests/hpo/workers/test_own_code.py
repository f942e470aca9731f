"""A process compares the code of the user's that it imports with that which the search began with."""

import contextlib
import importlib
import inspect
import sys
from pathlib import Path

import pytest

from hpo.workers.dispatch.process.child import Child
from hpo.workers.objective.pickled_function import PickledFunction
from hpo.workers.objective.source_files import digests_of
from hpo.workers.training.tasks import Payload
from hpo.workers.training.worker import run_task

TRAIN = "import beside_ours\ndef run(config):\n    import late_ours\n    return beside_ours.A + late_ours.B\n"
SAID = "objective: {} has changed while the search runs; undo the change, or resume with --allow-changes"


@pytest.fixture
def payload():
    """A task of a module in the working directory, with the code as it is now."""
    Path("train_ours.py").write_text(TRAIN)
    Path("beside_ours.py").write_text("A = 1.0\n")
    Path("late_ours.py").write_text("B = 1.0\n")
    path = sys.path[:]
    yield Payload("train_ours:run(config)", {}, "score", code=digests_of("train_ours"))
    sys.path[:] = path
    forget()


def forget():
    for name in [name for name in sys.modules if name.endswith("_ours")]:
        del sys.modules[name]
    importlib.invalidate_caches()


def ended(payload):
    *_, last = run_task(payload, str(Path.cwd()))
    return last.get("machine_fault") or last["outcome"].metrics or last["outcome"].error


@pytest.mark.slow
def test_each_process_compares_once_what_it_imports(payload):
    def run(child):
        *_, last = child.run(payload, "one")
        return last.get("machine_fault") or last["outcome"].metrics

    with contextlib.closing(Child(str(Path.cwd()))) as before, contextlib.closing(Child(str(Path.cwd()))) as after:
        assert run(before) == {"score": 2.0}
        Path("train_ours.py").write_text(TRAIN.replace("return", "return 1000 *"))
        assert run(before) == {"score": 2.0}
        assert run(after) == SAID.format("train_ours.py")
        after.renew()
        Path("train_ours.py").write_text(f'"""Words do not count."""\n{TRAIN}')
        assert run(after) == {"score": 2.0}


# Of another length than what stands there in the end: within a second Python takes a file of the same length for the
# one that it has compiled.
@pytest.mark.parametrize("text", ["B = 20.0\n", "B = nothing\n", "B = \n", None])
def test_a_module_that_a_training_imports_late_is_compared_too(payload, text):
    """Whether it can be imported or not: no trial has failed."""
    late = Path("late_ours.py")
    late.unlink()
    if text is not None:
        late.write_text(text)
        assert ended(payload) == SAID.format("late_ours.py")
    late.write_text("B = 1.0\n")
    assert ended(payload) == {"score": 2.0}


def test_a_file_that_is_as_before_again_after_its_import_has_changed(payload):
    before = Path("beside_ours.py").read_text()
    Path("beside_ours.py").write_text(f"A = 2.0\nwith open(__file__, 'w') as file:\n    file.write({before!r})\n")
    assert ended(payload) == SAID.format("beside_ours.py")
    assert Path("beside_ours.py").read_text() == before


def test_the_modules_of_a_function_that_was_given_from_python_are_compared(payload):
    sys.path.insert(0, str(Path.cwd()))
    beside = importlib.import_module("beside_ours")
    pickled = PickledFunction.of(lambda config: beside.A, "given")
    Path("objective.pkl").write_bytes(pickled.to_bytes())
    given = Payload(
        "objective.pkl:given(config)", {}, "score", function_file="objective.pkl", code=digests_of("beside_ours")
    )
    forget()
    assert ended(given) == {"score": 1.0}
    Path("beside_ours.py").write_text("A = 20.0\n")
    forget()
    # What the driver wrote down, in a process that has not compared it yet.
    again = Payload(**vars(given) | {"code": {**given.code, "another_ours.py": ""}})
    assert ended(again) == SAID.format("beside_ours.py")


def test_a_librarys_module_of_the_same_name_is_not_compared(payload):
    Path("inspect.py").write_text("NOT = 'that of Python'\n")
    code = {**payload.code, **digests_of("train_ours"), "inspect.py": "0123456789abcdef"}
    assert inspect.__file__ != str(Path("inspect.py").absolute())
    assert ended(Payload(**vars(payload) | {"code": code})) == {"score": 2.0}
