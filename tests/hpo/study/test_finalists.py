"""Finalists of a search for several metrics, or with limits: the fresh scores decide, by front and choice."""

import pytest

from hpo.engine.dispatch.local import LocalDispatcher
from hpo.session.session import run_study
from hpo.study.opening import open_study, read_study
from hpo.study.winner.verdict import read_verdict
from tests.studies import REPOSITORY, prepared, toy_config

METRICS = {"score": "maximize", "size": "minimize"}
LAYERS = {"toy": {"layers": [1, 2, 3, 4, 5]}}


def study_of(folder, objective, finalists, **changes):
    """Return a study of all five sizes."""
    tree = toy_config("grid", LAYERS, 5, f"tests.toy_goals:{objective}")
    tree["study"] |= {"finalists": finalists, "choose": "first_within_limits", **changes}
    return prepared(folder, tree | {"split": tree["split"] | {"folds": 1}})


def searched(folder, *asked, **changes):
    """Return the verdict of a search for it."""
    study = study_of(folder, *asked, **changes)
    record = open_study(study)
    run_study(study, record, LocalDispatcher(str(REPOSITORY)), None)
    verdict = read_verdict(study, record)
    record.close()
    return verdict


def layers(trial):
    return trial.point["toy.layers"]


def test_a_member_that_was_lucky_in_the_search_is_not_chosen(tmp_path):
    assert layers(searched(tmp_path / "search", "lucky", 0, metrics=METRICS).winner) == 2
    verdict = searched(tmp_path / "again", "lucky", 5, metrics=METRICS)
    # Those of the search's front come first, and of them the one that would be chosen.
    assert [layers(finalist.trial) for finalist in verdict.finalists[:2]] == [2, 1]
    assert sorted(map(layers, verdict.front)) == [1, 2]
    # By the fresh scores the five are all of the front, and the largest has the best score.
    assert layers(verdict.winner) == 5


def test_a_choice_by_weights_goes_by_the_fresh_front(tmp_path):
    verdict = searched(tmp_path, "lucky", 5, metrics=METRICS, choose={"size": 1.0})
    assert layers(verdict.winner) == 1


@pytest.mark.parametrize("goal", [{"metrics": METRICS}, {"metric": "score"}])
def test_what_exceeds_a_limit_on_fresh_seeds_is_not_chosen(tmp_path, goal):
    verdict = searched(tmp_path, "growing", 5, limits={"size": 3}, **goal)
    # Only what keeps the limits is trained again.
    assert sorted(layers(finalist.trial) for finalist in verdict.finalists) == [1, 2, 3]
    assert {layers(finalist.trial) for finalist in verdict.finalists if not finalist.again.keeps_limits} == {3}
    assert layers(verdict.winner) == 2


def test_where_no_finalist_keeps_the_limits_there_is_no_winner(tmp_path):
    verdict = searched(tmp_path, "growing", 1, metric="score", limits={"size": 3})
    assert [layers(finalist.trial) for finalist in verdict.finalists] == [3]
    assert verdict.winner is None


def test_another_choice_goes_by_the_scores_of_the_search_while_its_finalist_is_not_trained(tmp_path):
    by_size = searched(tmp_path, "lucky", 1, metrics=METRICS, choose={"size": 1.0})
    assert (layers(by_size.winner), by_size.are_finalists_trained) == (1, True)
    study = study_of(tmp_path, "lucky", 1, metrics=METRICS)
    record = read_study(study)
    by_score = read_verdict(study, record)
    record.close()
    assert (layers(by_score.winner), by_score.are_finalists_trained) == (2, False)
