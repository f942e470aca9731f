"""Scores on the test part say how sure they are: of shares, of scores by example, and of pairs of these."""

import json
import statistics
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import hpo
from hpo.config.study_config import config_from_dict
from hpo.errors import DataError
from hpo.study.basis.bounds import bounds_of, is_share
from hpo.study.preparing.preparation import prepare_study
from hpo.study.winner.estimates import Sample, Scored
from hpo.trials.estimate import bootstrap_interval
from tests.hpo.cli.commands import hpo as command
from tests.studies import toy_config

SHARE = {"shares": ["score"]}
SCORES = np.random.default_rng(1).normal(size=80).tolist()
MEAN = {"score": statistics.fmean(SCORES)}


def known(sample, metrics, by_example=None):
    return sample.estimates(Scored(metrics, by_example or {}))["score"]


def test_a_share_has_wilsons_interval_also_where_it_has_scores_by_example():
    reference = stats.binomtest(72, 80).proportion_ci(method="wilson")
    for by_example in ({}, {"score": [1] * 72 + [0] * 8}):
        found = known(Sample(80, SHARE), {"score": 0.9}, by_example)
        assert (found.low, found.high) == pytest.approx((reference.low, reference.high))
        assert (found.value, found.n) == (0.9, 80)


@pytest.mark.parametrize("kind", [list, tuple, np.array])
def test_scores_by_example_give_the_interval_of_their_mean(kind):
    found = known(Sample(80), MEAN, {"score": kind(SCORES)})
    assert (found.low, found.high) == bootstrap_interval(SCORES)
    assert found.low < found.value == MEAN["score"] < found.high


@pytest.mark.parametrize(
    ("metrics", "by_example", "note"),
    [
        (MEAN, {}, "`scores_by_example` from the objective"),
        (MEAN, {"other": SCORES}, "`shares` of describe_method"),
        (MEAN, {"score": SCORES[1:]}, "a finite number for each of 80 examples"),
        (MEAN, {"score": [*SCORES[1:], "1"]}, "a finite number for each of 80 examples"),
        (MEAN, {"score": [*SCORES[1:], float("nan")]}, "a finite number for each of 80 examples"),
        (MEAN, {"score": 0.5}, "a finite number for each of 80 examples"),
        ({"score": 0.5}, {"score": SCORES}, "must be the mean of its scores_by_example"),
        ({"score": 1.0}, {"score": [1] * 80}, "there is no spread"),
    ],
)
def test_without_an_interval_it_is_said_what_would_give_one(metrics, by_example, note):
    found = known(Sample(80), metrics, by_example)
    assert (found.value, found.low, found.high) == (metrics["score"], None, None)
    assert note in found.note


def test_a_share_in_percent_is_none():
    assert known(Sample(80, SHARE), {"score": 90.0}).low is None


@pytest.mark.parametrize("by_example", [{}, {"score": SCORES}])
def test_examples_in_groups_are_not_taken_for_independent(by_example):
    found = known(Sample(80, SHARE, is_grouped=True), MEAN, by_example)
    assert (found.low, found.note) == (None, "the examples are in groups, so they are not independent")


def test_a_difference_is_that_of_the_pairs():
    """Much narrower than of two samples, where what is hard is hard for both."""
    theirs = [score - 0.1 + 0.01 * (place % 2) for place, score in enumerate(SCORES)]
    ours, other = (Scored({"score": statistics.fmean(each)}, {"score": each}) for each in (SCORES, theirs))
    paired = Sample(80).differences(ours, other)["score"]
    assert paired.value == pytest.approx(0.095)
    assert paired.low < paired.value < paired.high
    alone = known(Sample(80), ours.metrics, ours.by_example)
    assert paired.high - paired.low < 0.1 * (alone.high - alone.low)
    turned = Sample(80).differences(other, ours)["score"]
    assert (turned.value, turned.low, turned.high) == pytest.approx(
        (-paired.value, -paired.high, -paired.low), abs=1e-3
    )


def test_examples_that_all_differ_by_as_much_show_no_spread():
    """Also where rounding makes the differences others."""
    ours, theirs = ([0.1 * number + more for number in range(80)] for more in (0.3, 0.0))
    scored = (Scored({"score": statistics.fmean(each)}, {"score": each}) for each in (ours, theirs))
    found = Sample(80).differences(*scored)["score"]
    assert (found.low, found.note) == (None, "all examples have the same score, so there is no spread")


@pytest.mark.parametrize(("ours", "theirs"), [(0.9, 0.8), (0.8, 0.8)])
def test_a_difference_of_shares_without_pairs_has_no_interval_and_says_so(ours, theirs):
    found = Sample(80, SHARE).differences(Scored({"score": ours, "size": 1.0}), Scored({"score": theirs}))
    assert found.keys() == {"score"}
    assert (found["score"].value, found["score"].low) == (pytest.approx(ours - theirs), None)
    assert found["score"].note == "return `scores_by_example` from the objective to get one"


