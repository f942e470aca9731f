"""`hpo compare`: searches by strategies with paired seeds, and studies: a sentence per pair says which is better."""

import contextlib
import csv
import itertools
import json
import math
import shutil
import stat
from pathlib import Path

import pytest
import yaml

import hpo as toolkit
from tests.hpo.cli.commands import TABLE, TABLE_DATA, hpo, main, prints, refused
from tests.hpo.commands.searched import found
from tests.hpo.report.recomputed import area
from tests.studies import REPOSITORY, rows

LABELS = ("uniform_random", "small_evolutionary")
SMALL = "small_evolutionary.population"
COMPARE = (
    *("compare", "--strategies", "uniform_random=random,small_evolutionary=evolutionary", "--set", f"{SMALL}=4"),
    *("--repeats", "3", *TABLE_DATA, "study.trials=12", "study.seed=5"),
)
FOLDER = Path("runs/compare-table")


@pytest.fixture(autouse=True)
def table():
    shutil.copy(TABLE, "table.csv")


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compared")
    with contextlib.chdir(folder):
        shutil.copy(TABLE, "table.csv")
        assert main(list(COMPARE)) == 0
    return folder


@pytest.fixture
def made(compared):
    shutil.copytree(compared / "runs", "runs")


def files():
    return {path.name: path.read_bytes() for path in FOLDER.iterdir() if path.name != "driver.lock"}


def result():
    return json.loads((FOLDER / "comparison.json").read_text())


def table_of(name, folder=FOLDER):
    with (folder / name).open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_the_files_of_a_comparison_after_some_trials_and_at_equal_cost(capsys, made):
    code, out, err = hpo(capsys, *COMPARE, "--at", "5", "--at-seconds", "0.5,shortest")
    assert (code, err) == (0, "")
    found, shortest = result(), min(sum(json.loads(row["seconds"])) for row in table_of("searches.csv"))
    accuracies = [[float(row[f"accuracy_{fold}"]) for fold in range(3)] for row in table_of(TABLE, Path())]
    assert found["optimum"] == pytest.approx(max(sum(folds) / 3 for folds in accuracies))
    assert found["strategies"]["small_evolutionary"]["population"] == 4
    budgets = [(12, "trials"), (5, "trials"), (pytest.approx(shortest), "seconds"), (0.5, "seconds")]
    assert [(pair["budget"], pair["unit"]) for pair in found["pairs"]] == budgets
    assert {(pair["a"], pair["b"]) for pair in found["pairs"]} == {LABELS}
    assert "not distinguishable at this budget" in out
    written = [float(row["p_holm"] or 9) for row in table_of("comparison.csv")]
    assert written == [pair["p_holm"] or 9 for pair in found["pairs"]]
    assert {"comparison.html", "comparison.md", "comparison.yaml", "environment.json"} < set(files())
    assert "length of the shortest search" in refused(capsys, *COMPARE, "--at-seconds", "1e9")
    assert (hpo(capsys, *COMPARE, "--optimum", "1")[0], result()["optimum"]) == (0, 1)


@pytest.mark.slow
def test_what_is_published_of_a_comparison_is_for_everybody_and_no_link_is_followed(capsys, made):
    published, precious = Path("studies", FOLDER.name), Path("precious").absolute()
    published.mkdir(parents=True)
    precious.write_text("precious")
    (published / "comparison.md").symlink_to(precious)
    code, out, _ = hpo(capsys, *COMPARE, "--publish")
    names = {path.name for path in published.iterdir()}
    assert (code, names) == (0, set(files()) - {"comparison.html"})
    assert all(str(published / name) in out for name in names)
    assert {stat.S_IMODE(path.lstat().st_mode) for path in published.iterdir()} == {0o644}
    (FOLDER / "environment.json").unlink()
    (FOLDER / "environment.json").symlink_to(precious)
    assert "is a link that leads out" in refused(capsys, *COMPARE, "--publish")
    assert precious.read_text() == "precious"


@pytest.mark.slow
def test_the_folder_of_a_comparison_in_another_format_is_refused(capsys):
    FOLDER.mkdir(parents=True)
    for number, words in ((2, "must be 1, given 2"), ("'1'", "must be 1, given '1'"), (1, "is not the plan of a")):
        (FOLDER / "comparison.yaml").write_text(f"format: {number}")
        assert words in refused(capsys, *COMPARE)


