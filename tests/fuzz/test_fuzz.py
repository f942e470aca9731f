"""Whatever a reader is given, it answers or raises HpoError, and does not hang.

A few seconds in the default run, five with the slow tests; the same inputs each time. For longer, over all readers:

    HPO_FUZZ_SECONDS=600 python -m pytest -n 0 -m slow tests/fuzz

Guided by coverage, where atheris runs: see `guided.py`.
"""

import itertools
import os
import sys
import time
import warnings

import pytest
from hypothesis import HealthCheck, given, seed, settings

from hpo.errors import HpoError
from tests.fuzz.targets import TARGETS

# Of processor time, for one input. The slowest honest one, a composition by Hydra, takes a third of a second.
HANGS_SECONDS = 10
SECONDS = float(os.environ.get("HPO_FUZZ_SECONDS", "5"))


def fuzzer(target, examples, number=None):
    """Return what gives the target so many inputs and fails at the first that raises something else, or takes long."""

    how = {"deadline": None, "database": None, "print_blob": True, "suppress_health_check": list(HealthCheck)}

    @settings(max_examples=examples, derandomize=number is None, **how)
    @given(target.given)
    def run(value):
        began = time.process_time()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                target.call(value)
        except HpoError:
            pass
        assert time.process_time() - began < HANGS_SECONDS

    return run if number is None else seed(number)(run)


@pytest.mark.slow("data")
@pytest.mark.parametrize("name", TARGETS)
def test_every_input_is_answered_or_refused(name):
    fuzzer(TARGETS[name], max(TARGETS[name].examples // 2, 1))()


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_every_input_is_answered_or_refused_for_long(name):
    """The same inputs every time, more of them in more seconds; a failure prints its seed."""
    end, count, target = time.monotonic() + SECONDS / len(TARGETS), 0, TARGETS[name]
    for number in itertools.takewhile(lambda _: time.monotonic() < end, itertools.count(1)):
        try:
            fuzzer(target, target.examples, number)()
        except BaseException as error:
            error.add_note(f"fuzzer(TARGETS[{name!r}], {target.examples}, {number})()")
            raise
        count += target.examples
    sys.stdout.write(f"{name}: {count} inputs\n")
