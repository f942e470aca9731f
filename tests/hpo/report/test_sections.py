"""Sections of a report: each caution where it should be and not where it should not; default, space, data, machine."""

import json
import math
from dataclasses import replace

import pytest

import hpo
from hpo.report.sections.cautions import cautions
from hpo.report.sections.cost import EnvironmentPart, describe_environment
from hpo.report.sections.space import describe_range, describe_space
from hpo.report.sections.winner import against_default, describe_baselines, over_text
from hpo.study.view.cautions import at_the_end
from hpo.trials.goal import Goal, Limit, finished
from hpo.trials.space.first_points import default_of
from hpo.trials.space.reader import space_from_dict
from hpo.trials.trial import Outcome, TaskLayout, Trial
from tests.hpo.commands.searched import found
from tests.hpo.report.made_up import subject
from tests.studies import prepared, toy_config

LR = {"low": 1e-4, "high": 1.0, "log": True}
SPACE = space_from_dict({"layers": [1, 2, 3, 4], "lr": LR, "kind": {"choices": ["a", "b"]}})
GOAL = Goal({"accuracy": "maximize"})
CLEAN = {key: {"missing": "not made here"} for key in ("data", "test", "finalists", "overtuning", "baselines")}
CLEAN |= {"environment": {"is_dirty": False}, "study": {"allowed_changes": [], "objective": "a:b"}}
CLEAN |= {"metric": {"name": "accuracy", "direction": "maximize"}}
MIDDLE = {"layers": 2, "lr": 0.01, "kind": "a"}


def trial(number, folds, point=MIDDLE, curve=()):
    scores = [Outcome(error="no") if value is None else Outcome({"accuracy": value}, curve) for value in folds]
    return finished(Trial(number, 0, point), dict(enumerate(scores)), GOAL)


def said(trials, winner=None, **summary):
    number = {"winner": {"number": winner.number if winner else 0, "score": 0.7, "amount": None}}
    return cautions(replace(subject(trials, space=SPACE), goal=GOAL, winner=winner), CLEAN | number | summary)


def many(*first):
    return [*first, *(trial(100 + n, [0.1 + n / 1000]) for n in range(15))]


RISING = [{"epoch": n, "accuracy": n / 10} for n in range(1, 5)]
LOWEST = 1.000123456789e-4
CLOSE = [trial(0, [0.90, 0.92]), trial(1, [0.89, 0.92]), trial(2, [0.88, 0.91])]


@pytest.mark.parametrize(("first", "words"), [
    ([trial(0, [0.90, 0.91])], None),
    ([trial(0, [0.90, 0.91], MIDDLE | {"kind": "b"})], None),
    ([trial(0, [0.90, 0.91], MIDDLE | {"layers": 4})], "layers (4) is the last"),
    ([trial(0, [0.8, 0.8], MIDDLE | {"layers": 4}), trial(1, [0.90, 0.91])], "1 other configuration is within"),
    ([trial(0, [0.90, 0.91], MIDDLE | {"lr": LOWEST})], "lr (0.000100012) is at the lower"),
    (CLOSE, "1 other configuration is within one standard error (0.01) of the winner: trial 1"),
    ([trial(0, [0.4, 0.41], curve=RISING)], "longer training"),
    ([trial(0, [0.4, 0.41], curve=[*RISING, {"epoch": 5, "accuracy": 0.2}])], None),
    ([trial(0, [0.9, 0.91]), *(trial(n, [None]) for n in range(1, 4))], "3 of 19 ended trials failed"),
    ([trial(0, [0.9, 0.91]), trial(50, [None])], None),
])  # fmt: skip
def test_what_the_winner_and_the_other_trials_give_reason_to_doubt(first, words):
    lines = said(many(*first), first[0])
    assert (len(lines), words or "") == (int(words is not None), words if words and words in lines[0] else "")


@pytest.mark.parametrize(("bound", "number"), [(100.0, 1), (200.0, 0)])
def test_a_tested_model_beyond_a_limit_is_said(bound, number):
    trials = many(trial(0, [0.90, 0.91]))
    limited = replace(GOAL, limits=(Limit("size", bound),))
    reasons = cautions(
        replace(subject(trials, space=SPACE), goal=limited, winner=trials[0]),
        CLEAN | {"winner": {"number": 0, "score": 0.7}, "test": TESTED},
    )
    assert sum("size of the tested model is 150, beyond the limit size <= 100" in line for line in reasons) == number


def test_few_trials_and_a_search_that_has_not_ended_are_said():
    assert "few trials: 2 for 3" in said([trial(0, [0.9]), trial(1, [0.1])])[0]
    retries = [replace(trial(number, [0.1]), retry_of=1) for number in range(2, 30)]
    assert "few trials: 2 for 3" in said([trial(0, [0.9]), trial(1, [None]), *retries])[0]
    lines = said([*many(), Trial(50, 0, MIDDLE), Trial(51, 0, MIDDLE)])
    assert lines[0] == "the search has not ended: 2 trials are not finished"


