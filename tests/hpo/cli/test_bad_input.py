"""Bad input: one line on standard error, exit code 2, nothing created."""

import gzip
import json
from pathlib import Path

import pytest

from tests.hpo.cli.commands import hpo

FILES = {
    "good.csv": "text,label\n" + "".join(f"word{i} other,{'ab'[i % 2]}\n" for i in range(40)),
    "empty.csv": "",
    "other.csv": "sentence_text,klass\nhello,a\nworld,b\n",
    "short.csv": "text,label\nhello,a\nworld\n",
    "blank.csv": "text,label\nhello,a\n   ,b\n",
    "one.csv": "text,label\nhello,a\nworld,a\n",
    "list.jsonl": '{"text": "a", "label": "x"}\n[1, 2]\n',
}
TEXT = "data=text_classification"

CASES = {
    "unknown key": (["model.num_layer=3"], "model.num_layer", "did you mean 'model.num_layers'?"),
    "unknown group": (["stratgy=grid"], "stratgy", "did you mean 'strategy'?"),
    "unreadable override": (["model.d_model"], "command line", "write key=value"),
    "wrong type": (["study.trials=many"], "study.trials", "integer", "'many'"),
    "wrong type in the model": (["model.d_model=wide"], "model.d_model", "integer"),
    "learning rate below zero": (["training.lr=-1"], "training.lr", "greater than 0", "-1"),
    "dropout above one": (["model.dropout=1.5"], "model.dropout", "less than 1", "1.5"),
    "no epochs": (["training.epochs=0"], "training.epochs", "given 0"),
    "heads that do not fit": (["model.num_heads=7"], "model.num_heads", "d_model 64"),
    "unknown strategy": (
        ["strategy=gird"],
        "strategy: must be one of cma_es, evolutionary, evolutionary_plain, gp, grid",
        "'grid'?",
    ),
    "unknown data": (["data=digit"], "data: must be one of", "did you mean 'digits'?"),
    "unknown dispatch": (["dispatch=slurm"], "dispatch: must be one of local, ray"),
    "unknown optimizer": (["training.optimizer=adamm"], "training.optimizer", "did you mean 'adam'?"),
    "unknown track": (["track=wandb"], "track: must be one of mlflow, none"),
    "low above high": (["space.training.lr={low: 1, high: 0.1}"], "space.training.lr", "low must be below high"),
    "log from zero": (["space.training.lr={low: 0, high: 1, log: true}"], "space.training.lr", "above 0"),
    "no values": (["space.training.lr=[]"], "space.training.lr", "empty"),
    "a value twice": (["space.model.d_model=[32,32]"], "space.model.d_model", "32 stands there twice"),
    "a key that is not there": (["space.model.depth=[1,2]"], "space.model.depth", "no key 'model.depth'"),
    "a value that is refused": (["space.model.dropout=[0.1,1.5]"], "space.model.dropout", "1.5"),
    "no dimension": (["~space.training", "~space.model"], "space", "no dimension"),
    "no trials": (["study.trials=0"], "study.trials", "given 0"),
    "more folds than examples of a class": (["split.folds=500"], "split.folds", "class"),
    "fractions above one": (["split.test_fraction=0.6", "split.validation_fraction=0.5"], "split.test_fraction", "1.1"),
    "a name with a slash": (["study.name=a/b"], "study.name", "'a/b'"),
    "a name that climbs": (["study.name=..secret"], "study.name", "'..'"),
    "GPUs where there are none": (["dispatch.gpus=0", "dispatch.gpus_per_worker=1"], "dispatch.gpus_per_worker"),
    "two workers in one process": (["dispatch=local", "dispatch.workers=2"], "dispatch.workers", "dispatch=ray"),
    "an even window": (["strategy=shifting_window", "strategy.window=4"], "strategy.window", "odd"),
    "a window longer than every range": (
        ["strategy=shifting_window", "strategy.window=9"],
        "strategy.window",
        "longer",
    ),
    "a start outside the range": (
        ["strategy=shifting_window", "strategy.start={training.lr: 5}"],
        "strategy.start.training.lr",
        "not in the range",
    ),
    "a population of one": (["strategy=evolutionary", "strategy.population=1"], "strategy.population", "given 1"),
    "no generations": (["strategy=evolutionary", "strategy.generations=0"], "strategy.generations", "given 0"),
    "a mutation above one": (["strategy=evolutionary", "strategy.mutation=1.5"], "strategy.mutation", "1.5"),
    "a grid too large": (["strategy=grid", "strategy.max_points=10"], "space", "567", "strategy.max_points"),
    "a grid over a range": (
        ["strategy=grid", "space.training.lr={low: 0.1, high: 1}"],
        "space.training.lr",
        "points=5",
    ),
    "an unknown name in first": (
        ["space.first=[{training.lr: 0.001, model.depth: 2}]"],
        "space.first[0]",
        "'model.depth'",
    ),
    "a first point outside": (["space.first=[{training.lr: 0.5}]"], "space.first[0]", "training.lr=0.5"),
    "a condition on a missing parent": (
        ["space.model.d_model={values: [32, 64], when: {training.optimizer: [adam]}}"],
        "space.model.d_model.when",
        "'training.optimizer' is not searched",
    ),
    "a condition on a later parent": (
        ["space.training.lr={values: [0.1, 0.01], when: {model.num_layers: [2]}}"],
        "space.training.lr.when",
        "write the parent first",
    ),
    "conditions in a cycle": (
        [
            "space.model.d_model={values: [32, 64], when: {model.num_layers: [2]}}",
            "space.model.num_layers={values: [1, 2], when: {model.d_model: [32]}}",
        ],
        "cycle",
    ),
    "a rule that nothing keeps": (['space.require="model.d_model < 0"'], "space.require", "no point was found"),
    "a rule of no key": (['space.require="model.width > 3"'], "space.require", "'model.width'"),
    "a rule that is code": (["space.require=\"__import__('os').getcwd()\""], "space.require", "not in the language"),
    "rungs that do not rise": (
        ["strategy=successive_halving", "strategy.min_amount=9", "strategy.max_amount=9"],
        "strategy.min_amount, strategy.max_amount",
    ),
    "a race without folds": (["split.race_after=2", "split.folds=1"], "split.race_after"),
    "imports from nowhere": (["study.imports=nobody"], "study.imports", "'nobody'"),
    "a table that is not there": (
        ["data=table", "data.path=t.csv", "data.metric=m"],
        "data.path",
        "t.csv",
    ),
    "a table without a path": (["data=table", "data.metric=m"], "data.path"),
    "an objective that is not there": (["objective=nowhere:run"], "objective", "cannot import 'nowhere'"),
    "an objective without a function": (["objective=json:run"], "objective", "no function 'run'"),
    "an objective that is no path": (["objective=run_fold"], "objective", "given 'run_fold'"),
    "an MLflow folder": (["track.uri=./mlruns"], "track.uri", "sqlite:///mlflow.db"),
    "no such configuration file": (["--config", "missing.yaml"], "--config", "missing.yaml"),
    "no such folder": (["--config-dir", "missing"], "--config-dir", "missing"),
    "no such data file": ([TEXT, "data.path=missing.csv"], "missing.csv"),
    "an empty data file": ([TEXT, "data.path=empty.csv"], "empty.csv", "empty"),
    "no such column": ([TEXT, "data.path=other.csv", "data.text_column=words"], "other.csv", "words", "sentence_text"),
    "a row with too few fields": ([TEXT, "data.path=short.csv"], "short.csv:3"),
    "an empty text": ([TEXT, "data.path=blank.csv"], "blank.csv:3", "empty"),
    "one class only": ([TEXT, "data.path=one.csv"], "class"),
    "a line that is no object": ([TEXT, "data.path=list.jsonl"], "list.jsonl:2"),
    "no data file named": ([TEXT], "data.path"),
}


