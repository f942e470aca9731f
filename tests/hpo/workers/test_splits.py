"""Splits never overlap, predefined ones are used, and the search has no way to the test split."""

import json
from datetime import date

import pandas as pd
import pytest

from hpo.config.sections import SplitSection
from hpo.config.study_config import config_from_dict
from hpo.errors import DataError
from hpo.trials.trial import TaskLayout, Trial
from hpo.workers.objective.examples import Examples
from hpo.workers.training.splits import make_plan, open_test_part
from hpo.workers.training.tasks import TaskBuilder, Training
from tests.studies import shipped, toy_config


def section(**changes):
    return SplitSection(**(shipped("default", "split") | changes))


def examples(size=200, classes=4, **changes):
    values = {"labels": [i % classes for i in range(size)], "digests": [f"{i:x}" for i in range(size)]}
    return Examples(size, **(values | changes))


@pytest.mark.parametrize("groups", [None, [i // 5 for i in range(200)]])
@pytest.mark.parametrize("folds", [1, 2, 5])
def test_parts_do_not_overlap_and_cover_everything_and_no_group_is_in_two(folds, groups):
    data, settings, group = examples(groups=groups), section(folds=folds), groups or range(200)
    plan, test = make_plan(data, settings), open_test_part(data, settings)
    assert sorted([*test, *plan.development]) == list(range(200))
    for fold in plan.folds:
        assert sorted([*fold.train, *fold.validation]) == list(plan.development)
        parts = [{group[i] for i in part} for part in (fold.train, fold.validation, test)]
        assert len(set().union(*parts)) == sum(map(len, parts))
    if folds > 1:
        assert sorted(i for fold in plan.folds for i in fold.validation) == list(plan.development)


def test_each_split_has_its_fraction_and_its_share_of_every_class():
    plan = make_plan(examples(), section(folds=1))
    assert {name: part["size"] for name, part in plan.parts.items()} == {"train": 160, "validation": 20, "test": 20}
    assert sum(part["fraction"] for part in plan.parts.values()) == pytest.approx(1)
    assert plan.parts["test"]["labels"] == {"0": 5, "1": 5, "2": 5, "3": 5}


@pytest.mark.parametrize("pair", [(0.5, 1.5), ((0, 1), (1, 1)), (None, "a"), (date(2025, 1, 1), date(2026, 1, 1))])
def test_classes_of_any_type_are_stratified_and_read_in_the_order_of_a_series(pair):
    labels = pd.Series([pair[i >= 50] for i in range(200)], index=range(200)[::-1])
    plan = make_plan(examples(labels=labels), section(folds=2))
    assert sorted(plan.parts["test"]["labels"].values()) == [5, 15]
    assert [sum(i < 50 for i in fold.validation) for fold in plan.folds] in ([22, 23], [23, 22])


def test_the_same_seed_gives_the_same_plan_and_another_one_another():
    assert make_plan(examples(), section()) == make_plan(examples(), section())
    assert make_plan(examples(), section()) != make_plan(examples(), section(seed=1))


def test_a_fingerprint_does_not_depend_on_the_order():
    assert examples().fingerprint([0, 1, 2]) == examples().fingerprint([2, 0, 1]) != examples().fingerprint([0, 1, 3])


def test_predefined_splits_are_always_used():
    data = examples(parts={"train": 150, "validation": 20, "test": 30})
    plan = make_plan(data, section())
    assert (plan.kind, plan.folds[0].validation) == ("predefined", tuple(range(150, 170)))
    assert open_test_part(data, section()) == tuple(range(170, 200))
    assert make_plan(data, section(folds=5)).development == tuple(range(170))
    without_test = examples(parts={"train": 180, "validation": 20})
    assert make_plan(without_test, section()).folds[0].validation == tuple(range(180, 200))
    assert max(open_test_part(without_test, section())) < 180


@pytest.mark.parametrize(("data", "settings", "words"), [
    ({"size": 3, "classes": 1}, {"test_fraction": 0.9, "validation_fraction": 0.05}, "cannot hold out 3 of 3 examples"),
    ({"size": 1}, {}, "cannot hold out 1 of 1 example, because"),
    ({"labels": ["a" * 50, *"bcdd"] + ["e"] * 195}, {}, rf"\(3 of 5, such as '{'a' * 40}'\); .*data\.label_column"),
    ({"size": 8, "classes": 2}, {}, "a split of 1 example cannot have examples of all 2 classes"),
    ({"labels": ["rare"] + ["often"] * 199}, {}, "stratify=false"),
    ({"labels": None, "size": 5, "digests": None}, {"folds": 9}, "number of examples"),
    ({"groups": [0] * 200}, {}, r"hold out 20 of 200 examples as whole groups, because no group .* 1 group\);"),
    ({"groups": [0, None] * 100}, {"test_fraction": 0.6}, "because no group would be left for training .* 2 groups"),
    ({"groups": [0, 1] * 100}, {"folds": 5}, r"split\.folds: must be at most .* the test split \(1\), given 5"),
    ({"parts": {"train": 180, "validation": 20, "test": 0}}, {}, "the test split is empty"),
    ({"parts": {"train": 9}}, {}, "must add up to 200, .* given {'train': 9}"),
    ({"parts": {"train": 150, "valid": 50}}, {}, "must be one of train, validation, test, given 'valid'"),
    ({"parts": {"train": 204, "test": -4}}, {}, "no size below 0, given {'train': 204, 'test': -4}"),
    ({"parts": {"validation": 200}}, {}, "must have a train split and no size below 0, given {'validation': 200}"),
    ({"groups": [1, 2]}, {}, "groups must have 200 values, one per example, given 2"),
    ({"size": 0}, {}, "at least one example, given none"),
])  # fmt: skip
def test_too_few_examples_or_what_contradicts_their_number_is_refused(data, settings, words):
    settings = section(**{"folds": 1} | settings)
    with pytest.raises(DataError, match=words):
        make_plan(made := examples(**data), settings), open_test_part(made, settings)


@pytest.mark.parametrize("folds", [1, 3])
@pytest.mark.parametrize("is_copied", [True, False])
def test_nothing_that_a_worker_gets_reaches_the_test_part(tmp_path, folds, is_copied):
    files = {"path": None, "train": "planted-train", "validation": "planted-val", "test": "planted-test"}
    config, data = config_from_dict(toy_config(data={"name": "toy", **files})), examples(90, 3)
    plan, test = make_plan(data, section(folds=folds)), set(open_test_part(data, section(folds=folds)))
    places = {"data_dir": tmp_path / "data" if is_copied else None, "checkpoints_dir": tmp_path / "checkpoints"}
    builder = TaskBuilder(training=Training.of(config), plan=plan, layout=TaskLayout(folds), **places)
    trial = Trial(0, 0, {"toy.layers": 3})
    further = Trial(1, 1, {"toy.layers": 3}, amount=9, trained=3, continues=0)
    assert {task.payload.trained for task in builder.tasks_of(further)} == {3}
    assert {task.payload.trained for task in (*builder.again(further, 1), builder.final_task(further, 9))} == {0}
    for task in [*builder.tasks_of(trial), builder.final_task(trial, 4)]:
        text = json.dumps(vars(task.payload))
        payload = json.loads(text)
        assert "planted-test" not in text
        assert "split" not in payload["config"]
        assert payload["config"]["data"]["test"] is None
        if is_copied:
            assert "planted" not in text
            assert max(payload["train"]) < len(plan.development)
        else:
            assert not test & {*payload["train"], *payload["validation"]}


def test_duplicates_across_parts_are_counted():
    digests = [f"{i:x}" for i in range(200)]
    digests[199] = digests[0]
    plan = make_plan(examples(digests=digests, parts={"train": 150, "validation": 20, "test": 30}), section())
    assert plan.duplicates == {"validation in train": 0, "test in train": 1, "test in validation": 0}
    twice = examples(digests=[f"{i // 2:x}" for i in range(200)], parts={"train": 200, "test": 0})
    assert 50 < make_plan(twice, section(folds=5)).duplicates["validation in train"] < 200


@pytest.mark.parametrize("folds", [1, 4])
def test_splits_of_ordered_data_are_consecutive(folds):
    data = examples(is_ordered=True)
    plan, test = make_plan(data, section(folds=folds)), open_test_part(data, section(folds=folds))
    assert test == tuple(range(180, 200))
    for part in (plan.development, *(fold.validation for fold in plan.folds)):
        assert part == tuple(range(part[0], part[-1] + 1))
    assert plan.kind == ("consecutive" if folds == 1 else "cross_validation")
