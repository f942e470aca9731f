"""What counts as the code of a study: any change of it is noticed, in the study, its functions and each worker."""

import contextlib
import functools
import importlib
import inspect
import pickle
import subprocess
import sys
import types
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hpo.engine import loop
from hpo.engine.strategies import STRATEGIES
from hpo.engine.strategies.random import RandomSearch
from hpo.errors import HpoError
from hpo.study.basis.source_code import describe_code
from hpo.study.opening import code_of
from hpo.workers.dispatch.process.child import Child
from hpo.workers.objective.definitions import dumps
from hpo.workers.objective.objective import Objective
from hpo.workers.objective.path import origin_of
from hpo.workers.objective.pickled_function import PickledFunction
from hpo.workers.objective.resolution import resolve
from hpo.workers.objective.source_files import digests_of
from hpo.workers.training.tasks import Payload
from hpo.workers.training.worker import run_task
from model import objective as model_objective
from tests.studies import SPACES, environment, prepared, refuses, searched_by, toy_config


def using(value):
    return lambda config: value


def with_member(member):
    class Scale:
        by = member

    return lambda config: Scale.by


def with_method(value):
    class Scale:
        def by(self):
            return value

    return using(Scale().by)


def wrapped(value):
    def inner(config):
        return 1

    @functools.wraps(inner)
    def wrapper(config):
        return value * inner(config)

    return wrapper


def typed(text, name="__main__"):
    """Return a function of a prompt, of `python -c` or of `exec`, which has no source."""
    variables = {"__name__": name} if name else {}
    exec(text, variables)
    return variables["score"]


def new_module(text):
    module = types.ModuleType("settings")
    exec(text, vars(module))
    return lambda config: module.by


SCORE = "def score(config, k={{{0}, 'a', 'b'}}):\n    return [{0} * x for x in k]"
MAKERS = {
    "array": lambda value: using(np.array([value])),
    "path": lambda value: using(Path(str(value))),
    "set": lambda value: using({value, 0}),
    "partial": lambda value: functools.partial(lambda factor, config: factor, value),
    "cached function": lambda value: using(functools.lru_cache(maxsize=3)(lambda x: x * value)),
    "wrapper": wrapped,
    "attribute": with_member,
    "method": with_method,
    "method of another": lambda value: with_member((using, wrapped)[value - 1]),
    "cached method": lambda value: with_member(functools.cache(lambda self: value)),
    "static method": lambda value: with_member(staticmethod(lambda: value)),
    "class method": lambda value: with_member(classmethod(functools.lru_cache(lambda cls: value))),
    "partial method": lambda value: with_member(functools.partialmethod(using, value)),
    "cached property": lambda value: with_member(functools.cached_property(lambda self: value)),
    "property": lambda value: with_member(property(lambda self: value)),
    "setter": lambda value: with_member(property(using, lambda self, x: value)),
    "deleter": lambda value: with_member(property(using, using, lambda self: value)),
    "typed": lambda value: typed(SCORE.format(value)),
    "typed for no module": lambda value: typed(SCORE.format(value), None),
    "typed for a missing module": lambda value: typed(SCORE.format(value), "none"),
    "typed name": lambda value: typed(f"def score(config): return config.{'count' if value == 1 else 'index'}"),
    "value of a new module": lambda value: new_module(f"by = {value}"),
    "function of a new module": lambda value: new_module(f"def by(): return {value}"),
}
BY = "    def by(self): return VALUE\na = A(1)\ndef score(config): return a.by()"
TYPED = {
    "attribute": "class A:\n    by = VALUE\ndef score(config): return A.by",
    "method": f"class A:\n    def __init__(self, x): ...\n{BY}",
    "metaclass": "class B(type):\n    by = VALUE\nclass A(metaclass=B): ...\ndef score(config): return A.by",
    "slots": "class A:\n    __slots__ = ('x',)\na = A()\na.x = VALUE\ndef score(config): return a",
    "named tuple": f"from typing import NamedTuple\nclass A(NamedTuple):\n    x: int\n{BY}",
    "whole number": f"from enum import IntEnum\nclass A(IntEnum):\n    ONE = 1\n{BY}",
}
MAKERS |= {f"typed {kind}": lambda value, kind=kind: typed(TYPED[kind].replace("VALUE", str(value))) for kind in TYPED}


def key(function):
    return PickledFunction.of(function, "given").digest


@pytest.mark.parametrize("made", MAKERS)
def test_a_function_is_another_when_anything_that_it_uses_is(made):
    assert key(MAKERS[made](1)) == key(MAKERS[made](1)) != key(MAKERS[made](2))


ODD = "class A:\n    def __reduce__(self): raise ValueError('no copy of it')\na = A()\ndef score(config): return a"


