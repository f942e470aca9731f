"""What a report tells of the space: kind, values, scale, default."""

import pytest

from hpo.report.sections.space import describe_space
from tests.studies import prepared, toy_config


@pytest.mark.parametrize(
    ("given", "scale"),
    [
        ({"low": 1e-4, "high": 1e-1, "log": True, "points": 4}, "log"),
        ([0.001, 0.01, 0.1], "log"),
        ([0.1, 0.2, 0.3], "linear"),
        ([0.0, 0.1, 0.3], None),
        ([0.1, 0.2], None),
    ],
)
def test_numbers_at_even_distances_have_a_scale_and_every_dimension_its_default(tmp_path, given, scale):
    study = prepared(
        tmp_path / "study", toy_config(space={"toy": {"lr": given, "nonlinearity": {"choices": ["relu", "tanh"]}}})
    )
    lr, nonlinearity = describe_space(study)["space"]
    assert lr.get("scale") == scale
    assert (lr["default"], nonlinearity["default"]) == (0.01, "relu")
    assert "scale" not in nonlinearity
