"""What people of SciPy, scikit-learn and NumPy type."""

import numpy as np
import pytest
from scipy import stats

import hpo
from hpo.trials.space.peers import of_peer
from hpo.trials.space.written import write_out
from tests.hpo.commands.searched import found


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (stats.loguniform(1e-5, 1e-1), {"low": 1e-5, "high": 0.1, "log": True}),
        (stats.loguniform(a=1, b=100), {"low": 1.0, "high": 100.0, "log": True}),
        (stats.reciprocal(1e-5, 1), {"low": 1e-5, "high": 1.0, "log": True}),
        (stats.uniform(2, 3), {"low": 2.0, "high": 5.0}),
        (stats.uniform(), {"low": 0.0, "high": 1.0}),
        (stats.uniform(loc=1, scale=4), {"low": 1.0, "high": 5.0}),
        (stats.randint(1, 9), {"low": 1, "high": 8, "integer": True}),
    ],
)
def test_a_frozen_distribution_is_a_range(given, read):
    assert of_peer(given, "space.lr") == read
    assert all(type(end) in (int, float) for end in (read["low"], read["high"]))


@pytest.mark.parametrize("given", [stats.norm(0, 1), stats.expon(), stats.loguniform(1, 10, loc=3)])
def test_any_other_distribution_is_refused_with_what_to_write(given):
    with pytest.raises(hpo.HpoError, match=r"^space.net.lr: cannot be SciPy's .*; give hpo.log\(1e-5, 1e-1\), a range"):
        found(lambda config: 1.0, space={"net": {"lr": given}})


def test_arrays_are_lists():
    assert write_out(np.linspace(0, 1, 3)) == [0.0, 0.5, 1.0]
    assert write_out(np.geomspace(1, 100, 3)) == pytest.approx([1.0, 10.0, 100.0])
    assert write_out(np.arange(1, 4)) == [1, 2, 3]


def test_an_unknown_object_is_refused_with_its_place_and_type():
    class Uniform:
        pass

    for space in ({"a": Uniform()}, {"a": {1, 2}}, {"a": print}):
        with pytest.raises(
            hpo.HpoError, match=r"^space.a: must be a dimension, given .*\(a .*(Uniform|set|function.*)\); give hpo.log"
        ):
            found(lambda config: 1.0, space=space)


def test_distributions_are_searched():
    study = found(lambda config: config["a"] + config["b"], space={"a": stats.randint(1, 3), "b": stats.uniform(0, 1)})
    assert set(study.trials["a"]) <= {1, 2}
    assert study.trials["b"].between(0, 1).all()
