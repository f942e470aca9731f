"""The names, metrics and saved views that a tracker sends, without one."""

import pytest
from mlflow.utils.validation import _validate_metric_name, _validate_param

from hpo.track.names import mlflow_name
from hpo.track.tracker import Curve
from hpo.track.views import opened, study_views
from hpo.trials.trial import Trial
from hpo.workers.training.own_lines import run_name

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.mark.parametrize(
    ("point", "name"),
    [
        ({"training.lr": 3e-4, "model.layers": 2}, "0007 lr=3e-4 layers=2"),
        ({"a.lr": 0.01, "b.lr": 1e-5}, "0007 a.lr=0.01 b.lr=1e-5"),
        ({"a.dropout": 0.123456, "a.kind": "relu", "a.bias": True}, "0007 dropout=0.123 kind=relu bias=True"),
        ({"a." + "k" * 300: 1}, "0007 " + "k" * 245),
    ],
)
def test_names_are_short_and_bounded(point, name):
    assert run_name(Trial(7, 0, point)) == name


@pytest.mark.parametrize(
    ("epochs", "steps", "expected"),
    [
        ([1, 2, 2.5], [50, 100, 125], [1, 2, 3]),
        ([0.5, 1, 1.5], [50, 100, 150], [50, 100, 150]),
        ([0.5, 1, 1.5], [None] * 3, [1, 2, 3]),
        ([None] * 2, [50, 100], [50, 100]),
    ],
)
def test_a_curve_is_at_its_epochs_and_where_these_are_fractions_at_its_steps(epochs, steps, expected):
    curve = Curve("fold_0")
    given = [{"epoch": epoch, "step": step} for epoch, step in zip(epochs, steps, strict=True)]
    found = [curve.point({key: place for key, place in point.items() if place is not None}) for point in given]
    assert [point["step"] for point in found] == expected


@pytest.mark.parametrize("count", [1, 2, 30])
def test_a_view_fits_into_a_tag_whatever_the_names(count):
    columns = [f"{place}{'n' * 190}" for place in range(count)]
    table = {"direction": "minimize", "curves": [f"fold_0/{columns[0]}"], "others": ["amount"]}
    table |= {"metrics": columns, "flags": ["hpo.is_on_front"], "keys": columns}
    for view in study_views("1", "s", 0.0, table, "r" * 32).values():
        assert len(view) <= 5000
        assert f"metrics.`{columns[0]}`" in opened(view)["selectedColumns"]


@pytest.mark.parametrize("name", ["a//b", "../a", "a/", "/a", ".", "a/./b", "x" * 400, "é@%", "a/b", "loss"])
def test_every_name_becomes_one_that_mlflow_takes(name):
    _validate_metric_name(f"fold_0_repeat_1/final_{mlflow_name(name)}")
    _validate_param(mlflow_name(name), "1")
    assert mlflow_name(name) == name or name not in ("a/b", "loss", "é")
