"""Studies with scales: what is trained at which, who wins, and what is refused."""

import json

import numpy as np
import pytest
from omegaconf import OmegaConf

import hpo
from tests.hpo.cli.commands import hpo as hpo_command
from tests.hpo.cli.commands import searched
from tests.hpo.commands.searched import found, note, noted
from tests.studies import toy_config

SPACE = {"lr": hpo.log(1e-4, 1.0), "act": ["relu", "tanh"]}
WIDTHS = [{"width": 8}, {"width": 16}, {"width": 32}]
LADDER = {"name": "ladder", "trials": 6, "costs": [1, 2, 6], "cost_ratio": 1.0}


def train(config):
    """Wider is better, so that no score of another scale compares."""
    note([config["width"], config["lr"]])
    return -abs(config["lr"] - 0.01) + config["width"] + (config["act"] == "relu")


def climbed(**changes):
    arguments = {"space": SPACE, "config": {"width": 4}, "trials": 11, "scales": WIDTHS, "strategy": LADDER}
    return found(train, **(arguments | changes))


def test_a_study_climbs_its_scales_and_the_winner_is_of_the_target():
    study = climbed()
    scales = study.trials["study.scale"].tolist()
    assert scales == [1] * 6 + [2] * 3 + [3] * 2
    assert [width for width, _ in noted()] == [{1: 8, 2: 16, 3: 32}[scale] for scale in scales]
    assert study.best.point["study.scale"] == 3
    assert study.best.config["width"] == 32
    assert study.best.score == study.trials["score"].max()
    # Goes on at the target, to the same trials as one that had the larger budget from the start.
    more = study.resume(13, progress=False).trials
    whole = climbed(trials=13, name="whole").trials
    columns = ["score", "lr", "act", "study.scale"]
    assert more[columns].equals(whole[columns])
    assert more["study.scale"].tolist() == [*scales, 3, 3]


def test_a_budget_in_trainings_at_the_target_says_how_many_trials_there_are(capsys):
    given = {key: value for key, value in LADDER.items() if key != "trials"}
    study = climbed(strategy={**given, "budget": 4}, trials=None, progress=True)
    assert "ladder: 8, 4, 1 trials" in capsys.readouterr().out
    assert study.trials["study.scale"].tolist() == [1] * 8 + [2] * 4 + [3]
    assert (study.config["strategy"]["trials"], study.config["study"]["trials"]) == (8, 13)
    for beside in ({"trials": 40}, {"strategy": {**LADDER, "budget": 4}, "trials": None}):
        with pytest.raises(hpo.HpoError, match=r"trials: follows from strategy\.budget, given .* give one of the two"):
            climbed(**{"strategy": {**given, "budget": 4}, "name": "both", **beside})


@pytest.mark.slow
def test_halving_at_the_smallest_scale_is_followed_by_full_trainings(capsys):
    @hpo.objective(continues=True)
    def further(config, trial):
        for epoch in range(trial.trained + 1, (trial.amount or 4) + 1):
            trial.report(train(config) - 1 / epoch, epoch)

    strategy = {**LADDER, "trials": 8, "first": {"name": "asha", "eta": 2}, "max_amount": 4}
    arguments = {"space": SPACE, "config": {"width": 4}, "scales": WIDTHS, "trials": 14}
    study = found(further, strategy=strategy, **arguments)
    trials = study.trials
    small, larger = trials[trials["study.scale"] == 1], trials[trials["study.scale"] > 1]
    assert small["amount"].value_counts()[1] == 8
    assert set(small["amount"]) == {1, 2, 4}
    assert set(larger["amount"]) == {4}
    assert study.best.point["study.scale"] == 3
    assert "Does it transfer?" in study.report().page.with_suffix(".md").read_text()


def test_where_the_budget_ends_below_the_target_nothing_wins(capsys):
    study = climbed(trials=8, progress=True)
    assert "8 trials end before the target" in capsys.readouterr().out
    with pytest.raises(hpo.HpoError, match="no trial is complete at the target, scale 3; the best of scale 2 is trial"):
        _ = study.best
    assert "no trial is complete at the target" in study.report().page.with_suffix(".md").read_text()


