"""`hpo compare --strategies`: searches over a measured table, repeated with paired seeds."""

import contextlib
import csv
import json
import re
import shutil
import stat
from pathlib import Path

import pytest
import yaml

from hpo.cli.main import main
from hpo.compare.output import show
from hpo.errors import StudyError
from hpo.report.write import publish_comparison
from tests.hpo.cli.commands import TABLE, TABLE_DATA, hpo, refused
from tests.studies import rows

COMPARE = (
    "compare",
    "--strategies",
    "random,evolutionary",
    "--repeats",
    "3",
    *TABLE_DATA,
    "study.trials=12",
    "study.seed=5",
)
FOLDER = Path("runs/compare-table")


@pytest.fixture(autouse=True)
def table():
    shutil.copy(TABLE, "table.csv")


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """The folder in which the comparison was made."""
    folder = tmp_path_factory.mktemp("compared")
    with contextlib.chdir(folder):
        shutil.copy(TABLE, "table.csv")
        assert main(list(COMPARE)) == 0
    return folder


@pytest.fixture
def made(compared):
    """Put a copy of it into the working directory."""
    shutil.copytree(compared / "runs", "runs")


def files():
    """Return what the comparison's files hold."""
    return {path.name: path.read_bytes() for path in FOLDER.iterdir() if path.name != "driver.lock"}


