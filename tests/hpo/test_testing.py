"""`hpo.testing`, and a strategy of the user's own: found by its path, checked, searched with, and continued."""

import sys
from pathlib import Path

import pytest

import hpo
from hpo.cli.main import main
from hpo.errors import StudyError
from hpo.testing import SPACES, check_strategy
from tests.hpo.commands.searched import found
from tests.studies import refuses

OWN = """
import itertools
from dataclasses import dataclass
from hpo.engine.strategies.drawing.draws import draw_untried
from hpo.engine.strategies.strategy import Settings, generator
drawn = itertools.count()
@dataclass(frozen=True)
class Nearest:
    class Settings(Settings):
        at_once: int = 1
    settings: Settings
    space: object
    seed: int
    announcement = "nearest: a draw each time"
    learns = "by_trial"
    def propose(self, known, pending):
        rng = generator(self.seed, known, pending)
        return draw_untried(self.space, rng, known.tried(pending), self.settings.at_once)
"""
LATE = "self.seed if len(known) + len(pending) < 9 else next(drawn)"
CALLS = "self.__dict__['calls'] = self.__dict__.get('calls', 0) + 1"
REMEMBERS = """seen = self.__dict__.setdefault('seen', [])
        seen.extend(known[len(seen):])
        if [trial.key for trial in seen[:len(known)]] != [trial.key for trial in known]:
            seen[:] = known
        self = type(self)(self.settings, self.space, len(seen))
        rng = """
BROKEN = {
    "proposes .*, another call": ("generator(self.seed, known, pending)", "generator(next(drawn), known, pending)"),
    "proposes a point twice": ("known.tried(pending)", "set()"),
    "is not in the space": ("return draw", 'return [{"layers": 99}] or draw'),
    "do not depend on the seed": ("self.seed", "0"),
    "again, while [1-9]|a point is trained twice": ("known.tried(pending)", "known.tried([])"),
    "for the same [48] trials, one call of the strategy proposes .*, another call": (
        "rng = generator(self.seed",
        f"{CALLS}; rng = generator(self.calls",
    ),
    "for the same history the strategy proposes .*, but .* after a longer history": ("rng = ", REMEMBERS),
    "the strategy raised ZeroDivisionError: division by zero": ("return draw", "return [1 / 0] or draw"),
    "propose must return a list of points, each a dict, given None": ("return draw", "return None and draw"),
    "ordered: with [2-6] workers and a crash, the trials differ": ("self.seed", LATE),
    "the strategy ends after": ("return draw", "return [] if len(known) > 2 else draw"),
}


def write(text=OWN):
    Path("mine.py").write_text(text)


def searched(trials, strategy="mine:Nearest"):
    return found(lambda config: config["x"], space={"x": (0, 100)}, trials=trials, name="own", strategy=strategy)


@pytest.fixture(autouse=True)
def not_imported_yet():
    sys.modules.pop("mine", None)
    yield
    sys.modules.pop("mine", None)


@pytest.mark.slow
def test_an_own_strategy_keeps_the_promises_on_every_space():
    write()
    check_strategy({"name": "mine:Nearest", "at_once": 2})
    check_strategy(sys.modules["mine"].Nearest, {"ordered": SPACES["ordered"]})


def test_an_installed_package_offers_one_by_its_name(monkeypatch, tmp_path):
    installed = tmp_path / "installed"
    (installed / "nearby-1.0.dist-info").mkdir(parents=True)
    (installed / "nearby-1.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: nearby\nVersion: 1.0\n")
    (installed / "nearby-1.0.dist-info/entry_points.txt").write_text("[hpo.strategies]\nnearest = nearby:Nearest\n")
    (installed / "nearby.py").write_text(OWN)
    monkeypatch.syspath_prepend(installed)
    assert len(searched(2, "nearest").resume(3, progress=False).trials) == 3
    sys.modules.pop("nearby", None)


@pytest.mark.parametrize("says", BROKEN)
def test_a_broken_promise_is_said_in_one_line(says):
    write(OWN.replace(*BROKEN[says]))
    with pytest.raises((AssertionError, StudyError), match=says):
        check_strategy({"name": "mine:Nearest"}, {"ordered": SPACES["ordered"], "one point": SPACES["one point"]})


@pytest.mark.slow
def test_it_is_searched_with_and_continued():
    write()
    study = searched(2)
    assert (main(["resume", "own", "study.trials=3", "dispatch=local", "track=none"]), len(study.trials)) == (0, 3)
    write(OWN.replace("a draw each time", "another"))
    refuses(hpo.HpoError, r"code: mine.py \(strategy\) was", study.resume, 4, progress=False)


def test_a_point_outside_of_the_space_is_said_in_one_line():
    write(OWN.replace("return draw", 'return [{"y": 1}] if len(known) > 1 else draw'))
    refuses(hpo.HpoError, r"proposed \{'y': 1\}, which is not in the space", searched, 9)
    assert 2 <= len(hpo.load("own").trials) < 9


def test_a_name_of_no_strategy_is_refused():
    write()
    for name, says in {
        "mine:Nearst": "mine has no 'Nearst'; did you mean 'Nearest'",
        "no_such_module:Nearest": "strategy: cannot import 'no_such_module'",
        "os:path": "strategy: 'os' is part of Python",
    }.items():
        refuses(hpo.HpoError, says, check_strategy, {"name": name})