@pytest.fixture
def data_files():
    for name, text in FILES.items():
        Path(name).write_text(text)
    Path("good.csv.gz").write_bytes(gzip.compress(FILES["good.csv"].encode()))
    return {path.name for path in Path().iterdir()}


@pytest.mark.parametrize("case", CASES)
def test_one_line_exit_code_2_and_nothing_created(capsys, data_files, case):
    arguments, *words = CASES[case]
    given = {argument.partition("=")[0].partition(".")[0] for argument in arguments}
    harmless = [f"{group}={name}" for group, name in (("dispatch", "local"), ("track", "none")) if group not in given]
    code, out, err = hpo(capsys, "search", *harmless, *arguments)
    assert code == 2
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    for word in words:
        assert word in err
    assert {path.name for path in Path().iterdir()} == data_files
    assert "Traceback" not in out + err


@pytest.mark.parametrize("command", ["resume", "report", "test", "sync"])
def test_a_study_that_is_not_there(capsys, command):
    code, _, err = hpo(capsys, command, "nothing")
    assert code == 2
    assert "no 'nothing'" in err
    assert not list(Path().iterdir())


def test_an_unknown_command_offers_the_nearest(capsys):
    code, _, err = hpo(capsys, "serach")
    assert (code, "did you mean 'search'?" in err) == (2, True)


def test_the_ui_without_runs_is_refused(capsys):
    code, _, err = hpo(capsys, "ui")
    assert (code, "no runs yet" in err) == (2, True)


def test_a_frozen_configuration_that_is_no_mapping(capsys):
    Path("list.yaml").write_text(json.dumps([1, 2]))
    code, _, err = hpo(capsys, "search", "--config", "list.yaml")
    assert (code, "mapping" in err) == (2, True)