def test_a_training_that_was_not_the_same_when_it_was_repeated():
    first, *others = many()
    differs = replace(first.outcomes[0], differs="score at 3 was 0.5, and is 0.4 now")
    (line,) = said([replace(first, outcomes={**first.outcomes, 0: differs}), *others])
    assert f": trial {first.number}, repeated after an interruption, reported other values" in line
    assert "score at 3 was 0.5, and is 0.4 now" in line


@pytest.mark.parametrize(("dimension", "value", "end"), [
    ([0.0, 0.1, 0.2], 0.0, None),
    ({"low": -4.0, "high": 0.0}, 0.0, "upper"),
    *(({"low": 5, "high": 200}, value, end) for value, end in ((5, "lower"), (200, "upper"), (6, None))),
    *(({"low": 5, "high": high}, 5, end) for high, end in ((7, "lower"), (6, None))),
])  # fmt: skip
def test_what_counts_as_the_end_of_a_range(dimension, value, end):
    whole = {"log": True, "integer": True} if isinstance(value, int) else {}
    space = space_from_dict({"key": dimension if isinstance(dimension, list) else dimension | whole})
    ends = [{"key": "key", "value": value, "end": end}] if end else []
    assert at_the_end(space, Trial(0, 0, {"key": value})) == ends


def against(default, gain):
    return {"overtuning": {"default_on_test": {"default": default, "winner": default + gain, "gain": gain}}}


def split(**changes):
    return {"data": {"split": {"duplicates": {}, "is_test_within_reach": False, "parts": {}} | changes}}


def labelled(most):
    """Return data of whose 100 examples so many have the label `pos`; the test split does not count."""
    labels = {"train": {"pos": most - 10, "neg": 90 - most}, "validation": {"pos": 10, "neg": 10}, "test": {"neg": 100}}
    return split(parts={name: {"labels": counts} for name, counts in labels.items()})


def validated(score):
    return {"default": {"number": 1, "score": score, "amount": None}}


KNEE = {"choice": {"text": "the knee of the front"}, "members": []}
TESTED = {"evaluations_of_these_data": 1, "trial": 0, "metrics": {"size": 150.0}}
CHANGES = [{"time": "2026-01-01", "changes": ["data: train", "python: was 3.11"]}]


@pytest.mark.parametrize(("summary", "words"), [
    ({"test": TESTED | {"evaluations_of_these_data": 2}}, "the test split of th"),
    (against(0.5, -0.1) | {"test": TESTED | {"trial": 7}}, "the test score is that of trial 7,"),
    (split(duplicates={"train / test": 4, "train / validation": 0}), "4 examples are in tw"),
    (split(duplicates={"train / test": 1}), "1 example is in two"),
    (split(is_test_within_reach=True), "objective reads the data in every training"),
    (labelled(70), "'pos' (0.7000): a model that always predicts this label is at least"),
    (labelled(69), None),
    (labelled(70) | {"metric": {"name": "loss"}}, None),
    ({"environment": {"is_dirty": True}}, "the code had uncommi"),
    (against(0.5, 0.0), "overtuned"),
    (against(0.5, 0.1), None),
    # A winner that is the default is not held against itself.
    (against(0.77, 0.0) | {"test": TESTED, "baselines": {"default": {"number": 0}}}, None),
    (against(0.77, 0.0) | {"test": TESTED, "baselines": validated(0.69)}, "overtuned"),
    # A rule may choose a winner that is worse in the leading metric on validation, too.
    (against(0.77, -0.1) | {"baselines": validated(0.7)}, None),
    (against(0.77, -0.1) | {"baselines": validated(0.8), "front": KNEE}, "in accuracy the winner (0.6700) is not"),
    ({"finalists": [{"fresh_score": None, "error": "no"}] * 2}, "all finalists failed"),
    ({"finalists": [{"fresh_score": None, "error": "no"}, {"fresh_score": 0.5}]}, None),
    ({"finalists": [{"fresh_score": None, "error": None}]}, "not all finalists are trained on fresh seeds yet"),
    ({"study": {"allowed_changes": CHANGES, "objective": "a:b"}}, "data: train; python: was 3.11"),
])  # fmt: skip
def test_what_the_rest_of_the_report_gives_reason_to_doubt(summary, words):
    lines = said(many(), **summary)
    assert (len(lines), words or "") == (int(words is not None), words if words and words in lines[0] else "")


def compared(now, before, direction="maximize", amount=None, gain=None, **of_default):
    winner = {"number": 7, "score": now, "values": {"fold_0": now}, "amount": amount and 9}
    default = {"number": 0, "score": before, "values": {"fold_0": before}, "amount": amount, "state": "complete"}
    default |= of_default | ({"gain": dict(zip(("value", "low", "high"), gain, strict=True))} if gain else {})
    metric = {"direction": direction, "name": "m"}
    return against_default({"winner": winner, "baselines": {"default": default}, "metric": metric, "top": [winner]})


