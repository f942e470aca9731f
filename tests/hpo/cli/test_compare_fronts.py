"""`hpo compare` of strategies and of studies by several metrics, and with limits."""

import csv
import itertools
import json
import math
import shutil
from pathlib import Path

import pytest
import yaml

from tests.hpo.cli.commands import hpo, refused
from tests.studies import run_toy, toy_config

TWO = "study.metrics={accuracy: maximize, size: minimize}"
COMPARE = (
    *("compare", "--strategies", "random,evolutionary", "--repeats", "2", "--name", "c", "data=table"),
    *("data.path=table.csv", "data.metric=accuracy", "dispatch=local", "study.trials=8"),
)
FOLDER = Path("runs/c")


@pytest.fixture
def measured():
    """The losses of a table's rows within the limit of a memory of 12."""
    rows = []
    for x, y in itertools.product(range(6), range(5)):
        rows.append((x, y, math.sin(3 * x + y), x + y * y / 3, (x * 7 + y * 5) % 17))
    with Path("table.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("x", "y", "accuracy", "size", "memory"), *rows])
    return [(-accuracy, size) for _, _, accuracy, size, memory in rows if memory <= 12]


def area(losses, low, high):
    """Return the hypervolume of pairs of losses in this scale, as a sum of rectangles."""
    units = sorted(tuple((v - a) / (b - a) for v, a, b in zip(pair, low, high, strict=True)) for pair in losses)
    total, top = 0.0, 1.1
    for first, second in units:
        total += (1.1 - first) * max(0.0, top - second)
        top = min(top, second)
    return total


@pytest.mark.slow
def test_a_comparison_by_two_metrics_within_a_limit_is_that_of_the_whole_table_and_goes_on(capsys, measured):
    arguments = (*COMPARE, TWO, "study.limits={memory: 12}")
    code, out, err = hpo(capsys, *arguments)
    assert (code, err) == (0, "")
    result = json.loads((FOLDER / "comparison.json").read_text())
    low, high = ([pick(column) for column in zip(*measured, strict=True)] for pick in (min, max))
    assert result["fronts"]["scale"] == {"accuracy": [-low[0], -high[0]], "size": [low[1], high[1]]}
    with (FOLDER / "searches.csv").open(newline="") as file:
        searches = list(csv.DictReader(file))
    for label in ("random", "evolutionary"):
        regrets, over = [], []
        for search in (search for search in searches if search["strategy"] == label):
            sizes, excess = json.loads(search["other_scores"])["size"], json.loads(search["excess"])
            trials = zip(json.loads(search["scores"]), sizes, excess, strict=True)
            kept = [(-accuracy, size) for accuracy, size, beyond in trials if beyond == 0]
            regrets.append(1 - area(kept, low, high) / area(measured, low, high))
            over.append(1 - len(kept) / len(sizes))
        (standing,) = (standing for standing in result["standings"] if standing["label"] == label)
        assert standing["mean_score"] == pytest.approx(sum(regrets) / 2)
        assert standing["share_over_limits"] == pytest.approx(sum(over) / 2)
    assert "hypervolume regret, 0 to 1, of accuracy (maximize) and size (minimize) within memory <= 12" in out
    # What a killed driver left half-written is run again, to the same files.
    whole = {path.name: path.read_bytes() for path in FOLDER.iterdir() if path.name != "driver.lock"}
    written = whole["searches.csv"]
    (FOLDER / "searches.csv").write_bytes(written[: len(written) * 2 // 3])
    assert hpo(capsys, *arguments)[0] == 0
    again = {path.name: path.read_bytes() for path in FOLDER.iterdir() if path.name != "driver.lock"}
    # Without a column of costs each training takes a second of the table's.
    assert again == whole


@pytest.mark.slow
def test_what_does_not_fit_several_metrics_is_refused_in_a_line(capsys, measured):
    assert "optimum: has no effect" in refused(capsys, *COMPARE, TWO, "--optimum", "1", is_silent=True)
    assert [path.name for path in Path().iterdir()] == ["table.csv"]


@pytest.mark.slow
def test_the_report_of_a_study_has_the_comparison_of_its_strategy_by_the_same_metrics(capsys, measured):
    options = [option for option in COMPARE if option not in ("--name", "c")]
    assert hpo(capsys, *options, TWO, "study.name=s", "--repeats", "1")[0] == 0
    search = ("search", *options[5:], TWO, "study.name=s", "strategy=evolutionary", "track=none")
    assert hpo(capsys, *search)[0] == 0
    report = json.loads(Path("runs/s/report.json").read_text())
    result = json.loads(Path("runs/compare-s/comparison.json").read_text())
    assert report["comparison"]["pairs"] == result["pairs"]
    (random,) = (standing for standing in result["standings"] if standing["label"] == "random")
    assert report["baselines"]["random"]["mean_hypervolume_regret"] == random["mean_score"]
    limited = (*search, "study.limits={memory: 12}", "study.name=other")
    shutil.copytree("runs/compare-s", "runs/compare-other")
    assert hpo(capsys, *limited)[0] == 0
    assert "missing" in json.loads(Path("runs/other/report.json").read_text())["comparison"]
    Path("runs/compare-s/comparison.json").write_text(json.dumps(result | {"format": 2}))
    assert hpo(capsys, "report", "s")[0] == 0
    reason = json.loads(Path("runs/s/report.json").read_text())["comparison"]["missing"]
    assert "runs/compare-s/comparison.json: its format is 2, not 1" in reason


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Make a study once; return its folder."""
    folder = tmp_path_factory.mktemp("made") / "made"
    run_toy(folder, toy_config(trials=2))
    return folder


def put(made, name, trials, metrics="default", limits=None, winner=0):
    """Make a study whose trials have these accuracies and sizes, and chose this one."""
    folder = Path("runs", name)
    shutil.copytree(made, folder)
    for path in folder.glob("study.db*"):
        path.unlink()
    config = yaml.safe_load((folder / "config.yaml").read_text())
    metrics = {"accuracy": "maximize", "size": "minimize"} if metrics == "default" else metrics
    first = next(iter(metrics))
    config["study"] |= {"name": name, "metrics": metrics, "metric": first, "direction": metrics[first]}
    config["study"] |= {"limits": limits} if limits else {}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    # As one that was published: its table is read.
    (folder / "study.db").unlink(missing_ok=True)
    report = json.loads((folder / "report.json").read_text())
    report["winner"]["number"] = winner
    (folder / "report.json").write_text(json.dumps(report))
    rows = [(place, 0, "complete", score, size, score, 1.0) for place, (score, size) in enumerate(trials)]
    with (folder / "trials.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("number", "round", "state", "score", "size", "fold_0", "seconds"), *rows])


def test_studies_are_compared_by_their_fronts_on_one_scale(capsys, made):
    fronts = {"a": [(0.9, 50.0), (0.5, 10.0)], "b": [(0.7, 20.0), (0.6, 30.0)]}
    put(made, "a", fronts["a"], winner=1)
    put(made, "b", fronts["b"])
    code, out, err = hpo(capsys, "compare", "a", "b")
    assert code == 0, out + err
    losses = {label: [(-score, size) for score, size in front] for label, front in fronts.items()}
    whole = area([*losses["a"], *losses["b"]], (-0.9, 10), (-0.5, 50))
    regrets = {label: 1 - area(front, (-0.9, 10), (-0.5, 50)) / whole for label, front in losses.items()}
    result = json.loads(Path("runs/compare-a-b/comparison.json").read_text())
    assert {s["label"]: s["mean_score"] for s in result["standings"]} == pytest.approx(regrets)
    gain = regrets["a"] - regrets["b"]
    (answer,) = result["answers"]
    assert answer.startswith(f"b is {gain:.4f} better than a in hypervolume regret (after 2 trials")
    assert result["folds"][0]["mean_difference"] == pytest.approx(gain)
    assert [winner["values"] for winner in result["winners"]] == [
        {"accuracy": 0.5, "size": 10.0},
        {"accuracy": 0.7, "size": 20.0},
    ]
    assert result["fronts"]["attainment"]["a"] == {"50": [[0.9, 50.0], [0.5, 10.0]]}
    text = Path("runs/compare-a-b/comparison.md").read_text()
    assert "| a | 1 | 0.5 | 10 |" in text
    assert answer in out


@pytest.mark.slow
def test_studies_of_other_metrics_are_refused_and_one_without_a_trial_within_the_limits_is_named(capsys, made):
    trials = [(0.9, 50.0), (0.5, 10.0)]
    put(made, "a", trials, limits={"size": 60})
    put(made, "b", trials, {"accuracy": "maximize", "size": "maximize"})
    put(made, "c", trials, {"accuracy": "maximize"})
    put(made, "d", trials, limits={"size": 5})
    for other in "bc":
        assert "study.metrics: must be the same in all studies" in refused(capsys, "compare", "a", other)
    code, out, err = hpo(capsys, "compare", "a", "d")
    assert code == 0, out + err
    result = json.loads(Path("runs/compare-a-d/comparison.json").read_text())
    assert "d has no complete trial within the limits: not compared" in result["answers"]
    assert any("different limits" in note for note in result["notes"])
    # The limits of neither are said of both.
    assert "limits" not in result
    assert not any("share_over_limits" in standing for standing in result["standings"])
    assert result["winners"][1]["trial"] is None
