"""Which study is better: one sentence per pair, in the metric's own direction and unit."""

import json
import shutil
from pathlib import Path

import pytest
import yaml

import hpo
from tests.hpo.cli.commands import TABLE, TABLE_DATA
from tests.hpo.cli.commands import hpo as command

QUIET = {"track": "none", "dispatch": "local"}
KEPT = Path(__file__).parents[1] / "end_to_end" / "kept" / "0.1.0"


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    """Every test runs in a folder of its own."""
    monkeypatch.chdir(tmp_path)


def put(name, scores, direction="maximize", **changes):
    """Make a study with the kept one's data whose winner has these scores by fold."""
    folder = Path("runs", name)
    shutil.copytree(KEPT, folder)
    for path in folder.glob("study.db*"):
        path.unlink()
    config = yaml.safe_load((folder / "config.yaml").read_text())
    config["study"] |= {"name": name, "direction": direction}
    config["data"] |= changes
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    report = json.loads((folder / "report.json").read_text())
    report["winner"]["number"] = 0
    report["data"]["split"]["folds"] = len(scores)
    (folder / "report.json").write_text(json.dumps(report))
    columns = ",".join(f"fold_{k}" for k in range(len(scores)))
    values = ",".join(map(str, scores))
    head = f"number,round,state,score,{columns},seconds\n"
    (folder / "trials.csv").write_text(f"{head}0,0,complete,{sum(scores) / len(scores)},{values},1.0\n")
    return folder


def fingerprint(folder, text):
    path = folder / "report.json"
    report = json.loads(path.read_text())
    for part in report["data"]["split"]["parts"].values():
        part["fingerprint"] = text
    path.write_text(json.dumps(report))


def compared(capsys, *names):
    """Return the sentences, which the screen, the two pages and comparison.json have as the first they say."""
    code, out, err = command(capsys, "compare", *names)
    assert code == 0, out + err
    folder = Path("runs", "compare-" + "-".join(names))
    sentences = json.loads((folder / "comparison.json").read_text())["answers"]
    page, text = ((folder / f"comparison.{kind}").read_text() for kind in ("html", "md"))
    assert out.strip().splitlines()[1 : 1 + len(sentences)] == sentences
    assert [line.strip("*") for line in text.splitlines()[2 : 2 + 2 * len(sentences) : 2]] == sentences
    body = page[page.index("<h1") :]
    places = [body.index(f"<p class='answer'>{sentence}</p>") for sentence in sentences]
    assert places == sorted(places)
    assert places[-1] < body.index("class='lead'")
    for written in (out, text, body[: body.index("class='figure'")]):
        assert "loss" not in written
        assert ("95 %" in written) == any("95 %" in sentence for sentence in sentences)
    return sentences


def test_three_studies_of_which_one_was_scored_on_other_data(capsys):
    put("a", (0.80, 0.70, 0.75))
    put("b", (0.85, 0.66, 0.884))
    fingerprint(put("c", (0.9, 0.9, 0.9)), "other")
    # Student's t of the differences .05, -.04 and .134: .048 +- 4.303 * .0870 / sqrt(3).
    assert compared(capsys, "a", "b", "c") == [
        "b is 0.0480 better than a (95 % -0.1682 to 0.2642, 3 folds): may be chance",
        "c was scored on other data than a and b: not compared",
    ]
    standings = json.loads(Path("runs/compare-a-b-c/comparison.json").read_text())["standings"]
    assert [standing["label"] for standing in standings] == ["a", "b"]


def test_lower_is_better_where_the_metric_is_minimized(capsys):
    put("a", (2.0, 3.0, 4.0), "minimize")
    put("b", (2.5, 3.4, 4.6), "minimize")
    assert compared(capsys, "a", "b") == ["a is 0.5000 better than b (95 % 0.2516 to 0.7484, 3 folds)"]


