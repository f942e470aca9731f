"""What a function of a script is made of: a change of any of it is seen, and all of it reaches a worker."""

import enum
import functools
import pickle
import subprocess
import sys
import types
from pathlib import Path
from typing import NamedTuple

import pytest

from hpo.workers.objective.definitions import dumps
from hpo.workers.objective.path import origin_of
from hpo.workers.objective.pickled_function import PickledFunction
from tests.studies import environment


def one(*_):
    return 1


def two(*_):
    return 2


def by_cache(value):
    @functools.lru_cache(maxsize=3)
    def inner(x):
        return x * value

    return lambda config: inner(1)


def by_cached_method(value):
    class Scale:
        @functools.cache  # noqa: B019 -- what users write
        def by(self):
            return value

    return lambda config: Scale().by()


def by_attribute(value):
    class Scale:
        factor = value

    return lambda config: Scale.factor


def by_attribute_set_outside(value):
    class Scale:
        factor = 0

    Scale.factor = value
    return lambda config: Scale.factor


def by_method_set_outside(value):
    class Scale: ...

    Scale.by = one if value == 1 else two
    return lambda config: Scale().by()


def by_property(value, part="fget"):
    functions = {"fget": lambda self: 0, "fset": lambda self, x: None, "fdel": lambda self: None}
    functions[part] = lambda *_: value

    class Scale:
        by = property(**functions)

    return lambda config: Scale().by


def by_static_method(value):
    class Scale:
        by = staticmethod(one if value == 1 else two)

    return lambda config: Scale.by()


def by_class_method(value):
    class Scale:
        @classmethod
        @functools.lru_cache
        def by(cls):
            return value

    return lambda config: Scale.by()


def by_cached_property(value):
    class Scale:
        @functools.cached_property
        def by(self):
            return value

    return lambda config: Scale().by


def by_partial_method(value):
    class Scale:
        def times(self, x):
            return x

        by = functools.partialmethod(times, value)

    return lambda config: Scale().by()


def by_metaclass(value):
    class Kind(type):
        factor = value

        @property
        def by(cls):
            return cls.factor

    class Scale(metaclass=Kind): ...

    return lambda config: Scale.by


def by_wrapper(value):
    def once(function):
        @functools.wraps(function)
        def wrapper(*args):
            return function(*args)

        return wrapper

    def twice(function):
        @functools.wraps(function)
        def wrapper(*args):
            return 2 * function(*args)

        return wrapper

    @(once if value == 1 else twice)
    def inner(config):
        return 1

    return inner


def by_named_tuple(value):
    class Scale(NamedTuple):
        x: int

        def by(self):
            return self.x * value

    scale = Scale(1)
    return lambda config: scale.by()


def by_whole_number(value):
    class Scale(enum.IntEnum):
        ONE = 1

        def by(self):
            return value

    one = Scale.ONE
    return lambda config: one.by()


def by_slots(value):
    class Scale:
        __slots__ = ("x",)

        def by(self):
            return self.x

    scale = Scale()
    scale.x = value
    return lambda config: scale.by()


def by_lambda_on_a_line_of_its_own(value):
    # Its line alone is no Python.
    functions = {
        1: lambda config: 1,
        2: lambda config: 2,
    }
    return functions[value]


def by_typing(value, name="__main__", then="score"):
    """As at a prompt, by `python -c`, or by `exec`: without any source."""
    variables = {"__name__": name} if name else {}
    exec(f"def score(config, k={{{value}, 'a', 'b'}}):\n    return [{value} * x for x in k]\n{then}", variables)
    return variables["score"]


def by_typing_for_no_module(value):
    return by_typing(value, name=None)


def by_typing_for_a_module_that_is_none(value):
    return by_typing(value, name="none")


def by_typing_another_name(value):
    return by_typing(1, then=f"def score(config): return config.{'count' if value == 1 else 'index'}")


def by_typing_a_class(value):
    return by_typing(1, None, f"class Scale:\n    factor = {value}\ndef score(config): return Scale.factor")


def by_typing_a_method(value):
    return by_typing(1, then=f"class Scale:\n    def by(self): return {value}\ndef score(config): return Scale().by()")


def by_module_made_by_hand(value):
    module = types.ModuleType("settings")
    module.factor = value
    return lambda config: module.factor


def by_function_of_a_module_made_by_hand(value):
    module = types.ModuleType("settings")
    exec(f"def by(): return {value}", vars(module))
    return lambda config: module.by()


def key(function):
    return PickledFunction.of(function, "given").digest


MAKERS = [made for name, made in list(globals().items()) if name.startswith("by_")]


@pytest.mark.parametrize("made", MAKERS, ids=lambda made: made.__name__)
def test_what_it_uses_by_whatever_way_makes_it_another(made):
    assert key(made(1)) == key(made(1)) != key(made(2))


@pytest.mark.parametrize("part", ["fset", "fdel"])
def test_a_property_is_more_than_what_it_returns(part):
    assert key(by_property(1, part)) == key(by_property(1, part)) != key(by_property(2, part))


def test_all_of_it_reaches_another_process_and_is_the_same_there():
    """Functions that call themselves under a cache, and classes, too; a hash does not depend on the process."""
    Path("script.py").write_text(
        "import dataclasses, functools\n"
        "from hpo.workers.objective.pickled_function import PickledFunction\n"
        "@functools.lru_cache(maxsize=7)\n"
        "def power(n):\n"
        "    return 1 if n == 0 else BASE * power(n - 1)\n"
        "@dataclasses.dataclass\n"
        "class Scale:\n"
        "    size: int = 3\n"
        "    names = {'a', 'b', 'c'}\n"
        "    @functools.cached_property\n"
        "    def by(self):\n"
        "        return power(3)\n"
        "BASE = 2\n"
        'exec(\'def among(x): return x in {"a", "b", "c", "d"}\')\n'
        "kept = PickledFunction.of(lambda config: (Scale().by, power.cache_parameters()['maxsize'], among('a')),"
        " 'given')\n"
        "print(kept.digest)\n"
        "open('kept', 'wb').write(kept.data)\n"
    )
    scripts = [["script.py"], ["-c", "import pickle; print(pickle.load(open('kept', 'rb'))({}))"], ["script.py"]]
    said = []
    for seed, script in enumerate(scripts):
        own = environment() | {"PYTHONHASHSEED": str(seed)}
        said.append(
            subprocess.run([sys.executable, *script], env=own, capture_output=True, text=True, check=True).stdout
        )
    assert said[1] == "(8, 7, True)\n"
    assert said[0] == said[2]


def test_a_cached_function_that_a_worker_imports_is_not_copied():
    assert pickle.loads(dumps(origin_of)) is origin_of
