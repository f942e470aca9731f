"""Sections of a report: each caution where it should be and not where it should not; default, space, data, machine."""

import json
from dataclasses import replace

import pytest

import hpo
from hpo.report.sections.cautions import cautions
from hpo.report.sections.cost import describe_environment
from hpo.report.sections.space import describe_space
from hpo.report.sections.winner import against_default
from hpo.study.basis import environment
from hpo.study.view.cautions import at_the_end
from hpo.trials.goal import Goal, finished
from hpo.trials.space.reader import space_from_dict
from hpo.trials.trial import Outcome, Trial
from tests.hpo.commands.searched import found
from tests.hpo.report.made_up import subject
from tests.studies import prepared, toy_config

SPACE = space_from_dict(
    {"layers": [1, 2, 3, 4], "lr": {"low": 1e-4, "high": 1.0, "log": True}, "kind": {"choices": ["a", "b"]}}
)
GOAL = Goal({"accuracy": "maximize"})
ABSENT = {"missing": "not made here"}
CLEAN = {
    **dict.fromkeys(("data", "test", "finalists", "overtuning", "baselines"), ABSENT),
    **{"environment": {"is_dirty": False}, "study": {"allowed_changes": [], "objective": "a:b"}},
    "metric": {"name": "accuracy"},
}
MIDDLE = {"layers": 2, "lr": 0.01, "kind": "a"}


def trial(number, folds, point=MIDDLE, curve=()):
    scores = [Outcome(error="no") if value is None else Outcome({"accuracy": value}, curve) for value in folds]
    outcomes = dict(enumerate(scores))
    return finished(Trial(number, 0, point), outcomes, GOAL)


def said(trials, winner=None, **summary):
    number = {"winner": {"number": winner.number if winner else 0, "score": 0.7}}
    return cautions(replace(subject(trials, space=SPACE), goal=GOAL, winner=winner), CLEAN | number | summary)


def many(*first):
    """Return these trials and enough clearly worse ones."""
    return [*first, *(trial(100 + n, [0.1 + n / 1000]) for n in range(15))]


def test_failures_few_trials_and_a_search_that_has_not_ended_are_said_and_a_sound_study_raises_none():
    winner = trial(0, [0.90, 0.91])
    assert said(many(winner), winner) == []
    failed = [trial(n, [None]) for n in range(3)]
    assert "3 of 18 trials failed" in said([*many(), *failed])[0]
    assert not said([*many(), trial(50, [None])])
    assert "few trials: 2 for 3" in said([trial(0, [0.9]), trial(1, [0.1])])[0]
    lines = said([*many(), Trial(50, 0, MIDDLE), Trial(51, 0, MIDDLE)])
    assert lines[0] == "the search has not ended: 2 trials are not finished"


def test_a_training_that_was_not_the_same_when_it_was_repeated():
    first, *others = many()
    differs = replace(first.outcomes[0], differs="score at 3 was 0.5, and is 0.4 now")
    (line,) = said([replace(first, outcomes={**first.outcomes, 0: differs}), *others])
    assert f": trial {first.number}, repeated after an interruption, reported other values" in line
    assert "score at 3 was 0.5, and is 0.4 now" in line


def test_a_winner_at_the_end_of_a_range():
    ends = {"layers": (4, "layers (4) is the last"), "lr": (1.000123456789e-4, "lr (0.000100012) is at the lower")}
    for key, (value, words) in ends.items():
        winner = trial(0, [0.9, 0.91], MIDDLE | {key: value})
        assert words in said(many(winner), winner)[0]
    winner = trial(0, [0.9, 0.91], MIDDLE | {"kind": "b"})
    assert not said(many(winner), winner)


@pytest.mark.parametrize(
    ("dimension", "value", "end"),
    [
        # Nothing lies beyond a dropout of 0, but beyond an upper end of 0 something may.
        ([0.0, 0.1, 0.2], 0.0, None),
        ({"low": -4.0, "high": 0.0}, 0.0, "upper"),
        *(({"low": 5, "high": 200}, value, end) for value, end in ((5, "lower"), (200, "upper"), (6, None))),
        *(({"low": 5, "high": high}, 5, end) for high, end in ((7, "lower"), (6, None))),
    ],
)
def test_what_counts_as_the_end_of_a_range(dimension, value, end):
    whole = {"log": True, "integer": True} if isinstance(value, int) else {}
    space = space_from_dict({"key": dimension if isinstance(dimension, list) else dimension | whole})
    ends = [{"key": "key", "value": value, "end": end}] if end else []
    assert at_the_end(space, Trial(0, 0, {"key": value})) == ends