@pytest.mark.nightly
def test_one_score_each_has_no_interval(capsys):
    for name, base in (("a", 0.0), ("b", 0.5)):
        hpo.search(
            lambda config, base=base: config["lr"] + base,
            space={"lr": [0.1, 0.2]},
            strategy="grid",
            metric="accuracy",
            direction="maximize",
            trials=2,
            name=name,
            settings=QUIET,
        )
    capsys.readouterr()
    assert compared(capsys, "a", "b") == ["b is 0.5000 better than a (one score each, no interval)"]


def test_equal_scores_other_folds_and_no_score(capsys):
    put("a", (0.5, 0.6))
    put("b", (0.5, 0.6))
    put("c", (0.5, 0.6, 0.7))
    path = put("d", (0.5, 0.6)) / "trials.csv"
    path.write_text(path.read_text().replace("complete,0.55,0.5,0.6", "failed,,,"))
    assert compared(capsys, "a", "b", "c", "d") == [
        "b is as good as a (95 % 0.0000 to 0.0000, 2 folds)",
        "d has no complete trial: not compared",
        "c was scored on other folds than a and b: not compared",
    ]


def test_up_to_four_studies_are_compared_in_all_pairs_and_more_with_the_best(capsys):
    for place, name in enumerate("abcde"):
        put(name, (0.5 + 0.01 * place, 0.6 + 0.02 * place))
    four = compared(capsys, *"abcd")
    assert len(four) == 6
    assert four[0].startswith("b is 0.0150 better than a (")
    five = compared(capsys, *"eabcd")
    assert [sentence.split(" (")[0] for sentence in five] == [
        f"e is {gain} better than {name}"
        for name, gain in zip("abcd", ("0.0600", "0.0450", "0.0300", "0.0150"), strict=True)
    ]


@pytest.mark.nightly
def test_another_way_to_write_the_same_data_is_no_other_data(capsys):
    put("a", (0.5, 0.6), header="auto")
    put("b", (0.6, 0.7), header=None)
    (sentence,) = compared(capsys, "a", "b")
    assert sentence.startswith("b is 0.1000 better than a")
    shutil.copy(TABLE, "table.csv")
    search = ("search", *TABLE_DATA, "track=none", "study.trials=3", "strategy=random")
    assert command(capsys, *search, "study.name=here")[0] == 0
    shutil.copy(TABLE, "moved.csv")
    assert command(capsys, *search, "data.path=moved.csv", "study.name=there")[0] == 0
    assert compared(capsys, "here", "there") == ["there is as good as here (95 % 0.0000 to 0.0000, 3 folds)"]
    Path("moved.csv").write_text(TABLE.read_text().replace("0.2838", "0.2839"))
    assert command(capsys, *search, "data.path=moved.csv", "study.name=anew")[0] == 0
    assert compared(capsys, "here", "anew") == ["anew was scored on other data than here: not compared"]


@pytest.mark.nightly
def test_a_comparison_of_strategies_speaks_of_no_loss_of_an_accuracy(capsys):
    shutil.copy(TABLE, "table.csv")
    code, out, _ = command(
        capsys, "compare", "--strategies", "random,grid", "--repeats", "2", *TABLE_DATA, "study.trials=3"
    )
    assert code == 0
    assert "loss" not in out
    assert "B better by" in out


def test_a_comparison_hands_on_its_sentence_and_tables_for_a_paper():
    compared = hpo.compare_strategies(
        lambda config: config["x"], {"x": (0.0, 1.0)}, strategies=["random", "qmc"], trials=2, repeats=6,
        direction="minimize", settings={"dispatch": "local"}, name="both", progress=False,
    )  # fmt: skip
    assert compared.sentence.startswith("After 2 trials ")
    standings, (pair,) = compared.standings, compared.intervals.to_dict("records")
    assert standings.label.tolist() == ["random", "qmc"]
    assert (standings.mean_score_low <= standings.mean_score).all()
    # The optimum is not known.
    assert standings.mean_regret.isna().all()
    assert (pair["a"], pair["b"]) == ("random", "qmc")
    assert pair["mean_difference"] == pytest.approx(standings.mean_score[0] - standings.mean_score[1])
    assert pair["mean_difference_low"] <= pair["mean_difference"] <= pair["mean_difference_high"]