@pytest.mark.slow
def test_a_repeat_is_the_same_search_as_hpo_search_with_that_seed(capsys, made):
    found = table_of("searches.csv")
    wanted = [(label, repeat, 5 + repeat) for repeat in range(3) for label in LABELS]
    assert [(row["strategy"], int(row["repeat"]), int(row["seed"])) for row in found] == wanted
    alone = ("study.seed=6", "study.trials=12", "strategy=evolutionary", "strategy.population=4", "track=none")
    assert hpo(capsys, "search", *TABLE_DATA, *alone, "study.name=alone")[0] == 0
    assert json.loads(found[3]["scores"]) == [float(trial["score"]) for trial in rows(Path("runs/alone/trials.csv"))]


@pytest.mark.slow
def test_only_what_is_not_there_is_run_again_of_the_same_configuration_data_and_code(capsys, made, monkeypatch):
    whole = files()
    code, out, _ = hpo(capsys, *COMPARE)
    assert (code, "repeat 0" in out, files()) == (0, False, whole)
    (FOLDER / "searches.csv").write_bytes(whole["searches.csv"][: len(whole["searches.csv"]) * 2 // 3])
    code, out, _ = hpo(capsys, *COMPARE)
    assert (code, " repeat " in out, "1/6" in out, files()) == (0, True, False, whole)
    assert hpo(capsys, *COMPARE, "--repeats", "4")[0] == 0
    assert files()["searches.csv"].startswith(whole["searches.csv"])
    assert "at least 4, as in runs/compare-table, given 3" in refused(capsys, *COMPARE)
    before = files()
    assert "config.study.seed was 5 and is now 6" in refused(capsys, *COMPARE, "study.seed=6")
    assert f"strategies.{SMALL}" in refused(capsys, *COMPARE, "--set", f"{SMALL}=7")
    with Path("table.csv").open("a") as file:
        file.write("linear,1,0.1,0.9,0.9,0.9,0.1\n")
    assert "exists with another configuration" in refused(capsys, *COMPARE)
    monkeypatch.setattr("hpo.engine.strategies.random.RandomSearch.REVISION", 99)
    assert "code: revision of strategy random was" in refused(capsys, *COMPARE)
    assert files() == before


@pytest.mark.slow
def test_the_exit_code_is_1_when_every_trial_fails_and_2_when_a_key_of_the_file_does_not_fit_a_strategy(capsys):
    assert "not comparable" in prints(capsys, *COMPARE, "--repeats", "1", "space.C=[5,7]", "study.trials=2", code=1)
    Path("whole.yaml").write_text(prints(capsys, "search", *TABLE_DATA, "+training.epochs=9", "--cfg", "job"))
    given = ("--strategies", "asha,random", "--config", "whole.yaml", "training.epochs=1")
    assert "strategy.max_amount: must be in ascending order, given 1 and 1" in refused(capsys, "compare", *given)


REFUSED = {
    "one strategy": (["--strategies", "random"], "strategies: must be two or more, given random"),
    "a strategy twice": (["--strategies", "random,random"], "is listed twice", "LABEL=NAME"),
    "no repeats": (["--repeats", "0"], "repeats: must be 1 or more, given 0"),
    "scales": (["study.scales=[{C:1},{C:2}]"], "study.scales: must be null in a comparison"),
    "a setting out of bounds": (["--set", f"{SMALL}=1"], f"strategies.{SMALL}", "given 1"),
    "a budget beyond the trials": (["--at", "5,13"], "at: must be 1 to 12", "given 13"),
    "no seconds": (["--at-seconds", "0"], "at_seconds: must be above 0, given 0"),
    "an optimum that is no number": (["--optimum", "nan"], "--optimum: must be a finite number"),
    "an optimum of two": (["--optimum", "1", "study.metrics={accuracy:maximize,seconds:minimize}"], "must be left out"),
    "a setting of nobody": (["--set", "small_evolution.population=9"], "--set", f"did you mean '{LABELS[1]}'?"),
    "a strategy by override": (["strategy=grid"], "strategy: ", "'strategy=grid'", "--strategies"),
    "a tracker": (["track=mlflow"], "track.name: must be none, given 'mlflow'; a comparison"),
    "a study beside strategies": (["digits"], "'digits'", "with --strategies"),
}


@pytest.mark.quick("a tracker", "one strategy", "scales", "a setting out of bounds")
@pytest.mark.slow
@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_one_line_and_leaves_nothing(capsys, case):
    arguments, *words = REFUSED[case]
    command = [each for each in COMPARE if each not in ("--set", f"{SMALL}=4")]
    err = refused(capsys, *command, *arguments, is_silent=True)
    assert all(word in err for word in words), err
    assert [path.name for path in Path().iterdir()] == ["table.csv"]


@pytest.mark.nightly
def test_real_trainings_on_workers_that_all_searches_share(capsys):
    quick = ("training.epochs=1", "training.warmup_fraction=0", "model.num_layers=1", "model.d_model=16")
    space = ("space.training.lr=[0.001,0.003,0.01]", "~space.training.batch_size", "~space.model", "study.trials=2")
    arguments = ("compare", "--strategies", "random,grid", "--repeats", "1", *quick, *space)
    assert hpo(capsys, *arguments, "dispatch=local", "--name", "here")[0] == 0
    assert hpo(capsys, *arguments, "dispatch=ray", "dispatch.workers=2", "--name", "there")[0] == 0
    here, there = ([row["scores"] for row in table_of("searches.csv", Path("runs", k))] for k in ("here", "there"))
    assert here == there
    assert not list(Path("runs").glob("*/checkpoints"))


def test_a_comparison_has_its_sentence_and_tables_for_a_paper():
    compared = toolkit.compare_strategies(
        lambda config: config["x"], {"x": (0.0, 1.0)}, strategies=["random", "qmc"], trials=2, repeats=6,
        direction="minimize", settings={"dispatch": "local"}, name="both", progress=False,
    )  # fmt: skip
    assert compared.sentence.startswith("After 2 trials ")
    standings, (pair,) = compared.standings, compared.intervals.to_dict("records")
    assert standings.label.tolist() == [pair["a"], pair["b"]] == ["random", "qmc"]
    assert standings.mean_regret.isna().all()
    assert pair["mean_difference"] == pytest.approx(standings.mean_score[0] - standings.mean_score[1])


TWO = (
    *("data=table", "data.path=measured.csv", "data.metric=accuracy", "dispatch=local", "study.trials=8"),
    *("study.name=s", "study.metrics={accuracy: maximize, size: minimize}"),
)


@pytest.mark.slow
def test_a_comparison_by_two_metrics_within_a_limit_is_on_the_scale_of_the_table_and_in_the_report(capsys):
    places = itertools.product(range(6), range(5))
    measured = [(x, y, math.sin(3 * x + y), x + y * y / 3, (x * 7 + y * 5) % 17) for x, y in places]
    with Path("measured.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("x", "y", "accuracy", "size", "memory"), *measured])
    limited = (*TWO, "study.limits={memory: 12}")
    code, out, err = hpo(capsys, "compare", "--strategies", "random,evolutionary", "--repeats", "1", *limited)
    assert (code, err) == (0, "")
    found = json.loads(Path("runs/compare-s/comparison.json").read_text())
    *_, accuracies, sizes = zip(*(row[:4] for row in measured if row[4] <= 12), strict=True)
    scale = {"accuracy": [max(accuracies), min(accuracies)], "size": [min(sizes), max(sizes)]}
    assert found["fronts"]["scale"] == scale
    assert "hypervolume regret, 0 to 1, of accuracy (maximize) and size (minimize) within memory <= 12" in out
    assert hpo(capsys, "search", *limited, "strategy=evolutionary", "track=none")[0] == 0
    assert json.loads(Path("runs/s/report.json").read_text())["comparison"]["pairs"] == found["pairs"]
    shutil.copytree("runs/compare-s", "runs/compare-other")
    other = ("search", *limited, "strategy=evolutionary", "track=none", "study.limits={memory: 11}", "study.name=other")
    assert hpo(capsys, *other)[0] == 0
    assert "missing" in json.loads(Path("runs/other/report.json").read_text())["comparison"]


KEPT = REPOSITORY / "tests" / "end_to_end" / "kept" / "0.1.0"
BOTH = {"accuracy": "maximize", "size": "minimize"}


def put(name, *trials, winner=0, parts=None, **study):
    """Make a study without a record, as one that was published, whose trials have these scores by fold or metrics."""
    folder = Path("runs", name)
    shutil.copytree(KEPT, folder)
    for path in (*folder.glob("study.db*"), folder / "described.json"):
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


def sentences_of(capsys, *names):
    """Return the sentences, which the screen, the two pages and comparison.json have as the first they say."""
    out = prints(capsys, "compare", *names)
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
    put("d", (0.9, 0.9, 0.9), parts="other")
    # Student's t of the differences .05, -.04 and .134: .048 +- 4.303 * .0870 / sqrt(3).
    assert sentences_of(capsys, "a", "b", "c", "d") == [
        "b is 0.0480 better than a (95 % -0.1682 to 0.2642, 3 folds): may be chance",
        "d is as good as c (95 % 0.0000 to 0.0000, 3 folds)",
        "c and d were scored on other data than a and b: not compared",
    ]
    result = result_of("a", "b", "c", "d")
    assert [standing["label"] for standing in result["standings"]] == ["a", "b"]
    assert any("A single search does not show which strategy is better" in note for note in result["notes"])


def test_lower_is_better_where_the_metric_is_minimized(capsys):
    put("007", (2.0, 3.0, 4.0), direction="minimize")
    put("NA", (2.5, 3.4, 4.6), direction="minimize")
    assert sentences_of(capsys, "007", "NA") == ["007 is 0.5000 better than NA (95 % 0.2516 to 0.7484, 3 folds)"]
    assert {*toolkit.compare_studies(["007", "NA"], progress=False).pairs[["a", "b"]].values.flat} == {"007", "NA"}


def test_equal_scores_other_folds_and_no_score(capsys):
    put("a", (0.5, 0.6))
    put("b", (0.5, 0.6))
    put("c", (0.5, 0.6, 0.7))
    put("d", (0.5, 0.6))
    path = Path("runs/d/trials.csv")
    path.write_text(path.read_text().replace("complete,0.55,0.5,0.6", "failed,,,"))
    assert sentences_of(capsys, "a", "b", "c", "d") == [
        "b is as good as a (95 % 0.0000 to 0.0000, 2 folds)",
        "d has no complete trial: not compared",
        "c was scored on other folds than a and b: not compared",
    ]


@pytest.mark.slow
def test_up_to_four_studies_are_compared_in_all_pairs_and_more_with_the_best(capsys):
    for place, name in enumerate("abcde"):
        put(name, (0.5 + 0.01 * place, 0.6 + 0.02 * place))
    four, five = sentences_of(capsys, *"abcd"), sentences_of(capsys, *"eabcd")
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
    says = "long is 0.5000 better than short, the winner of 3 trials against the winner of 2 trials (one score each, "
    assert result["answers"] == [says + "no interval); after 2 trials each, short is 0.2000 better"]
    assert "long and short have different budgets: 3 and 2 configurations." in result["notes"]
    assert "long and short search different spaces: a has other values; b only in long." in result["notes"]


def test_studies_are_compared_by_their_fronts_on_one_scale(capsys):
    fronts = {"a": [(0.9, 50.0), (0.5, 10.0)], "b": [(0.7, 20.0), (0.6, 30.0)]}
    put("a", *fronts["a"], metrics=BOTH, winner=1)
    put("b", *fronts["b"], metrics=BOTH)
    out = prints(capsys, "compare", "a", "b")
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
    put("c", *fronts["a"], metrics=BOTH, limits={"size": 60})
    put("d", *fronts["a"], metrics=BOTH, limits={"size": 5})
    assert hpo(capsys, "compare", "c", "d")[0] == 0
    result = result_of("c", "d")
    assert "d has no complete trial within the limits: not compared" in result["answers"]
    assert any("different limits" in note for note in result["notes"])


def test_studies_that_do_not_compare_are_refused_in_one_line_and_nothing_is_written(capsys):
    for name in "ab":
        put(name, (0.5,))
    put("down", (0.5,), direction="minimize")
    put("bleu", (0.5,), metric="bleu")
    put("two", (0.5, 1.0), metrics=BOTH)
    put("other", (0.5, 1.0), metrics=BOTH | {"size": "maximize"})
    before = {path.name for path in Path("runs").iterdir()}
    for arguments, words in (
        ([], "studies: must be two or more, given none"),
        (["a", "study.trials=3"], "to compare strategies with the override 'study.trials=3', add --strategies"),
        (["a", "b", "--repeats", "3"], "--repeats: has no effect on existing studies"),
        (["a", "b", "--name", "a"], "is a study or a comparison of strategies"),
        (["a", "down"], "study.direction: must be the same"),
        (["a", "bleu"], "study.metric: must be the same"),
        (["two", "other"], "study.metrics: must be the same in all studies"),
    ):
        assert words in refused(capsys, "compare", *arguments)
    assert {path.name for path in Path("runs").iterdir()} == before
