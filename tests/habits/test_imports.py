"""Habits of people who bring their trials along: W&B's and pandas' tables, Optuna's journal, Ray's folders."""

import json
import re
from pathlib import Path

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

import hpo
from hpo.cli.main import main
from hpo.errors import ConfigError, HpoError
from hpo.study.files.imports import read_imports
from hpo.trials.goal import Goal
from hpo.trials.space.reader import space_from_dict


def learned(space, metric="score", direction="maximize", name="old"):
    trials = read_imports([name], space_from_dict(space), Goal({metric: direction})).trials
    return [(dict(trial.point), trial.score) for trial in trials]


def imported(*words):
    return main(["import", "old", *words])


def test_the_table_of_wandb_has_booleans_in_small_letters_and_numbers_as_texts():
    Path("runs.csv").write_text('"Name","amp","width","accuracy"\n"a","true","16.0","0.5"\n"b","False","32","0.7"\n')
    assert imported("--csv", "runs.csv", "--metric", "accuracy", "--keys", "amp,width") == 0
    assert learned({"amp": [True, False], "width": {"choices": [16, 32]}}, "accuracy") == [
        ({"amp": True, "width": 16}, 0.5),
        ({"amp": False, "width": 32}, 0.7),
    ]
    other = {"amp": ["true", "False"], "width": {"low": 8, "high": 64, "integer": True}}
    assert learned(other, "accuracy")[0][0] == {"amp": "true", "width": 16}


@pytest.mark.parametrize(
    ("column", "states"),
    [
        ("State", "finished finished running crashed failed"),
        ("Status", "FINISHED FINISHED RUNNING KILLED FAILED"),
    ],
)
def test_only_finished_runs_of_wandb_and_mlflow_count(capsys, column, states):
    lines = [f"{number / 10},{state},{number / 8}\n" for number, state in enumerate(states.split(), start=1)]
    Path("runs.csv").write_text("".join([f"lr,{column},accuracy\n", *lines]))
    assert imported("--csv", "runs.csv", "--metric", "accuracy") == 0
    assert (
        "3 trials, 1 failed, 2 unfinished left out: runs/old/trials.csv\nmetric: accuracy (maximize)"
        in capsys.readouterr().out
    )
    found = learned({"lr": {"low": 0.05, "high": 1.0}}, "accuracy")
    assert found == [({"lr": 0.1}, 0.125), ({"lr": 0.2}, 0.25), ({"lr": 0.5}, None)]


def test_rows_of_one_point_are_its_repeats_and_what_is_used_is_said(capsys):
    rows = ("0.1,0.95", "0.1,0.5", "0.1,0.5", "0.2,0.6", "7,0.9")
    Path("runs.csv").write_text("\n".join(["lr,score", *rows]))
    assert imported("--csv", "runs.csv") == 0
    assert learned({"lr": [0.1, 0.2]}) == [({"lr": 0.1}, pytest.approx(0.65)), ({"lr": 0.2}, 0.6)]
    settings = {"track": "none", "study.imports": "old"}
    study = hpo.search(
        lambda config: config["lr"], {"lr": [0.1, 0.2, 0.3]}, trials=1, direction="maximize", name="new",
        strategy="tpe", settings=settings,
    )  # fmt: skip
    said = "4 of 5 finished trials of runs/old/trials.csv are used as repeats of 2 points, 1 not in this space"
    assert f"study.imports: {said}; strategy=tpe learns from them" in capsys.readouterr().out
    report = json.loads((study.folder / "report.json").read_text())
    assert report["imports"] == [
        {"source": "runs/old/trials.csv", "finished": 5, "used": 4, "outside": 1, "shorter": 0, "filled": 0}
    ]
    assert "imported" in report["fields"][10]["keys"]
    study.report(checklist=True)
    assert all(said in (study.folder / name).read_text() for name in ("report.md", "checklist.md"))


def two_sweeps():
    """Import a sweep that did not have `drop` yet, and one of which a run does not say it."""
    Path("sweeps.csv").write_text("lr,score\n0.1,0.9\n0.2,0.5\n7,0.9\n")
    Path("old.csv").write_text("lr,drop,score\n0.1,0.1,0.7\n0.1,0.2,0.6\n0.2,,0.5\n")
    for name in ("sweeps", "old"):
        assert main(["import", name, "--csv", f"{name}.csv"]) == 0
    return {"lr": [0.1, 0.2], "drop": [0.1, 0.2]}


