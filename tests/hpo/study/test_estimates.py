"""Intervals of test scores: of shares, of scores by example, and of pairs of these."""

import json
import statistics
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy import stats

import hpo
from hpo.commands.evaluation import Evaluation
from hpo.errors import DataError
from hpo.study.basis.bounds import bounds_of, is_share
from hpo.study.winner.estimates import Sample, Scored
from hpo.trials.estimate import bootstrap_interval
from tests.hpo.cli.commands import prints
from tests.studies import config_from_dict, prepare_study, refuses, toy_config

SHARE = {"shares": ["score"]}
SCORES = np.random.default_rng(1).normal(size=80).tolist()
MEAN = {"score": statistics.fmean(SCORES)}
EACH, GROUPS = "finite numbers for each of 80 examples", "the examples are in groups, so they are not independent"


def known(sample, metrics, by_example=None):
    return sample.estimates(Scored(metrics, by_example or {}))["score"]


def test_a_share_has_wilsons_interval_and_scores_by_example_that_of_their_mean():
    reference = stats.binomtest(72, 80).proportion_ci(method="wilson")
    for by_example in ({}, {"score": [1] * 72 + [0] * 8}):
        found = known(Sample(80, SHARE), {"score": 0.9}, by_example)
        assert (found.low, found.high) == pytest.approx((reference.low, reference.high))
        assert (found.value, found.n) == (0.9, 80)
    reference = bootstrap_interval(lambda counts: counts @ np.array(SCORES) / 80, 80)
    for kind in (list, tuple, np.array, torch.tensor):
        found = known(Sample(80), MEAN, {"score": kind(SCORES)})
        assert (found.low, found.high) == pytest.approx(reference)
        assert found.low < found.value == MEAN["score"] < found.high


@pytest.mark.parametrize(("sample", "metrics", "by_example", "note"), [
    (Sample(80), MEAN, {}, "returns no `scores_by_example`"),
    (Sample(80), MEAN, {"other": SCORES}, "`shares` of describe_method"),
    *((Sample(80), MEAN, {"score": [*SCORES[1:], *more]}, EACH) for more in ([], ["1"], [float("nan")])),
    (Sample(80), {"score": 0.5}, {"score": SCORES}, "must equal the value from its scores_by_example"),
    (Sample(80), {"score": 1.0}, {"score": [1] * 80}, "there is no spread"),
    (Sample(80), {"score": 1.0}, {"score": [[1, 2, 3]] * 80}, "score_of_sums must have a function"),
    (Sample(80, SHARE), {"score": 90.0}, {}, ""),
    *((Sample(80, SHARE, is_grouped=True), MEAN, by_example, GROUPS) for by_example in ({}, {"score": SCORES})),
])  # fmt: skip
def test_without_an_interval_the_note_says_what_would_give_one(sample, metrics, by_example, note):
    found = known(sample, metrics, by_example)
    assert (found.value, found.low, found.high) == (metrics["score"], None, None)
    assert note in found.note


