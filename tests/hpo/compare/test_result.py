"""Curves, standings, pairs and verdicts of searches that are made up."""

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hpo
from hpo.compare.comparison import prepare_comparison
from hpo.compare.curves import FinishedSearch, mean_curve
from hpo.compare.result import NOT_DISTINGUISHABLE, Budget, Measure, compare_pairs, compare_strategies
from hpo.compare.studies import read_studies
from hpo.config.study_config import config_from_dict
from hpo.errors import StudyError
from hpo.report.figures.mean_curves import draw_mean_curves
from hpo.report.pages.comparison import answers, render_comparison_page
from hpo.study.upgrade import FORMAT
from tests.hpo.commands.searched import found
from tests.studies import STRATEGIES, toy_config

FULL = Budget(20, "trials")
PLAIN = Measure("m", "minimize")


def made_up(label, repeats, shift=0.0, trials=20, seconds=1.5):
    drawn = [np.random.default_rng(repeat).uniform(1, 2, trials) - shift for repeat in range(repeats)]
    return [FinishedSearch(label, k, k, tuple(losses.tolist()), (seconds,) * trials) for k, losses in enumerate(drawn)]


def test_a_curve_is_the_mean_of_best_so_far_within_its_band_as_far_as_every_repeat_has_a_result():
    searches = made_up("a", 5)
    curve = mean_curve(searches, "trials", 1.0, 0)
    expected = np.mean([list(itertools.accumulate(search.losses, min)) for search in searches], axis=0)
    assert (curve["trials"], curve["mean"]) == (list(range(1, 21)), pytest.approx(expected))
    assert all(low <= mean <= high for low, mean, high in zip(curve["low"], curve["mean"], curve["high"], strict=True))
    # It begins where every repeat has a result and ends with the first that ends.
    late = FinishedSearch("a", 0, 0, (math.inf, math.inf, 1.0, 0.5), (1.0,) * 4)
    short = FinishedSearch("a", 1, 1, (2.0, 1.0, 1.0), (0.5, 0.5, 2.5))
    never = FinishedSearch("a", 2, 2, (math.inf,), (1.0,))
    cost = mean_curve([late, short], "seconds", 1.0, 0)["seconds"]
    assert (mean_curve([late, short], "trials", 1.0, 0)["trials"], cost[0], cost[-1]) == ([3, 4], 3.0, 3.5)
    assert [mean_curve([late, never], unit, 1.0, 0)[unit] for unit in ("trials", "seconds")] == [[], []]


def test_equal_strategies_are_not_distinguishable_however_often_repeated():
    (pair,) = compare_pairs({"a": made_up("a", 40), "b": made_up("b", 40)}, FULL)
    assert (pair["mean_difference"], pair["interval"], pair["a_beats_b"], pair["p"]) == (0, (0, 0), 0.5, 1)
    assert (pair["better"], pair["verdict"]) == (None, NOT_DISTINGUISHABLE)


@pytest.mark.parametrize(("repeats", "better"), [(5, None), (6, "b")])
def test_six_pairs_are_the_fewest_for_a_verdict(repeats, better):
    searches = {"a": made_up("a", repeats), "b": made_up("b", repeats, shift=0.3)}
    (pair,) = compare_pairs(searches, FULL)
    assert (pair["better"], pair["p_holm"]) == (better, 2 / 2**repeats)
    assert any("at least 6 repeats" in note for note in result_of(searches)["notes"]) == (better is None)


def test_more_pairs_ask_for_more():
    searches = {label: made_up(label, 7, shift) for label, shift in (("a", 0), ("b", 0.3), ("c", 0), ("d", 0))}
    alone = compare_pairs({label: searches[label] for label in "ab"}, FULL)[0]
    among = compare_pairs(searches, FULL)[0]
    assert alone["p"] == among["p"] < among["p_holm"]
    assert (alone["better"], among["better"]) == ("b", None)
    assert (alone["level"], among["level"], among["interval"]) == (0.05, 0.05 / 6, None)


@given(st.lists(st.tuples(*[st.integers(0, 3)] * 3), min_size=8, max_size=18))
def test_an_interval_is_without_0_exactly_where_one_is_better(losses):
    searches = {
        label: [FinishedSearch(label, k, k, (float(loss),), (1.0,)) for k, loss in enumerate(those)]
        for label, those in zip("abc", zip(*losses, strict=True), strict=True)
    }
    for pair in compare_pairs(searches, FULL):
        low, high = pair["interval"]
        assert low <= pair["mean_difference"] <= high
        assert {pair["a"]: high < 0, pair["b"]: low > 0, None: low <= 0 <= high}[pair["better"]]


def result_of(searches, measure=PLAIN):
    return compare_strategies("c", searches, measure, [FULL], {label: {} for label in searches})


def test_a_search_without_a_complete_trial_is_named_not_averaged():
    failed = FinishedSearch("a", 0, 0, (math.inf,) * 20, (1.0,) * 20)
    result = result_of({"a": [failed, *made_up("a", 8)[1:]], "b": made_up("b", 8)})
    (pair,) = result["pairs"]
    assert (pair["mean_difference"], pair["p"], pair["better"]) == (None, None, None)
    assert "no complete trial" in pair["verdict"]
    assert pair["a_beats_b"] == 3.5 / 8
    assert any("20 of 320 trials did not complete" in note for note in result["notes"])
    json.dumps(result, allow_nan=False)
    assert "not comparable" in render_comparison_page(result)