def test_a_function_that_cannot_be_sent_or_read_or_loaded_is_named(tmp_path):
    given, odd = PickledFunction.of(lambda config: 1.0, "train"), typed(ODD)
    refuses(HpoError, "'train' cannot be sent to workers: no copy of it", PickledFunction.of, odd, "train")
    refuses(HpoError, r"gone\.pkl cannot be read; restore the file", PickledFunction.read, tmp_path / "gone.pkl")
    says = r"pickled by Python 3\.1, and Python 3\.\d+ cannot load it; run this command with Python 3\.1"
    refuses(HpoError, says, replace(given, python="3.1").load)
    refuses(HpoError, "'train' cannot be loaded here: UnpicklingError", replace(given, data=b"x").load)


def test_lambdas_on_one_line_are_known_by_their_own_texts():
    first = {"é": lambda c: c["x"] ** 2, "neg": lambda c: -c["x"]}
    second = {"é": lambda c: c["x"] ** 2, "neg": lambda c: -2 * c["x"]}
    assert key(first["é"]) == key(second["é"]) != key(first["neg"]) != key(second["neg"])


SCRIPT = """
import dataclasses, functools
from hpo.workers.objective.pickled_function import PickledFunction
BASE = 2
@functools.lru_cache(maxsize=7)
def power(n):
    return 1 if n == 0 else BASE * power(n - 1)
@dataclasses.dataclass
class Scale:
    size: int = 3
    names = {'a', 'b', 'c'}
    @functools.cached_property
    def by(self):
        return power(self.size)
exec('def among(x): return x in {"a", "b", "c", "d"}')
pickled = PickledFunction.of(lambda config: (Scale().by, power.cache_parameters()['maxsize'], among('a')), 'given')
print(pickled.digest)
open('pickled', 'wb').write(pickled.data)
"""


def test_a_function_has_the_same_hash_in_every_process_and_all_that_it_uses_goes_there():
    Path("script.py").write_text(SCRIPT)
    calls, outputs = "import pickle; print(pickle.load(open('pickled', 'rb'))({}))", []
    for seed, words in enumerate((["script.py"], ["-c", calls], ["script.py"])):
        own = environment() | {"PYTHONHASHSEED": str(seed)}
        done = subprocess.run([sys.executable, *words], env=own, capture_output=True, text=True, check=True)
        outputs.append(done.stdout)
    first, called, again = outputs
    assert (called, again) == ("(8, 7, True)\n", first)


def test_a_cached_function_that_a_worker_imports_is_not_copied():
    assert pickle.loads(dumps(origin_of)) is origin_of


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    forget(tmp_path)


def forget(folder):
    for name, module in [*sys.modules.items()]:
        if str(getattr(module, "__file__", None)).startswith(str(folder)):
            del sys.modules[name]
    importlib.invalidate_caches()


