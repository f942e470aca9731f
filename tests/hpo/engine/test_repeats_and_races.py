"""More than one training a point: repeats, races of folds, finalists on fresh seeds, imported trials."""

import json
import statistics
from pathlib import Path

import pytest

from hpo.errors import HpoError
from hpo.session.session import run_study
from hpo.study.opening import open_study
from hpo.study.results.run import StudyRun
from hpo.trials.history import History
from hpo.workers.dispatch.local import LocalDispatcher
from tests.studies import ORDERED, REPOSITORY, STRATEGIES, prepared, refuses, run_toy, toy_config

pytestmark = pytest.mark.slow


def config(*given, **study):
    tree = toy_config(*given)
    return tree | {"study": tree["study"] | study}


def folds_config(race_after=None, objective="noisy"):
    tree = config("random", ORDERED, 12, f"toy_data:{objective}")
    return tree | {"split": tree["split"] | {"folds": 5, "race_after": race_after}}


def points(trials):
    return [tuple(value for key, value in row.items() if key.startswith("toy.")) for row in trials]


def test_repeats_train_each_fold_with_other_seeds_and_the_score_is_their_mean():
    found = run_toy(Path("a"), config("random", None, 4, repeats=3))
    names = [f"fold_0_repeat_{r}" for r in range(3)]
    assert [name for name in found[0] if name.startswith("fold")] == names
    for row in found:
        if row["state"] == "complete":
            values = [float(row[name]) for name in names]
            assert (len(set(values)), float(row["score"])) == (3, pytest.approx(statistics.fmean(values)))
    single = run_toy(Path("b"), config("random", None, 4))
    assert [row["fold_0"] for row in single] == [row["fold_0_repeat_0"] for row in found]


def test_a_race_saves_folds_of_trials_that_are_clearly_behind_and_keeps_the_winner():
    whole, raced = (run_toy(Path(f"after_{after}"), folds_config(after)) for after in (None, 2))
    stopped = [row for row in raced if row["state"] == "stopped"]
    assert 0 < len(stopped) < len(raced)
    assert all(row["fold_1"] and not row["fold_2"] for row in stopped)
    best = max((row for row in whole if row["score"]), key=lambda row: float(row["score"]))
    assert next(row for row in raced if row["number"] == best["number"])["score"] == best["score"]
    assert json.loads(Path("after_2", "report.json").read_text())["counts"]["tasks_saved"] == 3 * len(stopped)


def test_a_rival_that_fails_on_a_later_fold_stops_nobody():
    assert {row["state"] for row in run_toy(Path("s"), folds_config(2, "best_but_fails"))} >= {"failed", "complete"}


def test_an_objective_that_cannot_continue_is_refused_for_halving():
    refuses(HpoError, "CONTINUES", prepared, Path("s"), config("hyperband", None, 12, "toy_score:score"))


def test_the_winner_is_chosen_among_the_finalists_on_fresh_seeds():
    study = prepared(Path("s"), config("random", None, 12, finalists=4, finalist_repeats=2))
    record = open_study(study)

    def finalists():
        run_study(study, record, LocalDispatcher(str(REPOSITORY)), None)
        return StudyRun.of(study, record).finalists

    known = finalists()
    assert [f.trial.number for f in known] == [t.number for t in record.history().ranked(4)]
    for finalist in known:
        assert sorted(finalist.again.outcomes) == [1, 2]
        fresh = [outcome.metrics["score"] for outcome in finalist.again.outcomes.values()]
        assert finalist.again.score == pytest.approx(statistics.fmean(fresh))
        assert finalist.trial.score not in fresh
    assert StudyRun.of(study, record).winner.number == max(known, key=lambda f: f.again.score).trial.number
    assert [f.again.outcomes for f in finalists()] == [f.again.outcomes for f in known], "everything is done"


def test_imported_trials_teach_the_strategy_and_cost_no_budget():
    old = run_toy(Path("runs/old"), config("evolutionary", None, 12))
    folder, given = Path("runs/new"), {"name": "new", "imports": "old"}
    study = prepared(folder, config("evolutionary", None, 8, **given))
    assert [t.number for t in study.imports.trials] == list(range(-12, 0))
    new = run_toy(folder, config("evolutionary", None, 8, **given))
    assert len(new) == 8
    assert not {*points(old)} & {*points(new)}
    plain = prepared(Path("plain"), config("evolutionary", None, 8)).strategy.propose(History(), [])
    assert [row["toy.layers"] for row in new] != [str(point["toy.layers"]) for point in plain]
    Path("runs/old/trials.csv").unlink()
    assert run_toy(folder, config("evolutionary", None, 12, **given))[:8] == new


def test_a_whole_number_in_a_range_of_fractions_is_the_same_point_when_it_is_read_back():
    space = {"toy": {"momentum": {"low": 0.0, "high": 2.0}, "layers": {"choices": [0, 1, False]}}}
    space |= {"first": [{"toy.momentum": 1, "toy.layers": False}]}
    assert [len(run_toy(Path("s"), config("random", space, trials, "toys:constant"))) for trials in (2, 6)] == [2, 6]


def test_dimensions_in_another_order_are_another_study():
    run_toy(Path("s"), config("random", None, 2))
    with pytest.raises(HpoError, match="another order"):
        run_toy(Path("s"), config("random", {"toy": dict(reversed(ORDERED["toy"].items()))}, 4))
    assert len(run_toy(Path("s"), config("random", None, 4))) == 4


def test_of_a_study_by_amounts_the_longest_trained_trials_are_imported():
    strategy = STRATEGIES["successive_halving"] | {"counts": "trials"}
    old = run_toy(Path("runs/old"), config(strategy, None, 7, "toys:continued"))
    study = prepared(Path("new"), config("random", None, 12, "toys:continued", imports="old"))
    assert [trial.score for trial in study.imports.trials] == [float(r["score"]) for r in old if r["amount"] == "4"]