@pytest.mark.parametrize(("direction", "sign"), [("minimize", 1), ("maximize", -1)])
def test_regret_is_the_distance_to_the_optimum_in_either_direction(direction, sign):
    searches = {"a": made_up("a", 6), "b": made_up("b", 6, shift=0.2)}
    standing = result_of(searches, Measure("m", direction, sign * 0.5))["standings"][0]
    best = np.mean([min(search.losses) for search in searches["a"]])
    assert (standing["mean_regret"], standing["mean_score"]) == pytest.approx((best - 0.5, sign * best))
    assert standing["regret_interval"][0] <= standing["mean_regret"] <= standing["regret_interval"][1]
    assert standing["interval"][0] <= standing["mean_score"] <= standing["interval"][1]
    assert standing["mean_seconds"] == 30


@pytest.mark.parametrize(("optimum", "has_zero"), [(0.5, False), (1.0, True)])
def test_regret_is_drawn_on_a_log_axis_at_whose_end_are_0_and_rounding(optimum, has_zero):
    losses = {"a": (2.0, 1.0) * 10, "b": (2.0, 1.0 + 1e-15) * 10}
    searches = {name: [FinishedSearch(name, k, k, losses[name], (1.0,) * 20) for k in range(6)] for name in losses}
    figure = draw_mean_curves(result_of(searches, Measure("m", "maximize", -optimum)), "trials")
    axis = figure.layout.yaxis
    assert (axis.type, "0" in axis.ticktext) == ("log", has_zero)
    assert min(y for trace in figure.data for y in trace.y) == pytest.approx(0.5)


def test_trials_of_different_amounts_are_pointed_out():
    partial = [FinishedSearch("h", s.repeat, s.seed, s.losses, s.seconds, is_partial=True) for s in made_up("h", 6)]
    notes = result_of({"h": partial, "b": made_up("b", 6)})["notes"]
    assert any(note.startswith("h: trials are trained by different amounts") for note in notes)


def test_the_page_needs_nothing_beside_itself_and_holds_the_library_once():
    hostile = "<script>x</script>"
    searches = {hostile: made_up(hostile, 6), "b": made_up("b", 6, shift=0.3)}
    settings = {hostile: {"k": hostile}, "b": {}}
    page = render_comparison_page(compare_strategies("<b>", searches, Measure("m", "minimize", 0.1), [FULL], settings))
    assert hostile not in page
    assert not [tag for tag in ('src="http', "src='http", "<link", "@import") if tag in page]
    assert page.count("plotly.js (cartesian - minified) v") == 1
    assert page.count("class='figure'") == page.count("type='application/json'") == 2
    assert "b is better" in page


@pytest.mark.parametrize(("shifts", "words"), [
    ((0.0, 1.0, 2.0), "a is better than all others."),
    ((0.0, 1.0), "a is better than b."),
    ((0.0, 0.0), "neither of the two is significantly better."),
    ((0.0, 0.0, 0.0), "none of the 3 is significantly better."),
    ((0.0, 0.0, 2.0), "a is better than c; b is better than c; no other difference is significant."),
])  # fmt: skip
def test_one_sentence_says_which_is_better(shifts, words):
    searches = {name: made_up(name, 12, shift=-shift) for name, shift in zip("abc", shifts, strict=False)}
    assert [answer.partition(" trials ")[2] for answer in answers(result_of(searches))] == [words]


@pytest.mark.parametrize(("name", "text", "says"), [
    ("config.yaml", "", "name: runs/taken is a study; choose another name for the comparison"),
    ("comparison.yaml", f"format: {FORMAT}\nrepeats: all\n", "comparison.yaml: the file is not the plan of a comp"),
    ("searches.csv", "", "comparison.yaml: the file is missing, but searches.csv exists; choose another name"),
])  # fmt: skip
def test_a_folder_of_something_else_is_left_as_it_is(name, text, says):
    file = Path("runs/taken", name)
    file.parent.mkdir(parents=True)
    file.write_text(text)
    strategies = {label: STRATEGIES[label] for label in ("random", "grid")}
    with pytest.raises(StudyError, match=says):
        prepare_comparison(config_from_dict(toy_config()), strategies, 1, "taken").open()
    assert [*file.parent.iterdir()] == [file]


def test_a_study_whose_unit_differs_between_its_trials_is_not_compared():
    units = {"loss": {"unit": "tokens", "depends_on": {"count": 1}}}
    method = {"metrics": {"loss": "", "bits": ""}, "counted_in": units}
    train = hpo.objective(describe_method=lambda _: method)(lambda config: config["lr"])
    for name in "ab":
        study = found(train, name=name, config={"count": 1}, trials=1, metric="loss", direction="minimize")
    config = study.folder / "config.yaml"
    config.write_text(config.read_text().replace("space:\n", "space:\n  count: [1, 2]\n"))
    says = r"loss in b .* b searches count, on which the unit of loss \(tokens\) depends; scores of bits can be comp"
    with pytest.raises(StudyError, match=says):
        read_studies(["a", "b"])
