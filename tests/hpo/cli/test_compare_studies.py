"""`hpo compare STUDY STUDY`: studies that exist, beside each other."""

import contextlib
import json
import shutil
from pathlib import Path

import pytest
import yaml

from hpo.cli.main import main
from tests.hpo.cli.commands import TABLE, TABLE_DATA, hpo, refused
from tests.hpo.commands.searched import found
from tests.studies import rows


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folder of two studies of the table, with the same trials and another strategy."""
    folder = tmp_path_factory.mktemp("studies")
    with contextlib.chdir(folder):
        shutil.copy(TABLE, "table.csv")
        for name in ("random", "evolutionary"):
            arguments = [*TABLE_DATA, "track=none", f"strategy={name}", f"study.name={name}", "study.trials=12"]
            assert main(["search", *arguments]) == 0
    return folder


@pytest.fixture
def studies(made):
    """Put a copy of them into the working directory."""
    shutil.copytree(made, ".", dirs_exist_ok=True)
    return "random", "evolutionary"


@pytest.mark.slow
def test_studies_that_exist_are_compared_by_their_winners(capsys, studies):
    code, out, _ = hpo(capsys, "compare", *studies)
    assert code == 0
    assert "One search each does not compare strategies" in out
    result = json.loads(Path("runs/compare-random-evolutionary/comparison.json").read_text())
    winners = [max(rows(Path(f"runs/{name}/trials.csv")), key=lambda row: float(row["score"])) for name in studies]
    expected = {f"fold_{k}": float(winners[1][f"fold_{k}"]) - float(winners[0][f"fold_{k}"]) for k in range(3)}
    assert result["folds"][0]["by_fold"] == pytest.approx(expected)
    assert result["pairs"] == []
    assert result["curves"]["random"]["trials"]["mean"][-1] == float(winners[0]["score"])


def change(study, key, value):
    # As one that was published: its table is read.
    (Path("runs") / study / "study.db").unlink(missing_ok=True)
    path = Path("runs") / study / "config.yaml"
    tree = yaml.safe_load(path.read_text())
    tree["study"][key] = value
    path.write_text(yaml.safe_dump(tree))


@pytest.mark.slow
def test_studies_of_different_metrics_are_refused(capsys, studies):
    for key, value in (("direction", "minimize"), ("metric", "bleu")):
        change("random", key, value)
        assert f"study.{key}: must be the same" in refused(capsys, "compare", *studies)


@pytest.mark.slow
def test_unequal_studies_are_compared_with_a_warning(capsys, studies):
    arguments = [*TABLE_DATA, "data.absent=nearest", "track=none", "study.name=other", "study.trials=5"]
    assert hpo(capsys, "search", *arguments)[0] == 0
    code, out, _ = hpo(capsys, "compare", "random", "runs/other")
    assert code == 0
    assert "other was scored on other data than random: not compared" in out
    assert "different budgets: 12 and 5 configurations" in out


BAD_STUDIES = (
    ([], "studies: must be two or more, given none"),
    (["random", "nothing"], "there is no 'nothing'"),
    (["random", "study.trials=3"], "overrides need --strategies"),
    (["random", "evolutionary", "--repeats", "3"], "--repeats: has no effect on existing studies"),
    (["random", "evolutionary", "--at", "13"], "at: must be 1 to 12"),
    (["random", "evolutionary", "--name", "random"], "is a study or another comparison"),
)


@pytest.mark.slow
def test_bad_input_of_studies(capsys, studies):
    for arguments, words in BAD_STUDIES:
        assert words in refused(capsys, "compare", *arguments)
        assert sorted(path.name for path in Path("runs").iterdir()) == ["evolutionary", "random"]


@pytest.mark.slow
def test_a_study_without_its_table_of_trials_is_compared_by_its_record(capsys, studies):
    Path("runs/random/trials.csv").unlink()
    code, _, err = hpo(capsys, "compare", *studies)
    assert (code, err) == (0, "")


def test_studies_of_unequal_budgets_and_spaces_are_told_apart_in_one_statement(capsys):
    scores = {"long": [0.1, 0.2, 0.9], "short": [0.3, 0.4]}
    for name, values in scores.items():
        own = {"a": (0.0, 1.0), "b": [1, 2]} if name == "long" else {"a": (0.0, 2.0)}

        def train(config, trial, values=values):
            return values[trial.number]

        found(train, space=own, name=name, trials=len(values))
    assert hpo(capsys, "compare", "long", "short")[0] == 0
    result = json.loads(Path("runs/compare-long-short/comparison.json").read_text())
    (answer,) = result["answers"]
    assert answer == (
        "long is 0.5000 better than short by their winners, of 3 and 2 trials (one score each, no interval); after 2 "
        "trials each short is 0.2000 better"
    )
    assert "long and short search different spaces: a has other values; b only in long." in result["notes"]
