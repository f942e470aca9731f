"""CSV tables as imports: our own, those of other libraries, and broken ones."""

from pathlib import Path

import optuna
import pytest

from hpo.errors import DataError, StudyError
from hpo.integrations.exchange.csv_table import read_csv
from hpo.study.files.imports import read_imports
from hpo.trials.goal import Goal
from hpo.trials.space.reader import space_from_dict
from hpo.trials.table import read_rows
from tests.hpo.cli.commands import hpo
from tests.studies import SPACES, rows, run_toy, toy_config


def read(text, metric="score", keys=None):
    Path("table.csv").write_text(text)
    return read_csv(Path("table.csv"), metric, keys, None)


@pytest.mark.slow
def test_our_own_table_comes_back(capsys):
    run_toy(Path("runs/toy"), toy_config("random", SPACES["mixed"], trials=24))
    code, out, _ = hpo(capsys, "import", "back", "--csv", "runs/toy/trials.csv")
    assert (code, "24 trials" in out) == (0, True)
    ours, back = rows(Path("runs/toy/trials.csv")), rows(Path("runs/back/trials.csv"))
    for key in ("state", "score", "toy.layers", "toy.width", "toy.lr", "toy.nonlinearity"):
        assert [row[key] for row in back] == [row[key] for row in ours]


def test_a_table_of_measurements(capsys):
    Path("old.csv").write_text("layers,note,lr,bleu,loss\n1,first,0.1,20.5,3\n2,,0.2,,\n3,odd,0.30,nan,\n")
    code, out, _ = hpo(capsys, "import", "old", "--csv", "old.csv", "--metric", "bleu", "--keys", "layers,lr")
    assert (code, "3 trials, 2 failed" in out) == (0, True)
    space = space_from_dict({"layers": [1, 2, 3], "lr": {"low": 0.1, "high": 0.3}})
    trials = read_imports(["old"], space, Goal({"bleu": "maximize"})).trials
    assert [(dict(t.point), t.score) for t in trials] == [
        ({"layers": 1, "lr": 0.1}, 20.5),
        ({"layers": 2, "lr": 0.2}, None),
        ({"layers": 3, "lr": 0.3}, None),
    ]


def test_the_table_of_optuna():
    study = optuna.create_study()
    study.optimize(lambda trial: trial.suggest_float("model.lr", 0, 1), n_trials=3)
    study.ask()
    study.trials_dataframe().to_csv("optuna.csv", index=False)
    table = read_csv(Path("optuna.csv"), "value", None, "minimize")
    assert table.keys == ("model.lr",)
    assert [attempt.score for attempt in table.attempts] == [trial.value for trial in study.trials[:3]]
    assert table.num_unfinished == 1


def test_the_table_of_ray():
    table = read("loss,trial_id,config/lr,config/model/layers\n0.5,a,0.1,2\n", "loss")
    assert [(dict(a.point), a.score) for a in table.attempts] == [({"lr": "0.1", "model.layers": "2"}, 0.5)]


def test_states_in_words_of_others():
    table = read("state,x,score\nCOMPLETE,1,1\nFAIL,2,\nRUNNING,3,\nTERMINATED,4,4\nERROR,5,7\nPRUNED,6,5\n")
    assert [(a.point["x"], a.score) for a in table.attempts] == [
        *(("1", 1.0), ("2", None), ("4", 4.0), ("5", None), ("6", None))
    ]
    assert table.num_unfinished == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("x,y\n1,2\n", "no column 'score'; its columns: x, y"),
        ("x,scores\n1,2\n", "did you mean 'scores'"),
        ("x,score\n1,high\n", r"table.csv:2: 'score' must be a number, given 'high'"),
        ("x,score\n1\n", r"table.csv:2: must have 2 cells"),
        ("x,score\n1,2,3\n", r"table.csv:2: must have 2 cells"),
        ("x,score,x\n1,2,3\n", "two columns are called 'x'"),
        ("x,score,score\n1,2,3\n", "two columns are called 'score'"),
        ("config/a/b,config/a.b,score\n1,2,3\n", "'config/a/b' and 'config/a.b' both mean the hyperparameter 'a.b'"),
    ],
)
def test_a_broken_table_is_named_with_its_line(text, message):
    with pytest.raises(DataError, match=message):
        read(text)


def test_columns_without_a_name_may_be_several():
    assert read("x,score,,\n1,2,,\n").attempts[0].point == {"x": "1"}


def test_a_column_twice_is_refused():
    Path("trials.csv").write_text("number,state,lr,score,lr\n0,complete,1,2,3\n")
    with pytest.raises(StudyError, match=r"^trials\.csv: two columns are called 'lr'"):
        read_rows(Path("trials.csv"), ["state"])


def test_what_is_no_text_is_refused():
    Path("table.csv").write_bytes(b"\xff\xfe\x00x")
    with pytest.raises(DataError, match="cannot be read"):
        read_csv(Path("table.csv"), "score", None, None)


def test_hyperparameters_get_the_keys_of_the_new_study(capsys):
    Path("old.csv").write_text("lr,layers,score\n0.1,2,0.5\n")
    assert hpo(capsys, "import", "new", "--csv", "old.csv", "--rename", "lr=training.lr, layers=model.layers")[0] == 0
    (row,) = rows(Path("runs/new/trials.csv"))
    assert (row["training.lr"], row["model.layers"], row["score"]) == ("0.1", "2", "0.5")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("layer=x", "no hyperparameter or metric 'layer'; there are lr, layers, score; did you mean 'layers'?"),
        ("lr=layers", "two hyperparameters would be called 'layers'"),
        ("lr", "must be OLD=NEW"),
    ],
)
def test_names_that_do_not_fit_are_refused(capsys, names, message):
    Path("old.csv").write_text("lr,layers,score\n0.1,2,0.5\n")
    code, _, err = hpo(capsys, "import", "new", "--csv", "old.csv", "--rename", names)
    assert (code, message in err, Path("runs").exists()) == (2, True, False), err
