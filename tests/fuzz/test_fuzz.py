"""Whatever a reader is given, it answers or raises HpoError, and does not hang. More seconds: security.md in docs/."""

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
SETTINGS = {"deadline": None, "database": None, "derandomize": False, "print_blob": True}
SETTINGS |= {"suppress_health_check": list(HealthCheck)}
SECONDS = float(os.environ.get("HPO_FUZZ_SECONDS", "5"))


def fuzzer(target, number=1):
    @seed(number)
    @settings(max_examples=target.examples, **SETTINGS)
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

    return run


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_every_input_is_answered_or_refused(name):
    end, count, target = time.monotonic() + SECONDS / len(TARGETS), 0, TARGETS[name]
    for number in itertools.takewhile(lambda _: time.monotonic() < end, itertools.count(1)):
        try:
            fuzzer(target, number)()
        except BaseException as error:
            error.add_note(f"fuzzer(TARGETS[{name!r}], {number})()")
            raise
        count += target.examples
    sys.stdout.write(f"{name}: {count} inputs\n")
