"""`hpo.testing`, and a strategy of the user's own: found by its path, checked, searched with, and continued."""

import sys
from pathlib import Path

import pytest
from sklearn.dummy import DummyClassifier

import hpo
from hpo.cli.main import main
from hpo.errors import StudyError
from hpo.integrations.sklearn import HpoSearchCV
from hpo.testing import SPACES, check_strategy
from tests.studies import REPOSITORY

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
BROKEN = {
    "proposes .* and then": ("generator(self.seed, known, pending)", "generator(next(drawn), known, pending)"),
    "proposes a point twice": ("known.tried(pending)", "set()"),
    "is not in the space": ("return draw", 'return [{"layers": 99}] or draw'),
    "do not depend on the seed": ("self.seed", "0"),
    "again, while [1-9]|a point is tried twice": ("known.tried(pending)", "known.tried([])"),
    "after [48] trials the strategy proposes .* and then": (
        "return draw",
        "self.__dict__['calls'] = self.__dict__.get('calls', 0) + 1; rng = generator(self.calls, known, pending)\n"
        "        return draw",
    ),
    "for the same earlier history the strategy proposes first .*, then": (
        "rng = ",
        "seen = self.__dict__.setdefault('seen', [])\n"
        "        seen.extend(known[len(seen):])\n"
        "        if [trial.key for trial in seen[:len(known)]] != [trial.key for trial in known]:\n"
        "            seen[:] = known\n"
        "        self = type(self)(self.settings, self.space, len(seen))\n"
        "        rng = ",
    ),
    "propose raised ZeroDivisionError: division by zero": ("return draw", "return [1 / 0] or draw"),
    "propose must return a list of points, each a dict, given None": ("return draw", "return None and draw"),
    "ordered: after a crash, [2-6] workers make other trials": (
        "generator(self.seed, known, pending)",
        "generator(self.seed if len(known) + len(pending) < 9 else next(drawn), known, pending)",
    ),
    "the strategy ends after": ("return draw", "return [] if len(known) > 2 else draw"),
}


HERE = {"settings": {"dispatch": "local", "track": "none", "report.figures": False}, "progress": False}


def write(text=OWN):
    Path("mine.py").write_text(text)


def settings(**more):
    return {"name": "mine:Nearest"} | more


def searched(trials, strategy="mine:Nearest"):
    space = {"x": (0, 100)}
    given = {"direction": "maximize", "name": "own", "strategy": strategy, **HERE}
    return hpo.search(lambda config: config["x"], space, trials=trials, **given)


@pytest.fixture(autouse=True)
def not_imported_yet():
    sys.modules.pop("mine", None)
    yield
    sys.modules.pop("mine", None)


@pytest.mark.slow
def test_an_own_strategy_keeps_the_promises():
    write()
    ordered = {"ordered": SPACES["ordered"]}
    check_strategy("mine:Nearest", ordered)
    check_strategy(sys.modules["mine"].Nearest, ordered)


@pytest.mark.slow
def test_an_own_strategy_keeps_the_promises_on_every_space():
    write()
    check_strategy(settings(at_once=2))


def test_an_installed_package_offers_one_by_its_name(monkeypatch, tmp_path):
    installed = tmp_path / "installed"
    (installed / "nearby-1.0.dist-info").mkdir(parents=True)
    (installed / "nearby-1.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: nearby\nVersion: 1.0\n")
    (installed / "nearby-1.0.dist-info/entry_points.txt").write_text("[hpo.strategies]\nnearest = nearby:Nearest\n")
    (installed / "nearby.py").write_text(OWN)
    monkeypatch.syspath_prepend(installed)
    assert len(searched(2, "nearest").resume(3, progress=False).trials) == 3
    sys.modules.pop("nearby", None)


def test_it_is_compared_and_tunes_an_estimator():
    write()
    path = REPOSITORY / "tests/tables/svm_digits.csv"
    words = ["data=table", f"data.path={path}", "data.metric=accuracy_*", "study.trials=3", "dispatch=local"]
    tree = hpo.compose(*words)
    compared = hpo.compare_strategies(tree, strategies=["random", "mine:Nearest"], repeats=2, name="both")
    assert set(compared.pairs["a"]) | set(compared.pairs["b"]) == {"random", "mine:Nearest"}
    search = HpoSearchCV(DummyClassifier(), {"strategy": ["prior", "uniform"]}, trials=2, strategy="mine:Nearest", cv=2)
    assert search.fit([[0], [1]] * 4, [0, 1] * 4).best_params_["strategy"] in ("prior", "uniform")


@pytest.mark.parametrize("says", BROKEN)
def test_a_broken_promise_is_said_in_one_line(says):
    write(OWN.replace(*BROKEN[says]))
    with pytest.raises((AssertionError, StudyError), match=says):
        check_strategy(settings(), {"ordered": SPACES["ordered"], "one point": SPACES["one point"]})


@pytest.mark.slow
def test_it_is_searched_with_and_continued():
    write()
    study = searched(2)
    assert main(["resume", "own", "study.trials=3", "dispatch=local", "track=none"]) == 0
    assert len(study.trials) == 3
    write(OWN.replace("a draw each time", "another"))
    with pytest.raises(hpo.HpoError, match=r"code: mine.py \(strategy\) was"):
        study.resume(4, progress=False)


def test_a_point_outside_of_the_space_is_said_in_one_line():
    write(OWN.replace("return draw", 'return [{"y": 1}] if len(known) > 1 else draw'))
    with pytest.raises(hpo.HpoError, match=r"proposed \{'y': 1\}, which is not in the space"):
        searched(9)
    assert 2 <= len(hpo.load("own").trials) < 9


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("mine:Nothing", "mine:Nothing is no strategy"),
        ("no_such_module:Nearest", "strategy: cannot import 'no_such_module'"),
        ("os:path", "strategy: 'os' is part of Python"),
        ("evolutoinary", "did you mean 'evolutionary'"),
    ],
)
def test_a_name_of_no_strategy_is_refused(name, says):
    write()
    with pytest.raises(hpo.HpoError, match=says):
        check_strategy({"name": name})