def write(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def pieces(objective="hpo.objectives.table:run_fold", strategies=None, revision=None):
    return describe_code(Objective(objective, print, revision=revision), strategies or {"random": RandomSearch}).pieces


@pytest.mark.slow
def test_the_search_its_strategies_and_an_objective_of_the_toolkit_count_by_revision():
    config = toy_config("ladder", searched_by("ladder", SPACES["mixed"]))
    strategies = {f"strategy {name}": STRATEGIES[name][1].REVISION for name in ("ladder", "evolutionary")}
    revisions = {"search": loop.REVISION, **strategies}
    assert code_of(prepared(Path("ladder"), config)).revisions == revisions
    described = describe_code(resolve("model.objective:run_fold"), {"own": type("Own", (), {"__module__": "toys"})})
    assert described.revisions == {"search": loop.REVISION, "objective model.objective": model_objective.REVISION}
    assert all(piece.endswith(" (strategy)") for piece in described.pieces)
    for name, (_, strategy) in STRATEGIES.items():
        assert isinstance(strategy.REVISION, int), name


def test_a_strategy_of_the_users_own_counts_with_the_modules_that_it_imports(here):
    write(here, {"own_drawing.py": "SCALE = 1\n", "own_strategy.py": "import own_drawing\nclass Own: ...\n"})
    own = {"own_strategy:Own": importlib.import_module("own_strategy").Own}
    before = pieces(strategies=own, revision=1)
    write(here, {"own_drawing.py": "SCALE = 2\n"})
    after = pieces(strategies=own, revision=1)
    assert [name for name in after if after[name] != before[name]] == ["own_drawing.py (strategy)"]
    assert not any("(strategy)" in name for name in pieces(revision=1))


def test_a_package_next_to_an_objective_counts_and_files_that_cannot_be_read_do_no_harm(here):
    train = "import helpers.inner\ntry:\n    import old\nexcept SyntaxError:\n    old = None\n"
    write(here, {"helpers/inner.py": "from math import pi as A\n", "old.py": "print 'hello'\n", "trainer.py": train})
    (here / "helpers/.#inner.py").symlink_to("nobody@nowhere.1")
    importlib.import_module("trainer")
    before = pieces("trainer:run_fold")
    assert {"trainer.py", "old.py", "helpers/inner.py"} == before.keys()
    write(here, {"helpers/inner.py": "from math import e as A\n"})
    after = pieces("trainer:run_fold")
    assert {name for name in before if before[name] != after[name]} == {"helpers/inner.py"}


def test_all_of_an_objectives_own_package_counts_and_of_an_installed_one_nothing_next_to_it(here, monkeypatch):
    package = {"of_ours/__init__.py": "", "of_ours/net.py": "A = 1\n", "of_ours/train.py": "import beside_it\n"}
    for place, others in (("here", {"beside_it.py"}), ("site-packages", set())):
        write(here / place, package | {"beside_it.py": "F = 1\n"})
        monkeypatch.chdir(here / place)
        assert digests_of("of_ours.train").keys() == package.keys() | others
    # A package without an __init__.py.
    files = {"ns/obj.py": "from .net import run\nfrom . import other\n", "ns/net.py": "def run(task): ...\n"}
    files |= {"ns/other.py": "A = 1\n"}
    write(here, files)
    importlib.import_module("ns.obj")
    assert files.keys() <= pieces("ns.obj:run").keys()


TRAIN = "import beside_ours\ndef run(config):\n    import late_ours\n    return beside_ours.A + late_ours.B\n"


@pytest.fixture
def payload(here):
    write(here, {"train_ours.py": TRAIN, "beside_ours.py": "A = 1.0\n", "late_ours.py": "B = 1.0\n"})
    return Payload("train_ours:run(config)", {}, "score", code=digests_of("train_ours"))


def end_of(messages):
    *_, last = messages
    return last.get("machine_fault") or last["outcome"].metrics or last["outcome"].error


def trained(payload):
    return end_of(run_task(payload, str(Path.cwd())))


def changed(name):
    return f"objective: {name} has changed while the search runs; undo the change, or run `hpo resume --allow-changes`"


@pytest.mark.slow
def test_each_process_compares_once_what_it_imports(payload):
    with contextlib.closing(Child(str(Path.cwd()))) as before, contextlib.closing(Child(str(Path.cwd()))) as after:
        assert end_of(before.run(payload, "one")) == {"score": 2.0}
        Path("train_ours.py").write_text(TRAIN.replace("return", "return 1000 *"))
        assert end_of(before.run(payload, "one")) == {"score": 2.0}
        assert end_of(after.run(payload, "one")) == changed("train_ours.py")
        after.renew()
        Path("train_ours.py").write_text(f'"""Docstrings do not count."""\n{TRAIN}')
        assert end_of(after.run(payload, "one")) == {"score": 2.0}


# Of another length than in the end: within a second Python takes a file of the same length for the compiled one.
@pytest.mark.parametrize("text", ["B = 20.0\n", "B = nothing\n", "B = \n", None])
def test_a_module_that_a_training_imports_late_is_compared_too(payload, text):
    late = Path("late_ours.py")
    late.unlink()
    if text is not None:
        late.write_text(text)
        assert trained(payload) == changed("late_ours.py")
    late.write_text("B = 1.0\n")
    assert trained(payload) == {"score": 2.0}


def test_a_file_that_is_as_before_again_after_its_import_has_changed(payload):
    beside, before = Path("beside_ours.py"), "A = 1.0\n"
    beside.write_text(f"A = 2.0\nwith open(__file__, 'w') as file:\n    file.write({before!r})\n")
    assert (trained(payload), beside.read_text()) == (changed("beside_ours.py"), before)


def test_the_modules_of_a_pickled_function_are_compared(here, payload):
    beside = importlib.import_module("beside_ours")
    Path("objective.pkl").write_bytes(PickledFunction.of(lambda config: beside.A, "given").to_bytes())
    code = digests_of("beside_ours")
    given = Payload("objective.pkl:given(config)", {}, "score", function_file="objective.pkl", code=code)
    forget(here)
    assert trained(given) == {"score": 1.0}
    Path("beside_ours.py").write_text("A = 20.0\n")
    forget(here)
    # With one file more, so that this process compares the files again.
    assert trained(replace(given, code={**code, "another_ours.py": ""})) == changed("beside_ours.py")


def test_a_librarys_module_of_the_same_name_is_not_compared(payload):
    Path("inspect.py").write_text("NOT = 'that of Python'\n")
    assert inspect.__file__ != str(Path("inspect.py").absolute())
    assert trained(replace(payload, code={**payload.code, "inspect.py": "0123456789abcdef"})) == {"score": 2.0}