def test_studies_are_compared_at_the_target_by_what_was_spent_to_get_there(capsys):
    ladder = climbed(name="ladder")
    climbed(name="below", trials=8)
    found(train, space=SPACE, config={"width": 32}, name="direct")
    result = json.loads((hpo.compare_studies(["ladder", "direct", "below"]).folder / "comparison.json").read_text())
    winners = {each["label"]: each["trial"] for each in result["winners"]}
    assert (winners["ladder"], winners["below"]) == (ladder.best.number, None)
    assert {standing["unit"] for standing in result["standings"]} == {"seconds"}
    # Nothing counts before the first trial of the target.
    assert result["curves"]["ladder"]["trials"]["trials"] == [10, 11]
    said = capsys.readouterr().out
    assert "below has no complete trial at its target: not compared" in said
    assert "only the scores of the 2 of its 11 trials at the target count" in said


def test_a_study_that_is_asked_says_at_which_scale_each_trial_is_trained():
    settings = {"track": "none"}
    arguments = {"config": {"width": 4}, "metric": "score", "direction": "maximize", "trials": 11, "scales": WIDTHS}
    with hpo.open(SPACE, name="asked", strategy=LADDER, settings=settings, **arguments) as session:
        for trial in session:
            assert trial.config["width"] == WIDTHS[trial.scale - 1]["width"] == trial.changes["width"]
            session.tell(trial, trial.config["width"] - trial.config["lr"])
    study = hpo.load("asked")
    assert study.scales == WIDTHS
    assert study.trials["study.scale"].tolist() == [1] * 6 + [2] * 3 + [3] * 2


def test_no_scale_is_planned_more_trials_than_it_has_points(capsys):
    given = {"space": {"lr": [0.1, 0.2, 0.3, 0.4]}, "config": {"width": 4, "act": "relu"}}
    study = climbed(**given, strategy={**LADDER, "trials": 24}, trials=5, progress=True)
    out = capsys.readouterr().out
    assert "4, 4, 4 are planned from scale to scale, and 9 reach the target" in out
    assert "ladder: 4, 4, 4 trials" in out
    assert study.resume(9, progress=False).trials["study.scale"].tolist() == [1] * 4 + [2] * 4 + [3]


def test_a_study_that_is_asked_says_that_its_budget_ends_below_the_target(caplog):
    arguments = {"metric": "score", "direction": "maximize", "trials": 5, "scales": WIDTHS, "config": {"width": 4}}
    with hpo.open(SPACE, name="short", strategy=LADDER, settings={"track": "none"}, **arguments):
        assert "study.trials: 5 trials end before the target" in caplog.text


def test_a_grid_trains_every_point_at_every_scale():
    study = climbed(space={"lr": [0.1, 0.01], "act": ["relu", "tanh"]}, strategy="grid", trials=12)
    assert study.trials.groupby("study.scale").size().to_dict() == {1: 4, 2: 4, 3: 4}
    assert study.best.point == {"lr": 0.01, "act": "relu", "study.scale": 3}


def test_finalists_are_of_the_target():
    study = climbed(settings={"study.finalists": 4, "study.finalist_repeats": 2})
    assert len(noted()) == 11 + 2 * 2
    assert {width for width, _ in noted()[11:]} == {32}
    assert study.best.point["study.scale"] == 3