def test_sums_by_example_give_the_interval_of_a_ratio_or_of_any_function_of_them():
    right = np.random.default_rng(2).integers(0, 9, size=80)
    pairs, rows = np.stack([right, [9] * 80], axis=1), np.stack([right, [4] * 80, [5] * 80], axis=1)
    value, functions = float(right.sum() / 720), {"score": lambda sums: sums[:, 0] / (sums[:, 1] + sums[:, 2])}
    ratio = known(Sample(80), {"score": value}, {"score": pairs})
    mean = known(Sample(80), {"score": value}, {"score": right / 9})
    for each in (mean, Sample(80).estimates(Scored({"score": value}, {"score": rows}, functions))["score"]):
        assert (each.low, each.high) == pytest.approx((ratio.low, ratio.high))
    assert ratio.low < value < ratio.high
    both = Scored({"score": value}, {"score": rows}, functions), Scored({"score": value / 2}, {"score": pairs * [1, 2]})
    gain = Sample(80).differences(*both)["score"]
    assert [gain.low, gain.high] == pytest.approx([ratio.low / 2, ratio.high / 2])
    # The first fails for the whole, the second for the samples, the third gives one number for all samples.
    for function in (lambda sums: sums[9], lambda sums: sums[:, 0] / (720 // (len(sums) == 1)), lambda sums: [value]):
        failing = Scored({"score": value}, {"score": rows}, {"score": function})
        assert "score_of_sums failed" in Sample(80).estimates(failing)["score"].note


def test_a_difference_is_that_of_the_pairs():
    """Its interval is much narrower than that of two samples if hard examples are hard for both."""
    theirs = [score - 0.1 + 0.01 * (place % 2) for place, score in enumerate(SCORES)]
    ours, other = (Scored({"score": statistics.fmean(each)}, {"score": each}) for each in (SCORES, theirs))
    paired, turned = (Sample(80).differences(*pair)["score"] for pair in ((ours, other), (other, ours)))
    assert paired.low < paired.value < paired.high
    assert paired.value == pytest.approx(0.095)
    alone = known(Sample(80), ours.metrics, ours.by_example)
    assert paired.high - paired.low < 0.1 * (alone.high - alone.low)
    back = [-turned.value, -turned.high, -turned.low]
    assert back == pytest.approx([paired.value, paired.low, paired.high], abs=1e-3)


def test_equal_differences_and_shares_without_pairs_have_no_interval():
    # Rounding makes the differences unequal.
    rising = ([0.1 * number + more for number in range(80)] for more in (0.3, 0.0))
    found = Sample(80).differences(*(Scored({"score": statistics.fmean(each)}, {"score": each}) for each in rising))
    assert (found["score"].low, "there is no spread" in found["score"].note) == (None, True)
    for ours in (0.9, 0.8):
        found = Sample(80, SHARE).differences(Scored({"score": ours, "size": 1.0}), Scored({"score": 0.8}))
        assert found.keys() == {"score"}
        assert (found["score"].value, found["score"].low) == (pytest.approx(ours - 0.8), None)
        assert found["score"].note == "the objective returns no `scores_by_example` for score"


def test_only_the_leading_metric_has_the_reason_for_a_missing_interval():
    scores = {name: {"value": value, "note": "why"} for name, value in (("score", 0.5), ("parameters", 9.0))}
    scored = {"metrics": {"score": 0.5, "parameters": 9.0}, "estimates": scores}
    result = {**scored, "default": scored, "difference": scores, "size": 1, "trial": 0, "validation_score": 0.5}
    study = SimpleNamespace(metric="score", metrics=["score", "parameters"], best=None)
    text = str(Evaluation(study, result | {"evaluations_of_these_data": 1}, Path("report.html"), None))
    assert text.startswith("test split of 1 example, evaluated 1 time by studies of this data\n")
    assert all(each in text for each in ("score 0.5000 (no interval: why)\n", "parameters 9\n"))


def test_bounds_are_those_of_the_objective_and_of_shares():
    method = {"metrics": {"accuracy": "share", "loss": "nats"}, "bounds": {"loss": [0, None]}, "shares": ["accuracy"]}
    assert [bounds_of(method, name) for name in ("accuracy", "loss", "fid")] == [(0, 1), (0, None), (None, None)]
    assert [is_share(method, name) for name in ("accuracy", "loss", "fid")] == [True, False, False]
    assert (bounds_of({}, "accuracy"), is_share({}, "accuracy")) == ((None, None), False)


@pytest.mark.parametrize(("bad", "said"), [
    ({"bounds": {"score": [1, 0]}}, "bounds.score: "),
    ({"bounds": {"score": [0]}}, "bounds.score.1: is missing"),
    *(({"bounds": {"score": [0, bad]}}, "bounds.score.1: ") for bad in ("one", float("inf"))),
    ({"shares": "score"}, "shares: "),
    ({"counted_in": {"score": {"unit": "tokens", "depend_on": {}}}}, "counted_in.score.depend_on: "),
])  # fmt: skip
def test_bad_bounds_are_refused_in_one_line(monkeypatch, bad, said):
    monkeypatch.setattr("toy_data.describe_method", lambda _: bad, raising=False)
    says, config = f"objective: toy_data.describe_method: {said}", toy_config(objective="toy_data:score")
    refuses(DataError, says, prepare_study, config_from_dict(config))


def searched(returned, **optional_functions):
    def train(config, trial):
        if trial.checkpoint_dir:
            Path(trial.checkpoint_dir).mkdir(parents=True, exist_ok=True)
        return returned(config["lr"], trial.test or trial.validation)

    objective = hpo.objective(train, describe_data=lambda config: {"size": 60, "name": "numbers"}, **optional_functions)
    given = {"trials": 2, "direction": "maximize", "name": "s", "config": {"lr": 0.1}}
    settings = {"track": "none", "dispatch": "local", "split.folds": 1, "split.test_fraction": 0.5}
    return hpo.search(objective, {"lr": [0.1, 0.5]}, **given, settings=settings)


def by_example(rate, examples):
    scores = [(number % 5 + 1) * rate for number in examples]
    return {"score": statistics.fmean(scores), "size": 3, "scores_by_example": {"score": scores}}


@pytest.mark.parametrize("has_model", [True, False])
def test_scores_by_example_reach_the_test_result_and_are_not_stored(has_model, capsys):
    run_test = {"run_test": lambda config, trial: by_example(config["lr"], trial.test)} if has_model else {}
    study = searched(by_example, **run_test)
    with pytest.raises(hpo.HpoError, match="has no test scores yet"):
        _ = study.test_result
    out = prints(capsys, "test", "s")
    result = study.test_result
    found, default, difference = (each["score"] for each in (result.metrics, result.default, result.difference))
    assert found.low < found.value < found.high
    assert (found.n, default.n, found.value - default.value) == (30, 30, difference.value)
    gain = [difference.value, difference.low, difference.high]
    assert gain == pytest.approx([0.8 * found.value, 0.8 * found.low, 0.8 * found.high])
    assert result.metrics["size"] == type(found)(3.0)
    said = {"score =": found, "configuration: score =": default, "(winner - default): score": difference}
    for says, each in said.items():
        assert f"{says} {each.text('{:.4f}'.format)}" in out
    kept = json.loads(Path("runs/s/test.json").read_text())
    assert (kept["estimates"], kept["difference"].keys()) == ({"score": vars(found)}, {"score"})
    page = Path("runs/s/report.md").read_text()
    assert f"Test score: **{found.value:.4f}** (95 % {found.low:.4f} to {found.high:.4f}, n = 30) on 30" in page
    assert "scores_by_example" not in "".join(path.read_text() for path in Path("runs/s").glob("*.json"))
    assert b"scores_by_example" not in Path("runs/s/study.db").read_bytes()