def test_a_runner_up_within_one_standard_error_of_the_winner():
    winner = trial(0, [0.90, 0.92])
    near, far = trial(1, [0.89, 0.92]), trial(2, [0.88, 0.91])
    words = "1 other configuration is within one standard error (0.01) of the winner: trial 1"
    assert words in said(many(winner, near, far), winner)[0]


def test_curves_that_still_improve():
    rising = [{"epoch": n, "accuracy": n / 10} for n in range(1, 5)]
    winner = trial(0, [0.4, 0.41], curve=rising)
    assert "longer training" in said(many(winner), winner)[0]
    winner = trial(0, [0.4, 0.41], curve=[*rising, {"epoch": 5, "accuracy": 0.2}])
    assert not said(many(winner), winner)


def against(default, gain):
    return {"overtuning": {"default_on_test": {"default": default, "winner": default + gain, "gain": gain}}}


def labelled(most, metric="accuracy"):
    """Return data of whose 100 examples so many have the label `pos`; the test split does not count."""
    labels = {"train": {"pos": most - 10, "neg": 90 - most}, "validation": {"pos": 10, "neg": 10}, "test": {"neg": 100}}
    parts = {name: {"labels": counts} for name, counts in labels.items()}
    split = {"duplicates": {}, "is_test_within_reach": False, "parts": parts}
    return {"data": {"split": split}, "metric": {"name": metric}}


TESTED = {"test": {"evaluations_of_these_data": 1, "trial": 0}}
DUPLICATES = {"train / test": 4, "train / validation": 0}
CHANGES = [{"time": "2026-01-01", "changes": ["data: part train", "python: was 3.11"]}]


@pytest.mark.parametrize(
    ("summary", "words"),
    [
        ({"test": {"evaluations_of_these_data": 2, "trial": 0}}, "the test split of th"),
        (
            {"data": {"split": {"duplicates": DUPLICATES, "is_test_within_reach": False, "parts": {}}}},
            "4 examples are in tw",
        ),
        ({"data": {"split": {"duplicates": {}, "is_test_within_reach": True, "parts": {}}}}, "every training reads"),
        (labelled(70), "'pos' (0.7000): a model that always predicts this label is as good"),
        (labelled(69), None),
        (labelled(70, metric="loss"), None),
        ({"environment": {"is_dirty": True}}, "the code had uncommi"),
        (against(0.5, -0.1), "overtuned"),
        (against(0.5, 0.0), "overtuned"),
        (against(0.5, 0.1), None),
        # A winner that is the default is not held against itself.
        (against(0.77, 0.0) | TESTED | {"baselines": {"default": {"number": 0}}}, None),
        (against(0.77, 0.0) | TESTED | {"baselines": {"default": {"number": 1}}}, "overtuned"),
        ({"finalists": [{"fresh_score": None}, {"fresh_score": None}]}, "all finalists failed"),
        ({"finalists": [{"fresh_score": None}, {"fresh_score": 0.5}]}, None),
        ({"study": {"allowed_changes": CHANGES, "objective": "a:b"}}, "data: part train; python: was 3.11"),
        (
            {"test": {"evaluations_of_these_data": 1, "trial": 7}},
            "the test score is that of trial 7, which was the winner at the time of the test",
        ),
    ],
)
def test_what_the_rest_of_the_report_gives_reason_to_doubt(summary, words):
    lines = said(many(), **summary)
    assert (len(lines), words or "") == (int(words is not None), words if words and words in lines[0] else "")


def compared(now, before, direction="maximize", amounts=(None, None), state="complete", number=0, gain=None):
    """Return the sentence on a winner and a default with these scores by fold."""
    winner, default = (
        {"score": sum(scores) / len(scores), "values": {f"fold_{k}": v for k, v in enumerate(scores)}, "amount": amount}
        for scores, amount in zip((now, before), amounts, strict=True)
    )
    winner, default = winner | {"number": 7}, default | {"number": number, "state": state}
    if gain is not None:
        default["gain"] = dict(zip(("value", "low", "high"), gain, strict=True))
    metric = {"direction": direction, "name": "m"}
    return against_default({"winner": winner, "baselines": {"default": default}, "metric": metric, "top": [winner]})


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_the_gain_over_the_default_is_that_of_what_is_expected_where_that_is_known(direction):
    sign = 1 if direction == "maximize" else -1
    scores = [sign * 0.9, sign * 0.93], [sign * 0.8, sign * 0.82]
    text = compared(*scores, direction, gain=(0.09, 0.0415, 0.1385))
    assert text.startswith("It is expected to be better by 0.0900 (95 % 0.0415 to 0.1385) than the default")
    assert "which may be chance) than the default" in compared(*scores, direction, gain=(0.09, -0.01, 0.19))
    text = compared(*scores, direction, gain=(-0.01, -0.1, 0.08))
    assert text.startswith("It is expected to be worse by 0.0100")