def test_the_default_configuration_is_tested_at_the_target(capsys):
    tree = toy_config("grid", {"toy": {"lr": [0.1, 0.2]}}, 4, "tests.toy_fronts:run_fold")
    tree["study"] |= {"metric": "score", "scales": [{"toy": {"layers": 1}}, {"toy.layers": 3}]}
    tree["split"] |= {"folds": 1, "test_fraction": 0.2}
    folder = searched(capsys, tree)
    assert hpo_command(capsys, "test", "toy")[0] == 0
    result = json.loads((folder / "test.json").read_text())
    assert result["default"]["metrics"] == result["metrics"] == {"score": 2.5}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scales": WIDTHS[:1]}, r"scales: must have at least two"),
        ({"scales": [{"width": 8}, {}]}, r"scale 2 changes nothing"),
        ({"scales": [{"width": 8}, {"width": 8}]}, r"scale 2 is the same as scale 1"),
        ({"scales": [{"widht": 8}, {"widht": 16}]}, r"has no key 'widht'.*width"),
        ({"scales": [{"lr": 0.1}, {"lr": 0.2}]}, r"lr is also searched"),
        ({"strategy": "random"}, r"strategy=random does not support scales; choose strategy=ladder"),
        ({"strategy": {"name": "ladder"}}, r"give strategy\.costs, such as \[1, 4, 16\]"),
        ({"strategy": LADDER | {"costs": [1, 2]}}, r"costs: must be 3 ascending numbers, one per scale"),
        (
            {"strategy": LADDER | {"costs": [4, 2, 1]}},
            r"strategy\.costs: must be 3 ascending numbers",
        ),
        ({"strategy": LADDER | {"costs": [-1, 2, 4]}}, r"strategy\.costs.0: must be greater than 0"),
        ({"strategy": LADDER | {"first": "ladder"}}, r"strategy\.first: must be one of grid, .*, given 'ladder'"),
        ({"strategy": LADDER | {"first": "tpee"}}, r"strategy\.first: must be one of .*; did you mean 'tpe'"),
        ({"scales": None}, r"strategy=ladder needs two or more scales"),
        ({"settings": {"study.stop_rule": "median"}}, r"study\.stop_rule: cannot be used with"),
        ({"limits": {"size": 3}}, r"limits: cannot be used with"),
        ({"space": SPACE | {"study": {"scale": [1, 2]}}, "scales": None, "strategy": "random"}, r"use another name"),
        ({"space": SPACE | {"study": {"scale": [1, 2]}}}, r"use another name"),
        ({"space": SPACE | {"study": [1, 2]}}, r"use another name"),
    ],
)
def test_what_cannot_be_climbed_is_refused(changes, message, tmp_path):
    with pytest.raises(hpo.HpoError, match=message):
        climbed(**changes)
    assert not (tmp_path / "runs").exists()


def test_a_study_is_extended_onto_another_scale(capsys):
    before = climbed()
    for width, number in ((8, 1), (32, 3)):
        with pytest.raises(hpo.HpoError, match=f"this is scale {number} of "):
            before.extend({"width": width}, climb=True, progress=False)
    tried = set(before.trials["lr"])
    after = before.extend({"width": 64, "study.trials": 3, "strategy.costs": [1, 2, 6, 20]}, climb=True, progress=False)
    assert after.trials["study.scale"].tolist() == [4, 4, 4]
    assert [width for width, _ in noted()[-3:]] == [64, 64, 64]
    assert after.best.config["width"] == 64
    # Around the best of the scales before, whose trials are known and are not trained again.
    assert not tried & set(after.trials["lr"])
    assert all(1e-3 < lr < 0.1 for lr in after.trials["lr"])
    report = json.loads((after.folder / "report.json").read_text())
    assert [one["complete"] for one in report["scales"]["each"]] == [6, 3, 2, 3]
    # Once more, from there: what that had known is known, too.
    changes = {"width": 128, "study.trials": 1, "strategy.costs": [1, 2, 6, 20, 50]}
    last = after.extend(changes, climb=True, progress=False, name="last")
    assert last.trials["study.scale"].tolist() == [5]
    report = json.loads((last.folder / "report.json").read_text())
    assert [one["complete"] for one in report["scales"]["each"]] == [6, 3, 2, 3, 1]
    assert "from another study" in (last.folder / "report.md").read_text()


def test_a_study_without_scales_is_the_smallest_one():
    before = found(train, space=SPACE, config={"width": 4}, trials=8)
    after = before.extend({"width": 64, "strategy.costs": [1, 4]}, climb=True, progress=False)
    # As many as cost half of what the 8 have cost.
    assert after.trials["study.scale"].tolist() == [2]
    assert json.loads((after.folder / "report.json").read_text())["scales"]["each"][0]["complete"] == 8
    again = before.extend({"width": 64, "strategy.costs": [1, 4]}, climb=True, progress=False, name="again")
    assert again.trials["lr"].tolist() == after.trials["lr"].tolist()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, "give the keys that it changes"),
        ({"lr": 0.1}, "lr: is searched"),
        ({"width": 64}, "strategy.costs"),
        ({"width": 2, "strategy.costs": [4, 1]}, "ascending"),
        ({"width": 64, "study.seed": 3}, "study.seed: would make new scores incomparable"),
        ({"width": 64, "strategy.costs": [0, 4]}, r"strategy\.costs.*must be greater than 0"),
        ({"width": 64, "strategy.costs": "few"}, r"strategy\.costs: must be a valid list"),
    ],
)
def test_a_study_is_not_extended_onto_what_is_no_larger_scale(changes, says):
    before = found(train, space=SPACE, config={"width": 4}, trials=4)
    with pytest.raises(hpo.HpoError, match=says):
        before.extend(changes, climb=True, progress=False)
    for what, arguments in {"best": {"best": 2}, "trial": {"trials": [1]}}.items():
        with pytest.raises(hpo.HpoError, match=f"{what}: has no effect"):
            before.extend({"width": 64}, climb=True, progress=False, **arguments)
    assert [each.name for each in before.folder.parent.iterdir() if each.is_dir()] == [before.folder.name]


