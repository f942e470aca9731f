"""CSV tables as imports: our own, those of other tools, and broken ones."""

import re
from pathlib import Path

import optuna
import pytest

from hpo.errors import ConfigError, DataError, StudyError
from hpo.integrations.exchange.csv_table import read_csv
from hpo.study.files.imports import read_imports
from hpo.trials.goal import Goal
from hpo.trials.space.reader import space_from_dict
from hpo.trials.table import read_rows
from tests.hpo.cli.commands import prints, refused
from tests.hpo.commands.searched import found
from tests.studies import refuses, rows


def read(text, metric="score"):
    Path("table.csv").write_bytes(text.encode(errors="surrogateescape"))
    return read_csv(Path("table.csv"), {metric: None}, None)


def imported(capsys, text, *words):
    Path("runs.csv").write_text(text)
    return prints(capsys, "import", "old", "--csv", "runs.csv", *words)


def learned(space, metric="score", direction="maximize"):
    trials = read_imports(["old"], space_from_dict(space), Goal({metric: direction})).trials
    return [(dict(trial.point), trial.score) for trial in trials]


def test_our_own_table_comes_back(capsys):
    space = {"lr": [0.1, 0.2], "act": ["relu", "gelu", "tanh"]}
    metrics = {"metric": {"loss": "maximize", "lr_size": "minimize"}, "direction": None}
    found(
        lambda at: ({"relu": 1.0, "gelu": 2.0}[at["act"]] / at["lr"], 3), space=space, trials=6, name="own", **metrics
    )
    out = prints(capsys, "import", "back", "--csv", "runs/own/trials.csv")
    assert ("6 trials, 2 failed" in out, "metric: loss (maximize), lr_size (minimize)" in out) == (True, True)
    renamed = ["--csv", "runs/back/trials.csv", "--rename", "score=error"]
    assert "metric: error (maximize), lr_size (" in prints(capsys, "import", "errors", *renamed)
    ours, back = rows(Path("runs/own/trials.csv")), rows(Path("runs/back/trials.csv"))
    for key in ("state", "score", "lr_size", "is_on_front", "lr", "act"):
        assert [row[key] for row in back] == [row[key] for row in ours]


def test_a_table_of_measurements(capsys):
    text = "layers,note,lr,bleu,loss\n1,first,0.1,20.5,3\n2,,0.2,,\n3,odd,0.30,nan,\n"
    assert "3 trials, 2 failed" in imported(capsys, text, "--metric", "bleu", "--keys", "layers,lr")
    points = [{"layers": 1, "lr": 0.1}, {"layers": 2, "lr": 0.2}, {"layers": 3, "lr": 0.3}]
    space = {"layers": [1, 2, 3], "lr": {"low": 0.1, "high": 0.3}}
    assert learned(space, "bleu") == list(zip(points, (20.5, None, None), strict=True))


def test_the_table_of_optuna():
    study = optuna.create_study()
    study.optimize(lambda trial: trial.suggest_float("model.lr", 0, 1), n_trials=3)
    study.ask()
    study.trials_dataframe().to_csv("optuna.csv", index=False)
    table = read_csv(Path("optuna.csv"), {"value": "minimize"}, None)
    assert table.keys == ("model.lr",)
    assert [attempt.score for attempt in table.attempts] == [trial.value for trial in study.trials[:3]]
    assert table.num_unfinished == 1


def test_the_table_of_ray_and_one_with_columns_without_a_name_and_blanks_around_names():
    table = read("loss,trial_id,config/lr,config/model/layers\n0.5,a,0.1,2\n", "loss")
    assert [(dict(a.point), a.score) for a in table.attempts] == [({"lr": "0.1", "model.layers": "2"}, 0.5)]
    assert read("x, fold_size ,score,,\n1, 8,2,,\n").attempts[0].point == {"x": "1", "fold_size": "8"}


def test_the_table_of_wandb_has_booleans_in_small_letters_and_numbers_as_texts(capsys):
    text = '"Name","amp","width","accuracy"\n"a","true","16.0","0.5"\n"b","False","32","0.7"\n'
    imported(capsys, text, "--metric", "accuracy", "--keys", "amp,width")
    expected = [({"amp": True, "width": 16}, 0.5), ({"amp": False, "width": 32}, 0.7)]
    assert learned({"amp": [True, False], "width": {"choices": [16, 32]}}, "accuracy") == expected
    other = {"amp": ["true", "False"], "width": {"low": 8, "high": 64, "integer": True}}
    assert learned(other, "accuracy")[0][0] == {"amp": "true", "width": 16}


