"""Studies with scales: what is trained at which, who wins, and what is refused."""

import contextlib
import json
import shutil

import numpy as np
import pytest

import hpo
from tests.hpo.commands.searched import found, note, noted, refuses

SPACE = {"lr": hpo.log(1e-4, 1.0), "act": ["relu", "tanh"]}
WIDTHS = [{"width": 8}, {"width": 16}, {"width": 32}]
LADDER = {"name": "ladder", "trials": 6, "costs": [1, 2, 6], "cost_ratio": 1.0}
LARGER = {"width": 64, "text": "grün\n'", "strategy.costs": [1, 2, 6, 20]}


def train(config):
    """Wider is better, so that no score of another scale compares."""
    note([config["width"], config["lr"]])
    return -abs(config["lr"] - 0.01) + config["width"] + (config["act"] == "relu")


def climbed(**changes):
    arguments = {"space": SPACE, "config": {"width": 4, "text": ""}, "trials": 11, "scales": WIDTHS, "strategy": LADDER}
    return found(train, **(arguments | changes))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Make two studies: `ladder` has three scales and 11 trials, `plain` has no scales and 4 trials."""
    folder = tmp_path_factory.mktemp("made")
    with contextlib.chdir(folder):
        climbed(name="ladder")
        found(train, space=SPACE, config={"width": 4}, trials=4, name="plain")
    return folder


@pytest.fixture
def ladder(made):
    shutil.copytree(made, ".", dirs_exist_ok=True)
    return hpo.load("ladder")


@pytest.fixture
def plain(ladder):
    return hpo.load("plain")


@pytest.mark.slow
def test_a_study_climbs_its_scales_and_the_winner_is_of_the_target(ladder):
    scales = ladder.trials["study.scale"].tolist()
    assert scales == [1] * 6 + [2] * 3 + [3] * 2
    assert [width for width, _ in noted()[:11]] == [{1: 8, 2: 16, 3: 32}[scale] for scale in scales]
    assert (ladder.best.point["study.scale"], ladder.best.config["width"]) == (3, 32)
    assert ladder.best.score == ladder.trials["score"].max()
    # Goes on at the target, to the same trials as one that had the larger budget from the start.
    more = ladder.resume(13, progress=False).trials
    whole = climbed(trials=13, name="whole").trials
    columns = ["score", "lr", "act", "study.scale"]
    assert more[columns].equals(whole[columns])
    assert more["study.scale"].tolist() == [*scales, 3, 3]
    early = climbed(trials=13, strategy=LADDER | {"costs": [1, 1.2, 1.5]}, name="early")
    after = early.extend({"width": 64, "strategy.costs": [1, 1.2, 1.5, 2]}, climb=True, progress=False)
    assert set(after.trials["study.scale"]) == {4}


@pytest.mark.slow
def test_a_budget_in_trainings_at_the_target_says_how_many_trials_there_are(capsys):
    given = {key: value for key, value in LADDER.items() if key != "trials"}
    study = climbed(strategy={**given, "budget": 4}, trials=None, progress=True)
    assert "ladder: 8, 4, 1 trials" in capsys.readouterr().out
    assert study.trials["study.scale"].tolist() == [1] * 8 + [2] * 4 + [3]
    assert (study.config["strategy"]["trials"], study.config["study"]["trials"]) == (8, 13)
    few = {"space": {"lr": [0.1, 0.2, 0.3, 0.4]}, "config": {"width": 4, "act": "relu"}, "trials": 5, "progress": True}
    scales = [{"width": np.int64(width)} for width in (8, 16, 32)]
    study = climbed(**few, scales=scales, strategy=LADDER | {"trials": 24}, name="few")
    assert (study.scales, study.trials["study.scale"].tolist()) == (WIDTHS, [1] * 4 + [2])
    said = capsys.readouterr().out
    assert all(words in said for words in ("plans 4, 4, 4 trials", "study.trials=9 or more"))
    for beside in ({"trials": 40}, {"strategy": {**LADDER, "budget": 4}, "trials": None}):
        with pytest.raises(hpo.HpoError, match=r"trials: cannot be combined with strategy\.budget, given"):
            climbed(**{"strategy": {**given, "budget": 4}, "name": "both", **beside})


def test_where_the_budget_ends_below_the_target_nothing_wins_and_nothing_climbs_from_there(capsys):
    study = climbed(trials=8, progress=True)
    assert "a budget of 8 trials ends before the target" in capsys.readouterr().out
    with pytest.raises(hpo.HpoError, match="no trial is complete at the target, scale 3; the best of scale 2 is trial"):
        _ = study.best
    with pytest.raises(hpo.HpoError, match="no trial is complete at scale 3, so there is no best trial to start from"):
        study.extend(LARGER, climb=True, progress=False)


@pytest.mark.parametrize("first", [{}, {"lr": 0.1, "act": "relu"}])
def test_the_report_names_the_point_that_a_ladder_will_try_first_at_the_target(first):
    study = climbed(trials=9, config={"width": 4, **first})
    scales = json.loads((study.folder / "report.json").read_text())["scales"]
    assert [each["complete"] for each in scales["each"]] == [6, 3, 0]
    at_target = study.resume(10, progress=False).trials.iloc[9]
    assert {"lr": pytest.approx(at_target["lr"]), "act": at_target["act"]} == scales["expected"]


@pytest.mark.slow
def test_studies_are_compared_at_the_target_by_what_was_spent_to_get_there(capsys, ladder):
    climbed(name="below", trials=8)
    found(train, space=SPACE, config={"width": 32}, name="direct")
    result = json.loads((hpo.compare_studies(["ladder", "direct", "below"]).folder / "comparison.json").read_text())
    winners = {each["label"]: each["trial"] for each in result["winners"]}
    assert (winners["ladder"], winners["below"]) == (ladder.best.number, None)
    assert {standing["unit"] for standing in result["standings"]} == {"seconds"}
    assert result["curves"]["ladder"]["trials"]["trials"] == [10, 11]
    said = capsys.readouterr().out
    assert "below has no complete trial at its target: not compared" in said
    assert "2 of 11 trials are complete at the target" in said


def test_ask_and_tell_says_at_which_scale_each_trial_is_trained():
    settings = {"track": "none"}
    arguments = {"config": {"width": 4}, "metric": "score", "direction": "maximize", "trials": 11, "scales": WIDTHS}
    with hpo.open(SPACE, name="asked", strategy=LADDER, settings=settings, **arguments) as session:
        for trial in session:
            assert trial.config["width"] == WIDTHS[trial.scale - 1]["width"] == trial.changes["width"]
            session.tell(trial, trial.config["width"] - trial.config["lr"])
    study = hpo.load("asked")
    assert (study.scales, study.trials["study.scale"].tolist()) == (WIDTHS, [1] * 6 + [2] * 3 + [3] * 2)


def test_a_grid_trains_every_point_at_every_scale_and_the_default_is_compared_at_the_target():
    given = {"space": {"lr": [0.01, 0.1]}, "config": {"width": 4, "act": "relu", "lr": 0.1}}
    study = climbed(**given, strategy="grid", trials=6)
    assert study.trials.groupby("study.scale").size().to_dict() == {1: 2, 2: 2, 3: 2}
    report = json.loads((study.folder / "report.json").read_text())
    numbers = [report["winner"]["number"], report["baselines"]["default"]["number"]]
    assert study.trials.set_index("number")["study.scale"][numbers].tolist() == [3, 3]


def test_finalists_are_of_the_target():
    study = climbed(settings={"study.finalists": 4, "study.finalist_repeats": 2})
    assert (len(noted()), {width for width, _ in noted()[11:]}) == (11 + 2 * 2, {32})
    assert study.best.point["study.scale"] == 3


@pytest.mark.parametrize(("changes", "message"), [
    ({"scales": WIDTHS[:1]}, r"scales: must have at least two"),
    ({"scales": [{"width": 8}, {}]}, r"scale 2 changes nothing"),
    ({"scales": [{"width": 8}, {"width": 8}]}, r"scale 2 is the same as scale 1"),
    ({"scales": [{"widht": 8}, {"widht": 16}]}, r"has no key 'widht'.*width"),
    ({"scales": [{"lr": 0.1}, {"lr": 0.2}]}, r"lr is also searched"),
    ({"strategy": "random"}, r"strategy=random does not support scales; choose strategy=ladder"),
    ({"strategy": LADDER | {"costs": [1, 2]}}, r"costs: must be 3 ascending numbers, one per scale"),
    ({"strategy": {"name": "ladder"}}, r"give strategy\.costs, such as \[1, 4, 16\]"),
    ({"strategy": LADDER | {"costs": [-1, 2, 4]}}, r"strategy\.costs.0: must be greater than 0"),
    ({"strategy": LADDER | {"first": "ladder"}}, r"strategy\.first: must be one of grid, .*, given 'ladder'"),
    ({"limits": {"size": 3}}, r"limits: cannot be used with"),
    ({"scales": None}, r"strategy=ladder needs two or more scales"),
    ({"settings": {"study.stop_rule": "median"}}, r"study\.stop_rule: cannot be used with"),
    ({"space": SPACE | {"study": {"scale": [1, 2]}}, "scales": None, "strategy": "random"}, r"use another name"),
])  # fmt: skip
def test_what_cannot_be_climbed_is_refused(changes, message, tmp_path):
    refuses(message, climbed, **changes)
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_a_study_is_extended_to_another_scale(ladder):
    for width, number in ((8, 1), (32, 3)):
        refuses(f"given scale {number} of ", ladder.extend, {"width": width}, climb=True, progress=False)
    tried = set(ladder.trials["lr"])
    after = ladder.extend({**LARGER, "study.trials": 3}, climb=True, progress=False)
    assert after.trials["study.scale"].tolist() == [4, 4, 4]
    assert ([width for width, _ in noted()[-3:]], after.best.config["width"]) == ([64, 64, 64], 64)
    # Around the best of the scales before, whose trials are known and are not trained again.
    assert not tried & set(after.trials["lr"])
    assert all(1e-3 < lr < 0.1 for lr in after.trials["lr"])
    changes = ["width=128", "study.trials=1", "strategy.costs=[1,2,6,20,50]", "study.name=last"]
    last = after.extend(None, changes, climb=True, progress=False)
    assert (last.trials["study.scale"].tolist(), last.scales[-1]) == ([5], {"text": LARGER["text"], "width": 128})
    report = json.loads((last.folder / "report.json").read_text())
    assert [one["complete"] for one in report["scales"]["each"]] == [6, 3, 2, 3, 1]
    assert "from another study" in (last.folder / "report.md").read_text()


@pytest.mark.parametrize(("changes", "says"), [
    ({}, "needs a new scale, given scale 1 of plain"),
    ({"lr": 0.1}, "lr: cannot be changed, because it is searched at every scale"),
    ({"width": 64}, "strategy.costs"), ({"width": 2, "strategy.costs": [4, 1]}, "ascending"),
    ({"width": 64, "study.seed": 3}, "study.seed: would make new scores incomparable"),
])  # fmt: skip
def test_a_study_is_not_extended_to_what_is_no_larger_scale(plain, changes, says):
    studies = {path.name for path in plain.folder.parent.iterdir()}
    refuses(says, plain.extend, changes, climb=True, progress=False)
    for what, arguments in {"best": {"best": 2}, "trial": {"trials": [1]}}.items():
        refuses(f"{what}: has no effect", plain.extend, {"width": 64}, climb=True, progress=False, **arguments)
    assert {path.name for path in plain.folder.parent.iterdir()} == studies


def test_trials_of_other_scales_are_not_taken_for_those_of_this_study(ladder):
    changes = {"scales": WIDTHS[1:], "strategy": LADDER | {"costs": [1, 2]}, "settings": {"study.imports": "ladder"}}
    refuses(r"scales: must begin with the scales of the imported", climbed, name="other", **changes)
    refuses(r"was made with width=4, and scale 1 has 8", climbed, name="third", settings={"study.imports": "plain"})
