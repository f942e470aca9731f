"""`hpo compare STUDY STUDY`: a sentence per pair says which is better, in the metric's own direction and unit."""

import csv
import json
import shutil
from pathlib import Path

import pytest
import yaml

from tests.hpo.cli.commands import hpo, refused
from tests.hpo.commands.searched import found
from tests.hpo.report.recomputed import area
from tests.studies import REPOSITORY

KEPT = REPOSITORY / "tests" / "end_to_end" / "kept" / "0.1.0"
TWO = {"accuracy": "maximize", "size": "minimize"}


def put(name, *trials, winner=0, parts=None, **study):
    """Make a study with the kept one's data whose trials have these scores by fold, or these metrics.

    It has no record, as one that was published: its table is read.
    """
    folder = Path("runs", name)
    shutil.copytree(KEPT, folder)
    for path in folder.glob("study.db*"):
        path.unlink()
    config = yaml.safe_load((folder / "config.yaml").read_text())
    config["study"] |= {"name": name, **study}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    folds = [f"fold_{k}" for k in range(1 if "metrics" in study else len(trials[0]))]
    report = json.loads((folder / "report.json").read_text())
    report["winner"]["number"] = winner
    report["data"]["split"]["folds"] = len(folds)
    for part in report["data"]["split"]["parts"].values() if parts else ():
        part["fingerprint"] = parts
    (folder / "report.json").write_text(json.dumps(report))
    rows = [("number", "round", "state", "score", *(["size"] if "metrics" in study else []), *folds, "seconds")]
    for number, values in enumerate(trials):
        scores = (*values, values[0]) if "metrics" in study else (sum(values) / len(values), *values)
        rows.append((number, 0, "complete", *scores, 1.0))
    with (folder / "trials.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)


def result_of(*names):
    return json.loads(Path("runs", "compare-" + "-".join(names), "comparison.json").read_text())


def compared(capsys, *names):
    """Return the sentences, which the screen, the two pages and comparison.json have as the first they say."""
    code, out, err = hpo(capsys, "compare", *names)
    assert code == 0, out + err
    folder = Path("runs", "compare-" + "-".join(names))
    sentences = result_of(*names)["answers"]
    page, text = ((folder / f"comparison.{kind}").read_text() for kind in ("html", "md"))
    assert out.strip().splitlines()[1 : 1 + len(sentences)] == sentences
    assert [line.strip("*") for line in text.splitlines()[2 : 2 + 2 * len(sentences) : 2]] == sentences
    assert all(f"<p class='answer'>{sentence}</p>" in page.partition("class='lead'")[0] for sentence in sentences)
    return sentences


def test_three_studies_of_which_one_was_scored_on_other_data(capsys):
    put("a", (0.80, 0.70, 0.75))
    put("b", (0.85, 0.66, 0.884))
    put("c", (0.9, 0.9, 0.9), parts="other")
    # Student's t of the differences .05, -.04 and .134: .048 +- 4.303 * .0870 / sqrt(3).
    assert compared(capsys, "a", "b", "c") == [
        "b is 0.0480 better than a (95 % -0.1682 to 0.2642, 3 folds): may be chance",
        "c was scored on other data than a and b: not compared",
    ]
    result = result_of("a", "b", "c")
    assert [standing["label"] for standing in result["standings"]] == ["a", "b"]
    assert any("One search each does not compare strategies" in note for note in result["notes"])


def test_lower_is_better_where_the_metric_is_minimized(capsys):
    put("a", (2.0, 3.0, 4.0), direction="minimize")
    put("b", (2.5, 3.4, 4.6), direction="minimize")
    assert compared(capsys, "a", "b") == ["a is 0.5000 better than b (95 % 0.2516 to 0.7484, 3 folds)"]


def test_equal_scores_other_folds_and_no_score(capsys):
    put("a", (0.5, 0.6))
    put("b", (0.5, 0.6))
    put("c", (0.5, 0.6, 0.7))
    put("d", (0.5, 0.6))
    path = Path("runs/d/trials.csv")
    path.write_text(path.read_text().replace("complete,0.55,0.5,0.6", "failed,,,"))
    assert compared(capsys, "a", "b", "c", "d") == [
        "b is as good as a (95 % 0.0000 to 0.0000, 2 folds)",
        "d has no complete trial: not compared",
        "c was scored on other folds than a and b: not compared",
    ]


@pytest.mark.slow
def test_up_to_four_studies_are_compared_in_all_pairs_and_more_with_the_best(capsys):
    for place, name in enumerate("abcde"):
        put(name, (0.5 + 0.01 * place, 0.6 + 0.02 * place))
    four, five = compared(capsys, *"abcd"), compared(capsys, *"eabcd")
    assert (len(four), four[0].startswith("b is 0.0150 better than a (")) == (6, True)
    gains = {"a": "0.0600", "b": "0.0450", "c": "0.0300", "d": "0.0150"}.items()
    assert [sentence.split(" (")[0] for sentence in five] == [f"e is {gain} better than {name}" for name, gain in gains]


def test_the_record_of_a_study_is_compared_and_unequal_budgets_and_spaces_are_said_in_one_sentence(capsys):
    long, short = [0.1, 0.2, 0.9], [0.3, 0.4]
    found(lambda _, trial: long[trial.number], space={"a": (0.0, 1.0), "b": [1, 2]}, name="long", trials=3)
    found(lambda _, trial: short[trial.number], space={"a": (0.0, 2.0)}, name="short", trials=2)
    Path("runs/long/trials.csv").unlink()
    assert hpo(capsys, "compare", "long", "short")[0] == 0
    result = result_of("long", "short")
    (answer,) = result["answers"]
    assert answer == (
        "long is 0.5000 better than short by their winners, of 3 and 2 trials (one score each, no interval); after 2 "
        "trials each short is 0.2000 better"
    )
    assert "long and short have different budgets: 3 and 2 configurations." in result["notes"]
    assert "long and short search different spaces: a has other values; b only in long." in result["notes"]


def test_studies_are_compared_by_their_fronts_on_one_scale(capsys):
    fronts = {"a": [(0.9, 50.0), (0.5, 10.0)], "b": [(0.7, 20.0), (0.6, 30.0)]}
    put("a", *fronts["a"], metrics=TWO, winner=1)
    put("b", *fronts["b"], metrics=TWO)
    code, out, err = hpo(capsys, "compare", "a", "b")
    assert code == 0, out + err
    # Accuracies of 0.9 to 0.5 and sizes of 10 to 50, scaled to 0 to 1.
    scaled = {name: [((0.9 - a) / 0.4, (size - 10) / 40) for a, size in front] for name, front in fronts.items()}
    regrets = {name: 1 - area(front) / area([*scaled["a"], *scaled["b"]]) for name, front in scaled.items()}
    result = result_of("a", "b")
    assert {s["label"]: s["mean_score"] for s in result["standings"]} == pytest.approx(regrets)
    gain = regrets["a"] - regrets["b"]
    (answer,) = result["answers"]
    assert answer.startswith(f"b is {gain:.4f} better than a in hypervolume regret (after 2 trials")
    assert answer in out
    winners = [{"accuracy": 0.5, "size": 10.0}, {"accuracy": 0.7, "size": 20.0}]
    assert [winner["values"] for winner in result["winners"]] == winners
    # Limits may differ, and a study may have nothing within its own.
    put("c", *fronts["a"], metrics=TWO, limits={"size": 60})
    put("d", *fronts["a"], metrics=TWO, limits={"size": 5})
    assert hpo(capsys, "compare", "c", "d")[0] == 0
    result = result_of("c", "d")
    assert "d has no complete trial within the limits: not compared" in result["answers"]
    assert any("different limits" in note for note in result["notes"])


REFUSED = (
    ([], "studies: must be two or more, given none"),
    (["a", "study.trials=3"], "to compare strategies with the override 'study.trials=3', add --strategies"),
    (["a", "b", "--repeats", "3"], "--repeats: has no effect on existing studies"),
    (["a", "b", "--name", "a"], "is a study or another comparison"),
    (["a", "down"], "study.direction: must be the same"),
    (["a", "bleu"], "study.metric: must be the same"),
    (["two", "other"], "study.metrics: must be the same in all studies"),
)


def test_studies_that_do_not_compare_are_refused_in_one_line_and_nothing_is_written(capsys):
    for name in "ab":
        put(name, (0.5,))
    put("down", (0.5,), direction="minimize")
    put("bleu", (0.5,), metric="bleu")
    put("two", (0.5, 1.0), metrics=TWO)
    put("other", (0.5, 1.0), metrics=TWO | {"size": "maximize"})
    before = {path.name for path in Path("runs").iterdir()}
    for arguments, words in REFUSED:
        assert words in refused(capsys, "compare", *arguments)
    assert {path.name for path in Path("runs").iterdir()} == before
