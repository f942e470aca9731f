"""Studies over a table of measured configurations: what is read off it, and what an absent cell means."""

import itertools
import json
import math
import statistics

import pandas as pd
import pytest

from hpo.engine.loop import search
from hpo.errors import HpoError
from hpo.objectives.table import run_fold
from hpo.trials.record.record import memory_record
from hpo.workers.dispatch.simulated import SimulatedDispatcher
from tests.studies import STRATEGIES, prepared, refuses, toy_config


def write_table(folder):
    rows = [
        f"{number},{task},{layers},{width},{kind},7,{score + width / 100},{score + width / 50},{width},{9 * width},"
        for task in ("de", "fr")
        for number, (layers, width, kind) in enumerate(itertools.product((1, 2, 4), (32, 8, 16), ("relu", "gelu")))
        for score in [math.nan if (layers, width) == (4, 8) else layers]
    ]
    path = folder / "table.csv"
    path.write_text("\n".join(["id,task,layers,width,kind,constant,bleu_0,bleu_1,seconds,size,note", *rows]) + "\n")
    return path


def config(path, **changes):
    data = {"name": "table", "path": str(path), "metric": "bleu_0", "cost": "seconds", "where": {"task": "de"}}
    data |= {"columns": ["layers", "width", "kind"], "absent": "fail", "curves": None, "curve": None}
    strategy, space = changes.pop("strategy", STRATEGIES["random"]), changes.pop("space", {})
    return toy_config(strategy, None, 50, "hpo.objectives.table:run_fold", data=data | changes) | {"space": space}


def run(folder, tree, workers=1):
    study = prepared(folder, tree)
    record, dispatcher = memory_record(study.goal, study.layout), SimulatedDispatcher(workers)
    return study, search(study.rules(), record, dispatcher, tree["study"]["trials"]), dispatcher


def test_hyperparameters_are_the_columns_before_the_results_but_counters_and_constants(tmp_path):
    space = prepared(tmp_path, config(write_table(tmp_path), columns=None)).config.space
    kind = {"choices": ["relu", "gelu"]}
    assert space == {"layers": {"values": [1, 2, 4]}, "width": {"values": [8, 16, 32]}, "kind": kind}


def test_every_score_is_the_tables_and_absent_cells_fail(tmp_path):
    _, history, _ = run(tmp_path, config(write_table(tmp_path)))
    assert len(history) == 18
    for trial in history:
        layers, width = trial.point["layers"], trial.point["width"]
        if (layers, width) == (4, 8):
            assert (trial.state, "does not have" in trial.error) == ("failed", True)
        else:
            assert (trial.score, trial.seconds) == (pytest.approx(layers + width / 100), width)


def test_excluded_cells_are_never_proposed_whatever_the_strategy(tmp_path):
    for name in ("random", "grid", "shifting_window", "evolutionary"):
        study, history, _ = run(tmp_path, config(write_table(tmp_path), absent="exclude", strategy=STRATEGIES[name]))
        assert (study.space.size, {trial.state for trial in history}) == (16, {"complete"})
        assert len(history) == 16 or name == "shifting_window"


def test_nearest_takes_the_neighbours_score_and_says_how_far_it_is(tmp_path):
    _, history, _ = run(tmp_path, config(write_table(tmp_path), absent="nearest"))
    absent = [t for t in history if (t.point["layers"], t.point["width"]) == (4, 8)]
    assert [t.outcomes[0].metrics["distance"] for t in absent] == [pytest.approx(0.5 / 3)] * 2
    assert all(t.score in (pytest.approx(2.08), pytest.approx(4.16)) for t in absent)
    assert all(t.outcomes[0].metrics["distance"] == 0 for t in history if t not in absent)


def test_several_score_columns_are_folds(tmp_path):
    study, history, _ = run(tmp_path, config(write_table(tmp_path), metric=["bleu_0", "bleu_1"], absent="exclude"))
    assert study.layout.folds == 2
    first = history[0]
    assert first.score == pytest.approx(first.point["layers"] + first.point["width"] * 0.015)
    tree = config(write_table(tmp_path), metric=["bleu_0", "bleu_1"])
    with pytest.raises(HpoError, match=r"split\.race_after: must be less than the number of folds \(2\), given 2"):
        prepared(tmp_path, tree | {"split": tree["split"] | {"race_after": 2}})


def test_a_table_in_parquet_is_the_same_table(tmp_path):
    path = write_table(tmp_path)
    frame = pd.read_csv(path)
    # An index that is no count, as a frame of chosen rows has it.
    frame.set_index(frame.index.map("row {}".format)).to_parquet(tmp_path / "table.parquet")
    (one, scores, _), (other, others, _) = (run(tmp_path, config(p)) for p in (path, tmp_path / "table.parquet"))
    assert (one.config.space, [t.score for t in scores]) == (other.config.space, [t.score for t in others])


def with_curves(folder, **changes):
    curves, rows = folder / "curves.jsonl", [n for n in range(18) if n not in (12, 13)]
    lines = [json.dumps({"task": "de", "id": n, "bleu": [n, n + 2, n + 1, n + 3]}) + "\n" for n in rows]
    curves.write_text("".join(lines))
    return config(write_table(folder), absent="exclude", curves=str(curves), curve="bleu", cost=None, **changes)