def searches():
    with (FOLDER / "searches.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_the_files_of_a_comparison(capsys):
    code, out, err = hpo(capsys, *COMPARE, "--at", "5")
    assert (code, err) == (0, "")
    result = json.loads((FOLDER / "comparison.json").read_text())
    assert result["optimum"] == pytest.approx(max(sum(folds) / 3 for folds in accuracies()))
    assert [(p["budget"], p["a"], p["b"]) for p in result["pairs"]] == [
        (12, "random", "evolutionary"),
        (5, "random", "evolutionary"),
    ]
    assert "not distinguishable at this budget" in out
    assert "needs at least 6 repeats" in out
    with (FOLDER / "comparison.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert [float(row["p_holm"]) for row in table] == [pair["p_holm"] for pair in result["pairs"]]
    assert {"comparison.html", "comparison.yaml", "environment.json"} < set(files())
    page = (FOLDER / "comparison.md").read_text()
    for pair in result["pairs"]:
        assert f"| {pair['budget']} trials | random | evolutionary |" in page


@pytest.mark.nightly
def test_what_is_published_of_a_comparison_is_for_everybody_and_no_link_is_followed(capsys):
    """All but the large page."""
    published, elsewhere = Path("studies", FOLDER.name), Path("elsewhere")
    elsewhere.mkdir()
    published.mkdir(parents=True)
    (elsewhere / "precious").write_text("precious")
    (published / "comparison.md").symlink_to((elsewhere / "precious").absolute())
    publish = (*COMPARE, "--publish", "study.trials=3")
    code, out, _ = hpo(capsys, *publish)
    names = {path.name for path in published.iterdir()}
    assert (code, names) == (0, set(files()) - {"comparison.html", "driver.lock"})
    assert all(str(published / name) in out for name in names)
    assert (elsewhere / "precious").read_text() == "precious"
    assert {stat.S_IMODE(path.lstat().st_mode) for path in published.iterdir()} == {0o644}
    assert stat.S_IMODE(published.stat().st_mode) == 0o755
    shutil.rmtree(published)
    published.symlink_to(elsewhere.absolute())
    assert "studies/compare-table: is a link" in refused(capsys, *publish)
    published.unlink()
    (FOLDER / "comparison.csv").unlink()
    (FOLDER / "comparison.csv").symlink_to((elsewhere / "precious").absolute())
    with pytest.raises(StudyError, match="is a link that leads out"):
        publish_comparison(FOLDER, FOLDER.name)
    assert not published.exists()


def accuracies():
    with TABLE.open(newline="") as file:
        return [[float(row[f"accuracy_{fold}"]) for fold in range(3)] for row in csv.DictReader(file)]


@pytest.mark.slow
def test_a_repeat_is_the_same_search_as_hpo_search_with_that_seed(capsys, made):
    found = searches()
    order = [("random", 0), ("evolutionary", 0), ("random", 1), ("evolutionary", 1), ("random", 2), ("evolutionary", 2)]
    assert [(row["strategy"], int(row["repeat"])) for row in found] == order
    assert [int(row["seed"]) for row in found] == [5, 5, 6, 6, 7, 7]
    alone = ("study.seed=6", "study.trials=12", "strategy=evolutionary", "study.name=alone", "track=none")
    assert hpo(capsys, "search", *TABLE_DATA, *alone)[0] == 0
    trials = rows(Path("runs/alone/trials.csv"))
    assert json.loads(found[3]["scores"]) == [float(trial["score"]) for trial in trials]


@pytest.mark.slow
def test_only_what_is_not_there_is_run_again_and_a_line_that_a_killed_driver_left_half_written(capsys, made):
    hpo(capsys, *COMPARE)
    whole = files()
    code, out, _ = hpo(capsys, *COMPARE)
    assert (code, "repeat 0" in out) == (0, False)
    assert files() == whole
    written = (FOLDER / "searches.csv").read_bytes()
    (FOLDER / "searches.csv").write_bytes(written[: len(written) * 2 // 3])
    code, out, _ = hpo(capsys, *COMPARE)
    assert (code, out.splitlines()[0].split()[1]) == (0, "repeat")
    assert out.splitlines()[0].split()[0] != "1/6"
    assert files() == whole


@pytest.mark.slow
def test_more_repeats_go_on_and_fewer_are_refused(capsys):
    hpo(capsys, *COMPARE, "--repeats", "2")
    before = (FOLDER / "searches.csv").read_text()
    assert hpo(capsys, *COMPARE)[0] == 0
    assert (FOLDER / "searches.csv").read_text().startswith(before)
    assert "at least 3, as in runs/compare-table, given 2" in refused(capsys, *COMPARE, "--repeats", "2")


OTHER = (
    (["study.trials=13"], "config.study.trials was 12 and is now 13"),
    (["study.seed=6"], "config.study.seed was 5 and is now 6"),
    (["--set", "evolutionary.population=7"], "strategies.evolutionary.population"),
    (["--strategies", "random,grid"], "strategies."),
)


def test_a_comparison_of_another_format_is_refused(capsys):
    FOLDER.mkdir(parents=True)
    for number, words in ((2, "its format is 2, not 1"), ("1", "its format is '1'"), (1, "is not a comparison")):
        (FOLDER / "comparison.yaml").write_text(yaml.safe_dump({"format": number}))
        assert words in refused(capsys, *COMPARE)


@pytest.mark.nightly
def test_another_configuration_and_other_data_are_refused(capsys, made):
    before = files()
    for arguments, words in OTHER:
        assert words in refused(capsys, *COMPARE, *arguments)
    with Path("table.csv").open("a") as file:
        file.write("linear,1,0.1,0.9,0.9,0.9,0.1\n")
    assert "exists with another configuration" in refused(capsys, *COMPARE)
    assert files() == before


@pytest.mark.nightly
def test_the_same_strategy_with_other_settings_has_a_label_of_its_own(capsys):
    arguments = ["--strategies", "small=evolutionary,random", "--set", "small.population=4", "--optimum", "1"]
    assert hpo(capsys, *COMPARE, *arguments)[0] == 0
    result = json.loads((FOLDER / "comparison.json").read_text())
    assert result["strategies"]["small"]["population"] == 4
    assert result["optimum"] == 1
    assert {s["label"] for s in result["standings"]} == {"small", "random"}


@pytest.mark.slow
def test_the_verdict_at_equal_cost(capsys):
    assert hpo(capsys, *COMPARE, "--at-seconds", "0.5,shortest")[0] == 0
    result = json.loads((FOLDER / "comparison.json").read_text())
    shortest = min(sum(json.loads(row["seconds"])) for row in searches())
    assert [(p["budget"], p["unit"]) for p in result["pairs"]] == [
        (12, "trials"),
        (pytest.approx(shortest), "seconds"),
        (0.5, "seconds"),
    ]
    assert "length of the shortest search" in refused(capsys, *COMPARE, "--at-seconds", "1e9")


def test_when_every_trial_fails_the_exit_code_is_1(capsys):
    code, out, _ = hpo(capsys, *COMPARE, "--repeats", "1", "space.C=[5,7]")
    assert (code, "not comparable" in out) == (1, True)


REFUSED = {
    "an unknown strategy": (["--strategies", "random,gird"], "strategy: must be one of", "'gird'"),
    "a strategy twice": (["--strategies", "random,random"], "is listed twice", "LABEL=random"),
    "no repeats": (["--repeats", "0"], "repeats: must be 1 or more, given 0"),
    "a setting that is not there": (["--set", "random.size=3"], "strategy.size", "no such key"),
    "a setting out of bounds": (
        ["--set", "evolutionary.population=1"],
        "strategies.evolutionary.population",
        "given 1",
    ),
    "a setting of nobody": (["--set", "evolution.population=9"], "--set", "did you mean 'evolutionary'?"),
    "a strategy by override": (["strategy=grid"], "strategy: is chosen by --strategies"),
    "a budget beyond the trials": (["--at", "5,13"], "at: must be 1 to 12", "given 13"),
    "an optimum that is no number": (["--optimum", "nan"], "--optimum: must be a finite number"),
    "finalists": (["study.finalists=2"], "study.finalists: has no effect in a comparison"),
    "a tracker": (["track=mlflow"], "track.name: has no effect in a comparison"),
    "a study beside strategies": (["digits"], "'digits' has no place beside --strategies"),
    "a space too large for a grid": (
        ["--strategies", "grid,random", "--set", "grid.max_points=5"],
        "strategy grid: space",
        "max_points",
    ),
}


@pytest.mark.quick("a tracker", "finalists")
@pytest.mark.nightly
@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_one_line_and_leaves_nothing(capsys, case):
    arguments, *words = REFUSED[case]
    err = refused(capsys, *COMPARE, *arguments, is_silent=True)
    for word in words:
        assert word in err
    assert [path.name for path in Path().iterdir()] == ["table.csv"]


@pytest.mark.nightly
def test_a_folder_that_holds_a_study_is_refused(capsys):
    assert hpo(capsys, "search", *TABLE_DATA, "track=none", "study.trials=2")[0] == 0
    assert "is a study" in refused(capsys, *COMPARE, "--name", "table")
    assert not Path("runs/table/comparison.yaml").exists()


@pytest.mark.nightly
def test_real_trainings_on_workers_that_all_searches_share(capsys):
    """The same scores from two Ray workers as from this process; nothing of the trainings is left."""
    quick = ("training.epochs=1", "training.warmup_fraction=0", "model.num_layers=1", "model.d_model=16")
    space = ("space.training.lr=[0.001,0.003,0.01]", "~space.training.batch_size", "~space.model", "study.trials=2")
    arguments = ("compare", "--strategies", "random,grid", "--repeats", "1", *quick, *space)
    assert hpo(capsys, *arguments, "dispatch=local", "--name", "here")[0] == 0
    assert hpo(capsys, *arguments, "dispatch=ray", "dispatch.workers=2", "--name", "there")[0] == 0
    scores = []
    for name in ("here", "there"):
        with Path(f"runs/{name}/searches.csv").open(newline="") as file:
            scores.append([row["scores"] for row in csv.DictReader(file)])
        assert not (Path("runs") / name / "checkpoints").exists()
    assert scores[0] == scores[1]


@pytest.mark.nightly
def test_the_tables_fit_the_terminal_and_no_label_is_cut(capsys, monkeypatch):
    labels = ("shifting_window", "evolutionary")
    assert hpo(capsys, *COMPARE, "--strategies", ",".join(labels), "--repeats", "1")[0] == 0
    result = json.loads((FOLDER / "comparison.json").read_text())
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    for columns in (80, 200):
        monkeypatch.setenv("COLUMNS", str(columns))
        show(result, ())
        tables = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).partition("note:")[0]
        assert max(len(line) for line in tables.splitlines()) <= columns
        assert [tables.count(label) for label in labels] == [2, 2]
        assert "distinguishable" in tables
        assert "…" not in tables