METHOD = {"metrics": {"accuracy": "share", "loss": "nats"}, "bounds": {"loss": [0, None]}, "shares": ["accuracy"]}


def test_bounds_are_those_of_the_objective_and_of_shares():
    assert [bounds_of(METHOD, name) for name in ("accuracy", "loss", "fid")] == [(0, 1), (0, None), (None, None)]
    assert [is_share(METHOD, name) for name in ("accuracy", "loss", "fid")] == [True, False, False]
    assert (bounds_of(None, "accuracy"), is_share(None, "accuracy")) == ((None, None), False)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"bounds": {"score": [1, 0]}}, "bounds.score: must be the smallest and the largest value"),
        ({"bounds": {"score": [0]}}, "bounds.score.1: is missing"),
        ({"bounds": {"score": [0, "one"]}}, "bounds.score.1: must be a valid number"),
        ({"bounds": {"score": [0, float("inf")]}}, "bounds.score.1: must be a finite number"),
        ({"bounds": [0, 1]}, "bounds: must be a valid dictionary"),
        ({"shares": "score"}, "shares: must be a valid list"),
    ],
)
def test_bounds_that_cannot_be_read_are_refused_in_one_line(monkeypatch, bad, said):
    monkeypatch.setattr("tests.toy_data.describe_method", lambda _: bad, raising=False)
    with pytest.raises(DataError) as refused:
        prepare_study(config_from_dict(toy_config(objective="tests.toy_data:score")))
    assert f"objective: tests.toy_data.describe_method: {said}" in str(refused.value)
    assert "\n" not in str(refused.value)


def searched(returned, **optional_functions):
    """Search a function, and score its best on the test part: `returned(rate, examples)` is what it returns."""

    def train(config, trial):
        if trial.checkpoint_dir:
            Path(trial.checkpoint_dir).mkdir(parents=True, exist_ok=True)
        return returned(config["lr"], trial.test or trial.validation)

    data = {"size": 60, "name": "numbers"}
    decorated = hpo.objective(train, describe_data=lambda config: data, **optional_functions)
    settings = {"track": "none", "dispatch": "local", "split.folds": 1, "split.test_fraction": 0.5}
    return hpo.search(
        decorated, {"lr": [0.1, 0.5]}, trials=2, direction="maximize", name="s", config={"lr": 0.1}, settings=settings
    )


def by_example(rate, examples):
    scores = [(number % 5 + 1) * rate for number in examples]
    return {"score": statistics.fmean(scores), "size": 3, "scores_by_example": {"score": scores}}


@pytest.mark.parametrize("has_model", [True, False])
def test_scores_by_example_reach_the_test_result_and_are_not_kept(has_model, capsys):
    """Also where nothing is kept, so that the best is trained once more and scored."""
    study = searched(
        by_example, **({"run_test": lambda config, trial: by_example(config["lr"], trial.test)} if has_model else {})
    )
    with pytest.raises(hpo.HpoError, match="has no test scores yet"):
        _ = study.test_result
    code, out, err = command(capsys, "test", "s")
    assert code == 0, err

    result = study.test_result
    found, default, difference = (each["score"] for each in (result.metrics, result.default, result.difference))
    assert found.low < found.value < found.high
    assert (found.n, default.n) == (30, 30)
    assert found.value - default.value == difference.value == pytest.approx(0.8 * found.value)
    assert (difference.low, difference.high) == pytest.approx((0.8 * found.low, 0.8 * found.high))
    assert result.metrics["size"] == type(found)(3.0)
    said = {"score =": found, "configuration: score =": default, "(winner - default): score": difference}
    for says, each in said.items():
        assert f"{says} {each.text('{:.4f}'.format)}" in out

    kept = json.loads(Path("runs/s/test.json").read_text())
    assert kept["estimates"]["score"] == vars(found)
    assert kept["estimates"].keys() == kept["difference"].keys() == {"score"}
    page = Path("runs/s/report.md").read_text()
    assert f"Test score: **{found.value:.4f}** (95 % {found.low:.4f} to {found.high:.4f}, n = 30) on 30" in page
    assert "scores_by_example" not in "".join(path.read_text() for path in Path("runs/s").glob("*.json"))
    assert b"scores_by_example" not in Path("runs/s/study.db").read_bytes()


def test_where_nothing_gives_an_interval_the_command_says_what_would(capsys):
    study = searched(lambda rate, _: rate)
    _, out, _ = command(capsys, "test", "s", "--no-default")
    assert "score = 0.5000 (no interval: return `scores_by_example` from the objective to get one, or list" in out
    assert (study.test_result.default, study.test_result.difference) == ({}, {})