@pytest.mark.parametrize(
    ("now", "before", "more", "text"),
    [
        (0.9, 0.8, {}, "In the search it is better by 0.1000 than the default configuration, which has 0.8000 (trial"),
        # Few digits are never all zeros.
        (3e-6, 2e-6, {}, "In the search it is better by 1.000e-6 than"),
        (0.8, 0.9, {}, "In the search it is worse by 0.1000"),
        (0.8, 0.8, {}, "In the search it is as good as the default configuration"),
        (0.9, 0.8, {"amounts": (9, 1)}, "The default configuration was trained to 1 only (trial 0), with 0.8000: "),
        (0.9, 0.9, {"number": 7}, "It is the default configuration: nothing better was found."),
        (0.9, 0.9, {"state": "stopped"}, "The default configuration (trial 0) was stopped."),
    ],
)
def test_one_training_each_has_no_interval_and_what_does_not_compare_is_not_compared(now, before, more, text):
    assert compared([now], [before], **more).startswith(text)


def test_where_there_is_no_winner_or_default_the_reason_stands_for_the_gain():
    missing = {"missing": "why"}
    assert against_default({"winner": missing, "baselines": missing, "top": []}) == "Why."
    assert against_default({"top": [], "winner": {}, "baselines": {"default": missing}}) == "Why."


def test_what_the_machine_does_not_have_is_said_in_words_and_the_number_of_the_form_is_left_out():
    absent = {"cuda": None, "gpus": [], "driver": None, "commit": None, "is_dirty": False}
    given = {**environment.describe_environment(), **absent}
    described = describe_environment({"format": 1, **given})
    assert described.keys() == given.keys() - {"format"}
    assert [described[key].partition(":")[0] for key in ("cuda", "gpus", "driver")] == ["none"] * 3
    outside = {"missing": "the study was not started inside a git repository"}
    assert described["commit"] == described["is_dirty"] == outside


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
    space = {"toy": {"lr": given, "nonlinearity": {"choices": ["relu", "tanh"]}}}
    lr, nonlinearity = describe_space(prepared(tmp_path / "study", toy_config(space=space)))["space"]
    assert lr.get("scale") == scale
    assert (lr["default"], nonlinearity["default"]) == (0.01, "relu")
    assert "scale" not in nonlinearity


NOTE = "3 of 20 texts are cut"


@hpo.objective(describe_data=lambda _config: hpo.Examples(20, name="texts", notes=[NOTE]))
def train(config):
    return config["lr"]


@pytest.mark.slow
def test_what_an_objective_notes_of_its_data_and_how_data_without_digests_are_compared(capsys):
    @hpo.objective(describe_data=lambda _config: hpo.Examples(20, name="others"))
    def of_others(config):
        return config["lr"]

    study = found(train, space={"lr": (0.1, 1.0)}, trials=2, progress=True)
    assert json.loads((study.folder / "report.json").read_text())["data"]["notes"] == [NOTE]
    assert all(NOTE in (study.folder / page).read_text() for page in ("report.md", "report.html"))
    study.test(with_default=False)
    assert "data: the examples have no digests" in capsys.readouterr().out
    other = found(of_others, space={"lr": (0.1, 1.0)}, trials=2)
    with pytest.raises(hpo.HpoError, match=r"recogni\w+ .*the numbers of its examples, because they have no digests"):
        other.test(with_default=False)
    digests = [str(number) for number in range(20)]
    with_digests = hpo.objective(describe_data=lambda _config: hpo.Examples(20, digests=digests))(lambda config: 1.0)
    study = found(with_digests, space={"lr": (0.1, 1.0)}, trials=2, name="with", progress=True)
    study.test(with_default=False)
    assert "digests" not in capsys.readouterr().out
    with pytest.raises(hpo.HpoError, match=r"recogni\w+ .*the digests of its examples"):
        study.test(with_default=False)


def test_a_function_without_data_has_no_test_part_and_says_how_to_give_it_one():
    study = found(lambda config: config["lr"], space={"lr": (0.1, 1.0)}, trials=2)
    with pytest.raises(hpo.HpoError, match=r"test: .* no test split; write `@hpo.objective\(describe_data=...\)`"):
        study.test()