def test_several_sweeps_are_learned_from_and_what_they_lack_is_given(capsys):
    space = two_sweeps()
    settings = {"track": "none", "study.imports": ["sweeps", "old"], "study.imports_fill": {"drop": 0.1}}
    study = hpo.search(
        lambda config: config["lr"], space, trials=1, direction="maximize", name="new", strategy="tpe",
        settings=settings,
    )  # fmt: skip
    said = (
        "2 of 3 finished trials of runs/sweeps/trials.csv are used, 1 not in this space, 2 completed by "
        "study.imports_fill; 3 of 3 finished trials of runs/old/trials.csv are used, 1 completed by "
        "study.imports_fill; together they are repeats of 3 points"
    )
    assert f"study.imports: {said}; strategy=tpe learns from them" in capsys.readouterr().out
    assert said in (study.folder / "report.md").read_text()
    # The two of one point count with their mean, whichever study they are of.
    rows = [line.split(",") for line in (study.folder / "imports.csv").read_text().splitlines()]
    assert rows[0] == ["state", "score", "lr", "drop"]
    assert [(float(score), lr, drop) for _, score, lr, drop in rows[1:]] == [
        (pytest.approx(0.8), "0.1", "0.1"), (0.5, "0.2", "0.1"), (0.6, "0.1", "0.2"),
    ]  # fmt: skip
    assert main(["search", "--replay", "new", "track=none"]) == 0
    assert "all 1 trials are the same as" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("names", "fill", "says"),
    [
        (["sweeps"], {}, r"sweeps/trials.csv has no column 'drop'; .*study.imports_fill=\{drop: VALUE\}"),
        (["sweeps"], {"drop": 0.7}, r"imports_fill.drop: must be in its range \(0.1, 0.2\), given 0.7"),
        (["sweeps"], {"drp": 0.1}, r"imports_fill: 'drp' is not searched; allowed: lr, drop; did you mean 'drop'"),
        (
            ["old"],
            {"drop": 0.1, "lr": 0.1},
            r"imports_fill.lr: has no effect",
        ),
        (["old", "runs/old"], {"drop": 0.1}, r"'old' and 'runs/old' are the same table; give one of them"),
    ],
)
def test_what_several_sweeps_cannot_say_is_refused(names, fill, says):
    space = space_from_dict(two_sweeps())
    with pytest.raises(HpoError, match=says):
        read_imports(names, space, Goal({"score": "maximize"}), fill)


def test_one_sweep_of_another_metric_is_refused_by_name():
    space = space_from_dict(two_sweeps())
    Path("loss.csv").write_text("lr,drop,loss\n0.1,0.1,0.2\n")
    assert main(["import", "losses", "--csv", "loss.csv", "--metric", "loss"]) == 0
    with pytest.raises(ConfigError, match=r"losses/trials.csv has the metrics loss: minimize, this study has score"):
        read_imports(["old", "losses"], space, Goal({"score": "maximize"}))


@pytest.mark.parametrize(("strategy", "learns"), [("random", False), ("asha", False), ("evolutionary", True)])
def test_whether_the_strategy_learns_from_what_is_imported_is_said(capsys, strategy, learns):
    Path("runs.csv").write_text("lr,score\n0.1,0.95\n")
    assert imported("--csv", "runs.csv") == 0

    def train(config, trial):
        for epoch in range(trial.trained + 1, (trial.amount or 3) + 1):
            trial.report(epoch=epoch, score=config["lr"])

    chosen = {"name": "asha", "max_amount": 3} if strategy == "asha" else strategy
    hpo.search(
        hpo.objective(continues=True)(train), {"lr": [0.1, 0.2, 0.3]}, trials=1, direction="maximize", name="new",
        strategy=chosen, settings={"track": "none", "study.imports": "old"},
    )  # fmt: skip
    uses = "learns from them" if learns else "does not learn from them, and proposes none of their points again"
    assert f"strategy={strategy} {uses}" in capsys.readouterr().out


def test_a_default_that_is_imported_is_not_said_to_be_tried(capsys):
    Path("runs.csv").write_text("lr,score\n0.1,0.95\n")
    assert imported("--csv", "runs.csv") == 0
    study = hpo.search(
        lambda config: config["lr"], {"lr": [0.1, 0.2, 0.3]}, config={"lr": 0.1}, trials=2, direction="maximize",
        name="new", settings={"track": "none", "study.imports": "old"},
    )  # fmt: skip
    assert "space.first" not in capsys.readouterr().out
    assert "tried first" not in (study.folder / "report.md").read_text()