@pytest.mark.parametrize(("column", "states", "scores", "num_unfinished"), [
    ("State", "finished running crashed failed", [1.0, None], 2),
    ("Status", "FINISHED RUNNING KILLED FAILED", [1.0, None], 2),
    ("state", "COMPLETE FAIL RUNNING TERMINATED ERROR PRUNED", [1.0, None, 4.0, None], 1),
])  # fmt: skip
def test_states_in_words_of_others(column, states, scores, num_unfinished):
    lines = [f"{state},{number},{number}\n" for number, state in enumerate(states.split(), start=1)]
    table = read("".join([f"{column},x,score\n", *lines]))
    assert ([attempt.score for attempt in table.attempts], table.num_unfinished) == (scores, num_unfinished)


@pytest.mark.parametrize(("text", "message"), [
    ("", "is empty"),
    ("\x00\udcff", "cannot be read"),
    ("x,scores\n1,2\n", "no column 'score'; did you mean 'scores'.*x, scores"),
    ("x,score\n\n\n1,high\n", r"table.csv:4: 'score' must be a number, given 'high'"),
    *((f"x,score\n{row}\n", r"table.csv:2: must have 2 cells") for row in ("1,2,3", "1")),
    ("x,score, x\n1,2,3\n", "two columns are called 'x'"),
    ("config/a/b,config/a.b,score\n1,2,3\n", "'config/a/b' and 'config/a.b' both mean the hyperparameter 'a.b'"),
])  # fmt: skip
def test_a_broken_table_is_named_with_its_line(text, message):
    refuses(DataError, message, read, text)


def test_a_table_that_is_not_there_and_a_column_twice_in_one_of_trials_are_named():
    refuses(
        DataError, r"^csv: gone\.csv cannot be read: No such file", read_csv, Path("gone.csv"), {"score": None}, None
    )
    Path("trials.csv").write_text("number,state,lr,score,lr\n0,complete,1,2,3\n")
    refuses(StudyError, r"^trials\.csv: two columns are called 'lr'", read_rows, Path("trials.csv"), ["state"])


def test_hyperparameters_and_metrics_get_the_names_of_the_new_study_and_those_that_do_not_fit_are_refused(capsys):
    Path("old.csv").write_text("lr,layers,score\n0.1,2,0.5\n")
    given = {"layer=x": "did you mean 'layers'?", "lr=layers": "would be called 'layers'", "lr": "must be OLD=NEW"}
    for names, message in given.items():
        assert message in refused(capsys, "import", "new", "--csv", "old.csv", "--rename", names)
    assert not Path("runs").exists()
    imported(capsys, "lr,loss\n0.1,0.5\n", "--metric", "loss", "--rename", "lr=training.lr, loss=error")
    assert learned({"training.lr": [0.1, 0.2]}, "error", "minimize") == [({"training.lr": 0.1}, 0.5)]


@pytest.mark.parametrize(("cells", "says"), [
    *((f"{it},1", f"score must be a finite number up to 1e+100, given '{it}'") for it in ("nan", "inf", "1e300")),
    ("1,3.0", "amount must be a whole number, given '3.0'"),
])  # fmt: skip
def test_a_score_or_an_amount_that_is_no_valid_number_is_refused_with_its_line(cells, says):
    Path("old").write_text(f"state,lr,score,amount\ncomplete,0.1,{cells}\n")
    refuses(ConfigError, re.escape(f"study.imports: old:2: {says}"), learned, {"lr": [0.1]})


def test_imports_of_a_study_with_amounts_keep_their_smaller_scales():
    Path("old").mkdir()
    Path("old/trials.csv").write_text("state,score,lr,study.scale,amount\ncomplete,4,0.1,2,8\ncomplete,3,0.2,2,4\n")
    Path("old/imports.csv").write_text("state,score,lr,study.scale\ncomplete,1,0.2,1\n")
    expected = [({"lr": 0.1, "study.scale": 2}, 4.0), ({"lr": 0.2, "study.scale": 1}, 1.0)]
    assert learned({"lr": [0.1, 0.2], "study": {"scale": [1, 2]}}) == expected


def test_scores_of_another_metric_or_direction_are_refused(capsys):
    text, space = "lr,accuracy,fid\n0.1,0.9,3\n", {"lr": [0.1, 0.2]}
    Path("runs.csv").write_text(text)
    said = refused(capsys, "import", "old", "--csv", "runs.csv", "--metric", "fid")
    assert "direction: is missing, and the metric 'fid' is not a known name" in said
    assert not Path("runs").exists()
    assert "metric: accuracy (maximize)" in imported(capsys, text, "--metric", "accuracy")
    with pytest.raises(ConfigError, match=r"has the metrics accuracy: maximize, but this study has loss: minimize$"):
        learned(space, "loss", "minimize")
    refuses(ConfigError, r"this study has score: maximize; .* --rename OLD=NEW", learned, space, "score")