def halved(folder, least, most):
    strategy = {"name": "successive_halving", "min_amount": least, "max_amount": most, "eta": 2, "points": None}
    tree = with_curves(folder, strategy=strategy | {"keep": None, "counts": "trials", "new_points": "random"})
    tree["study"]["trials"] = 7
    return tree


def test_learning_curves_give_the_best_so_far_and_charge_only_what_is_added(tmp_path):
    _, history, dispatcher = run(tmp_path, halved(tmp_path, 1, 4))
    assert [(t.amount, t.seconds) for t in history] == [(1, 1)] * 4 + [(2, 1)] * 2 + [(4, 2)]
    assert (dispatcher.now, history[-1].score) == (8, max(trial.score for trial in history if trial.amount == 1) + 3)


def test_the_finite_numbers_of_a_rows_only_curve_count_and_a_changed_file_is_read_again(tmp_path):
    where, path = {"task": "de", "layers": 1, "kind": "relu"}, tmp_path / "curves"
    tree = config(write_table(tmp_path), where=where, columns=["width"], absent="refuse", curves=str(path), curve="y")
    for last, found in (("[NaN, 3]", 3), ("[4]", 4), ("[]", "1 combination"), ('[]}\n{"id": 4, "y": [4]', "2 lines")):
        path.write_text(f'{{"id": 0, "y": [1]}}\n{{"id": 2, "y": [2]}}\n{{"id": 4, "y": {last}}}\n')
        if isinstance(found, str):
            refuses(HpoError, found, prepared, tmp_path, tree)
        else:
            assert run(tmp_path, tree)[1].best().score == found


def test_a_curve_that_ends_before_the_amount_says_how_far_it_went(tmp_path):
    study, history, _ = run(tmp_path, halved(tmp_path, 3, 12))
    assert [(trial.amount, trial.reached) for trial in history] == [(3, 3)] * 4 + [(6, 4)] * 2 + [(12, 4)]
    assert [trial.total_cost for trial in history] == [3] * 4 + [1] * 3
    texts = [study.amount_text(history[number]) for number in (0, -1)]
    assert texts == [", trained to 3 of 12", ", ended by itself at 4 of 12"]


@pytest.mark.parametrize(("task", "words"), [
    ({"amount": 2}, "no learning curve for this configuration; give data.curves and data.curve"),
    ({"metrics": ("bleu_0", "speed")}, "the table's row of this configuration has no number in column 'speed'"),
    ({"config": {"data": 3}}, "data: must be a mapping with path and metric, given 3; choose data=table"),
])  # fmt: skip
def test_what_a_table_does_not_have_is_the_error_of_the_trial(tmp_path, task, words):
    own = {"data": config(write_table(tmp_path))["data"], "layers": 1, "width": 8, "kind": "relu"}
    with pytest.raises((LookupError, ValueError), match=words):
        next(run_fold({"config": own, "metric": "bleu_0", "amount": None, "fold": 0} | task))


@pytest.mark.parametrize(("changes", "words"), [
    ({"cost": "second"}, "data.cost: the table has no column 'second'; did you mean 'seconds'"),
    ({"absent": "refuse"}, "2 combinations are missing"),
    ({"columns": ["layers", "width", "kind", "note"]}, "row 1 of .*table.csv must have a value in column 'note'"),
    ({"absent": "guess"}, "must be one of fail, nearest, exclude, refuse"),
    ({"curves": "c.jsonl", "curve": "x"}, "data.curves: there is no file c.jsonl"),
])  # fmt: skip
def test_a_table_that_cannot_be_searched_is_refused_in_one_line(tmp_path, changes, words):
    refuses(HpoError, words, prepared, tmp_path, config(**{"path": write_table(tmp_path), **changes}))


def test_points_that_the_table_lacks_are_not_tried_first_and_a_space_without_rows_is_refused(tmp_path):
    path, first = write_table(tmp_path), {"first": [{"layers": 4, "width": 8, "kind": "relu"}]}
    refuses(HpoError, r"space\.first\[0\]", prepared, tmp_path, config(path, absent="exclude", space=first))
    tree = config(path, absent="exclude", space={"layers": [4], "width": [8]})
    refuses(HpoError, "found no point", prepared, tmp_path, tree)


def test_the_median_rule_stops_on_learning_curves_and_charges_what_was_trained(tmp_path):
    tree = with_curves(tmp_path)
    tree["study"] |= {"stop_rule": "median", "lanes": 1}
    _, history, dispatcher = run(tmp_path, tree)
    _, whole, _ = run(tmp_path, with_curves(tmp_path))
    stopped = [trial for trial in history if trial.state == "stopped"]
    # A curve starts at its row's number, and all rise alike: a trial is behind when its row is.
    for trial in stopped:
        earlier = [whole[n].score for n in range(trial.number) if history[n].state == "complete"]
        assert (whole[trial.number].score < statistics.median(earlier), trial.seconds) == (True, 1)
    assert dispatcher.now == sum(trial.seconds for trial in history) == 4 * len(whole) - 3 * len(stopped)
    assert (0 < len(stopped) < len(history), history.best().key) == (True, whole.best().key)
