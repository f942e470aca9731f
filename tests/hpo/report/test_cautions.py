"""Each caution of a report, raised where it should be and not where it should not."""

from dataclasses import replace

import pytest

from hpo.report.sections.cautions import cautions
from hpo.study.view.cautions import at_the_end
from hpo.trials.goal import Goal, finished
from hpo.trials.space.reader import space_from_dict
from hpo.trials.trial import Outcome, Trial
from tests.hpo.report.made_up import subject

SPACE = space_from_dict(
    {"layers": [1, 2, 3, 4], "lr": {"low": 1e-4, "high": 1.0, "log": True}, "kind": {"choices": ["a", "b"]}}
)
ABSENT = {"missing": "not made here"}
CLEAN = {
    **{"data": ABSENT, "test": ABSENT, "finalists": ABSENT, "overtuning": ABSENT, "baselines": ABSENT},
    **{"environment": {"is_dirty": False}, "study": {"allowed_changes": [], "objective": "a:b"}},
}
MIDDLE = {"layers": 2, "lr": 0.01, "kind": "a"}


def trial(number, folds, point=MIDDLE, curve=()):
    outcomes = {
        i: Outcome({"accuracy": v}, curve) if v is not None else Outcome(error="no") for i, v in enumerate(folds)
    }
    return finished(Trial(number, 0, point), outcomes, Goal({"accuracy": "maximize"}))


def said(trials, winner=None, **summary):
    number = {"winner": {"number": winner.number if winner else 0}}
    about = replace(subject(trials, space=SPACE), goal=Goal({"accuracy": "maximize"}), winner=winner)
    return cautions(about, CLEAN | number | summary)


def many(*first):
    """Return these trials and enough clearly worse ones."""
    return [*first, *(trial(100 + n, [0.1 + n / 1000]) for n in range(15))]


def test_a_sound_study_raises_none():
    winner = trial(0, [0.90, 0.91])
    assert said(many(winner), winner) == []


def test_many_failures_and_few_trials():
    failed = [trial(n, [None]) for n in range(3)]
    assert "3 of 18 trials failed" in said([*many(), *failed])[0]
    assert not said([*many(), trial(50, [None])])
    assert "few trials: 2 for 3" in said([trial(0, [0.9]), trial(1, [0.1])])[0]


def test_a_training_that_was_not_the_same_when_it_was_repeated():
    first, *others = many()
    differs = replace(first.outcomes[0], differs="score at 3 was 0.5, and is 0.4 now")
    (line,) = said([replace(first, outcomes={**first.outcomes, 0: differs}), *others])
    assert f": trial {first.number}, repeated after an interruption, reported other values" in line
    assert "score at 3 was 0.5, and is 0.4 now" in line


def test_a_search_that_has_not_ended():
    lines = said([*many(), Trial(50, 0, MIDDLE), Trial(51, 0, MIDDLE)])
    assert lines[0] == "the search has not ended: 2 trials are not finished"


def test_a_winner_at_the_end_of_a_range():
    ends = (
        ({"layers": 4}, "layers (4) is the last"),
        ({"lr": 1.000123456789e-4}, "lr (0.000100012) is at the lower"),
    )
    for point, words in ends:
        winner = trial(0, [0.9, 0.91], MIDDLE | point)
        assert words in said(many(winner), winner)[0]
    winner = trial(0, [0.9, 0.91], MIDDLE | {"kind": "b"})
    assert not said(many(winner), winner)


def test_nothing_lies_beyond_a_dropout_of_0_but_beyond_an_upper_end_of_0_something_may():
    space = space_from_dict({"dropout": [0.0, 0.1, 0.2], "log_lr": {"low": -4.0, "high": 0.0}})
    found = at_the_end(space, Trial(0, 0, {"dropout": 0.0, "log_lr": 0.0}))
    assert found == [{"key": "log_lr", "value": 0.0, "end": "upper"}]


@pytest.mark.parametrize(
    ("high", "value", "end"), [(200, 5, "lower"), (200, 200, "upper"), (200, 6, None), (7, 5, "lower"), (6, 5, None)]
)
def test_a_winner_at_the_end_of_a_range_of_whole_numbers(high, value, end):
    space = space_from_dict({"width": {"low": 5, "high": high, "log": True, "integer": True}})
    found = at_the_end(space, Trial(0, 0, {"width": value}))
    assert found == ([{"key": "width", "value": value, "end": end}] if end else [])


def test_a_runner_up_within_one_standard_error_of_the_winner():
    winner = trial(0, [0.90, 0.92])
    near, far = trial(1, [0.89, 0.92]), trial(2, [0.88, 0.91])
    assert (
        "1 other configuration is within one standard error (0.01) of the winner: trial 1"
        in said(many(winner, near, far), winner)[0]
    )


def test_curves_that_still_improve():
    rising = [{"epoch": n, "accuracy": n / 10} for n in range(1, 5)]
    winner = trial(0, [0.4, 0.41], curve=rising)
    assert "longer training" in said(many(winner), winner)[0]
    winner = trial(0, [0.4, 0.41], curve=[*rising, {"epoch": 5, "accuracy": 0.2}])
    assert not said(many(winner), winner)


def test_the_test_part_duplicates_and_a_dirty_tree():
    lines = said(
        many(),
        test={"evaluations_of_these_data": 2, "trial": 0},
        data={"split": {"duplicates": {"train / test": 4, "train / validation": 0}, "is_test_within_reach": True}},
        environment={"is_dirty": True},
    )
    assert [line[:20] for line in lines] == [
        *("the test split of th", "4 examples are in tw", "every training reads", "the code had uncommi"),
    ]


def test_a_winner_no_better_than_the_default_on_the_test_part():
    for gain, number in ((-0.1, 1), (0.0, 1), (0.1, 0)):
        against = {"default": 0.5, "winner": 0.5 + gain, "gain": gain}
        assert sum("overtuned" in line for line in said(many(), overtuning={"default_on_test": against})) == number


def test_finalists_that_all_failed_are_said():
    for scores, number in (([None, None], 1), ([None, 0.5], 0)):
        lines = said(many(), finalists=[{"fresh_score": score} for score in scores])
        assert sum("all finalists failed" in line for line in lines) == number


def test_a_winner_that_is_the_default_is_not_held_against_itself():
    against = {"default": 0.77, "winner": 0.77, "gain": 0.0}
    tested = {"evaluations_of_these_data": 1, "trial": 0}
    for default, number in ((0, 0), (1, 1)):
        baselines = {"default": {"number": default}}
        lines = said(many(), overtuning={"default_on_test": against}, test=tested, baselines=baselines)
        assert sum("overtuned" in line for line in lines) == number


def test_what_had_changed_when_the_study_was_resumed_all_the_same():
    changes = [{"time": "2026-01-01", "changes": ["data: part train", "python: was 3.11"]}]
    (line,) = said(many(), study={"allowed_changes": changes, "objective": "a:b"})
    assert "data: part train; python: was 3.11" in line


def test_a_test_score_of_an_earlier_winner_is_told():
    lines = said(many(), test={"evaluations_of_these_data": 1, "trial": 7})
    assert lines == ["the test score is that of trial 7, which was the winner at the time of the test"]
