"""A search for several metrics within limits as Python users see it: front, best, and another choice."""

import pandas as pd
import pytest

import hpo
from hpo.study.notes import Notes
from hpo.study.opening import read_study
from hpo.study.preparing.preparation import known_study
from hpo.trials.space.reader import space_from_dict
from hpo.trials.table import point_of, read_rows
from tests.hpo.cli.commands import hpo as command
from tests.hpo.commands.searched import found

METRICS = {"accuracy": "maximize", "size": "minimize"}


def measured(config):
    return {
        "accuracy": config["a"] * (4 - config["b"]),
        "size": config["a"] + 0.01 * config["b"],
        "memory": config["b"],
    }


def several(objective=measured, **arguments):
    given = {"space": {"a": [1, 2, 3, 4, 5], "b": [1, 2, 3]}, "strategy": "grid", "trials": 15, "direction": None}
    return found(objective, **(given | {"metric": METRICS, "limits": {"memory": {"min": 2}}} | arguments))


def noted(name):
    record = read_study(known_study(name))
    try:
        return Notes(record).changed_choices
    finally:
        record.close()


def test_front_and_best_are_those_of_all_that_was_measured():
    study = several(choose="first_within_limits")
    trials, front, best = study.trials, study.front, study.best
    kept = trials[trials.memory >= 2]
    is_best = [((kept.score >= one.score) & (kept["size"] <= one["size"])).sum() == 1 for _, one in kept.iterrows()]
    expected = kept[is_best].sort_values("score", ascending=False)
    assert list(front.number) == list(expected.number)
    pd.testing.assert_series_equal(front.accuracy, expected.score.reset_index(drop=True), check_names=False)
    assert list(front.number[front.is_chosen]) == [best.number] == [front.number[0]]
    assert best.scores == measured(best.point) == {name: front[name][0] for name in ("accuracy", "size", "memory")}
    assert list(front.columns) == ["number", "is_chosen", "accuracy", "size", "memory", "a", "b"]


def test_no_column_is_lost_to_another_of_its_name():
    """Of several repeats, so that each metric has a standard error, too."""
    space = {"x": [1, 2], "is_chosen": [3, 4], "excess": [5, 6], "is_on_front": [7], "b_standard_error": [8]}
    names = ("a", "a_standard_error", "b", "amount")
    study = several(
        lambda config: {name: config["x"] * (place + 1) for place, name in enumerate(names)},
        **{"space": space, "metric": dict.fromkeys(names[:3], "maximize"), "limits": {"amount": 4}},
        **{"settings": {"study.repeats": 2}, "name": "clashing"},
    )
    front, trials, best = study.front, study.trials, study.best
    assert front.shape == (4, 2 + 2 * len(names) + len(space))
    chosen = front[front.is_chosen]
    assert chosen.number.tolist() == [best.number]
    assert {*chosen.iloc[0]} == {best.number, True, 0.0, *best.scores.values(), *best.point.values()}
    assert (sorted(set(trials.excess)), set(trials.is_on_front)) == ([0.0, 1.0], {True, False})
    rows = read_rows(study.folder / "trials.csv", ("number",))
    assert sorted(point_of(row, space_from_dict(space))["excess"] for row in rows) == [5] * 4 + [6] * 4


@pytest.mark.slow
def test_another_choice_changes_nothing_until_it_is_saved_and_is_noted_then(capsys):
    study = several(choose="first_within_limits")
    before, smallest = study.best.number, study.choose({"size": 1.0})
    assert smallest.scores["size"] == study.front["size"].min()
    assert (study.best.number, noted("measured")) == (before, [])
    assert study.choose({"size": 1.0}, save=True) == study.best == smallest
    assert command(capsys, "resume", "measured", "study.choose=knee")[0] == 0
    changes = [(change.before, change.after, change.trials, change.is_test_open) for change in noted("measured")]
    assert changes == [("first_within_limits", {"size": 1.0}, 15, False), ({"size": 1.0}, "knee", 15, False)]
    with pytest.raises(hpo.HpoError, match=r"must name metrics of the study \(accuracy, size\), given memory"):
        study.choose({"memory": 1.0})


@pytest.mark.slow
def test_where_no_trial_keeps_the_limits_the_nearest_is_named():
    study = several(limits={"memory": 0.5, "size": 1})
    says = r"no trial keeps the limits \(memory <= 0.5, size <= 1\); the nearest is trial .* accuracy 3.* memory 1"
    with pytest.raises(hpo.HpoError, match=says):
        _ = study.best
    assert "no trial keeps the limits" in str(study)
    assert len(study.front) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("goal", "said"),
    [
        ({"metric": {"a": "maximize", "b": "minimize"}}, "metric={'a': 'maximize', 'b': 'minimize'}; choose"),
        ({"limits": {"memory": 3}, "direction": "maximize"}, "limits={'memory': 3.0}; choose"),
    ],
)
def test_a_strategy_of_one_metric_says_what_it_was_given(goal, said):
    with pytest.raises(hpo.HpoError) as raised:
        hpo.search(lambda config: config["x"], {"x": (0.0, 1.0)}, strategy="cma_es", **goal)
    assert said in str(raised.value)


def test_a_tuple_is_the_metrics_in_their_order():
    study = several(lambda config: (config["a"], config["b"]), limits=None, name="pairs")
    assert study.best.scores == {"accuracy": study.best.point["a"], "size": study.best.point["b"]}


@pytest.mark.slow
def test_with_one_metric_the_front_is_the_best_alone():
    study = several(lambda config: config["a"], metric=None, direction="maximize", limits=None, name="one")
    assert list(study.front.score) == [study.best.score] == list(study.best.scores.values())