def test_a_climb_trains_as_many_trials_as_are_asked_for_whatever_ended_the_study_before():
    before = found(train, space=SPACE, config={"width": 4}, trials=3, settings={"study.stop_without_gain": 9})
    changes = {"width": 64, "strategy.costs": [1, 4]}
    after = before.extend({**changes, "study.trials": 3}, climb=True, progress=False)
    assert after.trials["study.scale"].tolist() == [2] * 3
    with pytest.raises(hpo.HpoError, match="exists with another configuration"):
        before.extend(changes, climb=True, progress=False, name=before.name)
    again = {"width": 4, "strategy.costs": [1, 4, 16]}
    with pytest.raises(hpo.HpoError, match="give the keys that it changes"):
        after.extend(again, climb=True, progress=False)


def test_a_climb_from_a_ladder_that_was_ended_early_trains_at_the_new_scale_alone():
    """Two of the four trials that are planned at the target have no budget."""
    before = climbed(trials=13, strategy=LADDER | {"costs": [1, 1.2, 1.5]})
    after = before.extend({"width": 64, "strategy.costs": [1, 1.2, 1.5, 2]}, climb=True, progress=False)
    assert set(after.trials["study.scale"]) == {4}


def test_what_refers_to_a_key_that_scales_change_follows_it():
    study = climbed(config=OmegaConf.create({"width": 4, "inner": "${width}"}))
    assert study.best.config["inner"] == study.best.config["width"] == 32
    after = study.extend({"width": 64, "strategy.costs": [1, 2, 6, 20]}, climb=True, progress=False)
    assert after.best.config["inner"] == 64


def test_without_a_complete_trial_at_the_largest_scale_there_is_nothing_to_climb_from():
    below = climbed(trials=8)
    with pytest.raises(hpo.HpoError, match="no trial is complete at scale 3, so there is no best trial to start from"):
        below.extend({"width": 64, "strategy.costs": [1, 2, 6, 20]}, climb=True, progress=False)


def test_what_a_study_without_scales_has_imported_is_of_no_scale():
    found(train, space=SPACE, config={"width": 4}, trials=3, name="first")
    second = found(
        train, space=SPACE, config={"width": 8}, trials=4, name="second", settings={"study.imports": "first"}
    )
    third = second.extend({"width": 64, "strategy.costs": [1, 4]}, climb=True, progress=False)
    assert json.loads((third.folder / "report.json").read_text())["scales"]["each"][0]["complete"] == 4


def test_trials_of_other_scales_are_not_taken_for_those_of_this_study():
    imports = {"study.imports": str(climbed().folder)}
    with pytest.raises(hpo.HpoError, match=r"scales: must begin with the scales of the imported"):
        climbed(name="other", scales=WIDTHS[1:], strategy=LADDER | {"costs": [1, 2]}, settings=imports)
    with pytest.raises(hpo.HpoError, match=r"scales: must begin with the scales of the imported"):
        found(train, space=SPACE, config={"width": 4}, trials=4, name="none", settings=imports)
    plain = found(train, space=SPACE, config={"width": 4}, trials=4, name="plain")
    with pytest.raises(hpo.HpoError, match=r"was made with width=4, and scale 1 has 8"):
        climbed(name="third", settings={"study.imports": str(plain.folder)})


def test_numbers_of_numpy_are_plain_ones_in_scales_and_costs():
    scales = [{"width": np.int64(8)}, {"width": np.int64(16)}]
    study = climbed(scales=scales, strategy=LADDER | {"costs": np.array([1, 2])}, trials=8)
    assert study.scales == [{"width": 8}, {"width": 16}]


def test_what_an_argument_and_a_setting_say_differently_is_refused():
    with pytest.raises(hpo.HpoError, match="trials: must be given once, given 11 as argument and 4 in settings"):
        climbed(settings={"study.trials": 4})
    climbed(settings={"study.trials": 11})