def test_an_import_is_listed_and_is_no_study(capsys):
    Path("runs.csv").write_text("lr,score\n0.1,0.95\n")
    assert imported("--csv", "runs.csv") == 0
    assert main(["list", "--where", "state=imported"]) == 0
    assert re.search(r"\nold +imported +1/1 +0.9500 .* runs.csv ", capsys.readouterr().out)
    assert main(["show", "old"]) == 2
    assert "start a study that learns from them: hpo search study.imports=old" in capsys.readouterr().err
    assert main(["remove", "old", "--yes"]) == 0
    assert "MLflow" not in capsys.readouterr().out


def test_scores_of_another_metric_or_direction_are_refused(capsys):
    """Accuracies that are taken as losses breed from the worst."""
    Path("runs.csv").write_text("lr,accuracy,fid\n0.1,0.9,3\n")
    assert imported("--csv", "runs.csv", "--metric", "fid") == 2
    assert "direction: is missing, and the metric 'fid' is not a known name" in capsys.readouterr().err
    assert not Path("runs").exists()
    assert imported("--csv", "runs.csv", "--metric", "accuracy") == 0
    space = {"lr": [0.1, 0.2]}
    with pytest.raises(ConfigError, match=r"has the metrics accuracy: maximize, this study has loss: minimize$"):
        learned(space, "loss", "minimize")
    with pytest.raises(ConfigError, match=r"this study has score: maximize; .* --rename OLD=NEW"):
        learned(space, "score")
    assert main(["import", "same", "--csv", "runs.csv", "--metric", "accuracy", "--rename", "accuracy=score"]) == 0
    assert learned(space, "score", name="same") == [({"lr": 0.1}, 0.9)]


def test_blanks_around_the_name_of_a_column_are_nobodys(capsys):
    Path("runs.csv").write_text("lr, opt , score\n0.1, adam, 0.5\n0.2, sgd, 0.7\n")
    assert imported("--csv", "runs.csv") == 0
    assert learned({"lr": [0.1, 0.2], "opt": {"choices": ["adam", "sgd"]}})[0] == ({"lr": 0.1, "opt": "adam"}, 0.5)
    Path("twice.csv").write_text("lr, lr,score\n0.1,0.2,0.5\n")
    assert main(["import", "new", "--csv", "twice.csv"]) == 2
    assert capsys.readouterr().err == "error: csv: twice.csv: two columns are called 'lr'; give each its own name\n"


def journal():
    study = optuna.create_study(storage=JournalStorage(JournalFileBackend("old.log")), direction="maximize")
    study.optimize(lambda trial: trial.suggest_float("lr", 0, 1), n_trials=2)
    return [({"lr": trial.params["lr"]}, trial.value) for trial in study.trials]


def test_optunas_journal_is_read_and_left_as_it_is():
    expected = journal()
    before = {path.name: path.read_bytes() for path in Path().iterdir()}
    assert imported("--optuna", "journal://old.log") == 0
    assert learned({"lr": {"low": 0, "high": 1}}) == expected
    assert {path.name: path.read_bytes() for path in Path().iterdir() if path.is_file()} == before


def test_a_last_line_of_a_journal_that_is_cut_off_loses_nothing_else():
    expected = journal()
    with Path("old.log").open("a") as file:
        file.write('{"op_code": 4, "wor')
    assert imported("--optuna", f"journal://{Path.cwd()}/old.log") == 0
    assert learned({"lr": {"low": 0, "high": 1}}) == expected


@pytest.mark.parametrize(
    ("content", "says"), [(None, "there is no file old.log"), ("no journal\n{}\n", "old.log is not an Optuna journal")]
)
def test_what_is_no_journal_is_refused_in_one_line(content, says, capsys):
    if content is not None:
        Path("old.log").write_text(content)
    assert imported("--optuna", "journal://old.log") == 2
    said = capsys.readouterr().err
    assert (says in said, said.count("\n"), Path("runs").exists()) == (True, 1, False)
    assert Path("old.log").exists() == (content is not None)


def test_a_finished_trial_of_ray_counts_with_the_last_result_that_has_the_metric():
    folder = Path("sweep/train_0")
    folder.mkdir(parents=True)
    (folder / "params.json").write_text('{"lr": 0.1}')
    results = [{"val": {"acc": 0.4}}, {"val": {"acc": 0.6}, "time_total_s": 1}, {"done": True, "time_total_s": 5}]
    (folder / "result.json").write_text("".join(json.dumps(result) + "\n" for result in results))
    assert imported("--ray", "sweep", "--metric", "val/acc", "--direction", "maximize") == 0
    assert learned({"lr": [0.1, 0.2]}, "val/acc") == [({"lr": 0.1}, 0.6)]
    assert ",5.0," in Path("runs/old/trials.csv").read_text()