@pytest.mark.parametrize(("now", "before", "more", "text"), [
    (0.9, 0.8, {}, "In the search, the winner is better by 0.1000 than the default configuration, which has 0.8000"),
    (0.8, 0.9, {"direction": "minimize"}, "In the search, the winner is better by 0.1000"),
    # Few digits are never all zeros.
    (3e-6, 2e-6, {}, "In the search, the winner is better by 1.000e-6 than"),
    (0.8, 0.9, {}, "In the search, the winner is worse by 0.1000"),
    (0.8, 0.8, {}, "In the search, the winner is as good as the default configuration"),
    (0.9, 0.8, {"amount": 1}, "The default configuration (trial 0) was trained to 1 only, and has 0.8000: "),
    (0.9, 0.9, {"number": 7}, "The winner is the default configuration, so the search brought no gain."),
    (0.9, 0.9, {"state": "stopped"}, "The default configuration (trial 0) was stopped."),
    (0.9, 0.8, {"gain": (0.09, 0.0415, 0.1385)}, "The winner is expected to be better by 0.0900 (95 % 0.0415 to"),
    (0.9, 0.8, {"gain": (0.09, -0.01, 0.19)}, "(95 % -0.0100 to 0.1900, which may be chance) than the default"),
    (0.9, 0.8, {"gain": (-0.01, -0.1, 0.08)}, "The winner is expected to be worse by 0.0100"),
])  # fmt: skip
def test_the_gain_over_the_default_is_said_and_what_does_not_compare_is_not_compared(now, before, more, text):
    assert text in compared(now, before, **more)


def test_the_baselines_are_at_the_full_budget_and_of_the_defaults_retry(tmp_path):
    study = prepared(tmp_path / "study", toy_config("grid"))
    default = default_of(study.space, study.config)
    at_budgets = [{"label": "random", "unit": "trials", "budget": n, "mean_score": n / 9} for n in (9, 3)]
    trials = [trial(0, [None], default), trial(1, [0.5], default)]
    found = describe_baselines(study, trials, {"standings": at_budgets}, None)
    assert (found["default"]["number"], found["random"]["mean_score"]) == (1, 1.0)


def test_a_mean_is_over_folds_seeds_or_both():
    for layout, text in (((1, 1), "folds"), ((3, 1), "folds"), ((1, 2), "seeds"), ((3, 2), "folds and seeds")):
        assert over_text(map(TaskLayout(*layout).name, range(math.prod(layout)))) == text


def test_only_declared_ranges_are_logarithmic(tmp_path):
    space = {"toy": {"lr": {"low": 1e-4, "high": 0.1, "log": True}, "layers": [2, 4, 8]}}
    described = describe_space(prepared(tmp_path / "study", toy_config(space=space)))["space"]
    assert [describe_range(each)[2] for each in described] == [
        "0.0001 to 0.1 (log); default 0.01",
        "2, 4, 8; default 2",
    ]


def test_what_the_machine_does_not_have_is_said_in_words():
    described = describe_environment(dict.fromkeys(EnvironmentPart.__annotations__))
    assert [described[key].partition(":")[0] for key in ("cuda", "gpus", "driver")] == ["none"] * 3
    outside = {"missing": "the study was not started inside a git repository"}
    assert described["commit"] == described["is_dirty"] == outside


NOTE = "3 of 20 texts are cut"


def of_data(name="texts", **data):
    train = hpo.objective(describe_data=lambda _: hpo.Examples(20, name=name, **data))(lambda config: config["lr"])
    return found(train, name=name, trials=1, progress=True)


def test_what_an_objective_notes_of_its_data_is_on_every_page():
    study = of_data(notes=[NOTE])
    assert json.loads((study.folder / "report.json").read_text())["data"]["notes"] == [NOTE]
    assert all(NOTE in (study.folder / page).read_text() for page in ("report.md", "report.html"))


@pytest.mark.slow
@pytest.mark.parametrize("digests", [None, [str(number) for number in range(20)]])
def test_data_are_recognized_by_the_digests_of_their_examples_or_else_by_their_number(capsys, digests):
    of_data(digests=digests).test(with_default=False)
    assert ("data: the examples have no digests" in capsys.readouterr().out) == (digests is None)
    says = "the numbers of its examples, because they have no digests" if digests is None else "the digests of its ex"
    with pytest.raises(hpo.HpoError, match=rf"recogni\w+ .*{says}"):
        of_data("others", digests=digests).test(with_default=False)


def test_a_function_without_data_has_no_test_part_and_says_how_to_give_it_one():
    study = found(lambda config: config["lr"], space={"lr": (0.1, 1.0)}, trials=2)
    with pytest.raises(hpo.HpoError, match=r"test: .* no test split; write `@hpo.objective\(describe_data=...\)`"):
        study.test()
