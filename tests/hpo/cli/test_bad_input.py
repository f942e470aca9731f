"""Bad input: one line on standard error that says where, what and what else; exit code 2; nothing created.

`bad_input_cases.py` has the table of what is given to `hpo search`; here are the other commands, and what is not input.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from hpo.cli.main import main
from hpo.commands.search import search
from hpo.config import documents
from hpo.errors import ConfigError
from tests.faults.driver import LOCAL
from tests.hpo.cli.bad_input_cases import CASES, DATA, QUICK, TABLES
from tests.hpo.cli.commands import hpo, refused
from tests.studies import environment

# What only the data, or whoever answers at an address, can tell: `--cfg job` prints these.
NEED_MORE = ("more folds than examples of a class", "nobody at the address")


def create(files):
    for name, content in files.items():
        if name.endswith(".py"):
            sys.modules.pop(name.removesuffix(".py"), None)  # of a test before, in another folder
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return snapshot()


def snapshot():
    """Return every file with its content; what importing writes beside a module is none of ours."""
    files = [path for path in Path().rglob("*") if "__pycache__" not in path.parts]
    return {str(path): path.read_bytes() if path.is_file() else None for path in files}


def refused_with(capsys, words, *arguments):
    """Run the command and fail where it does not refuse its input with these words."""
    err = refused(capsys, *arguments)
    assert err.rstrip("\n").isprintable()
    for word in words:
        assert word in err


@pytest.mark.quick(*QUICK)
@pytest.mark.nightly
@pytest.mark.parametrize("case", CASES)
def test_one_line_exit_code_2_and_nothing_created(capsys, monkeypatch, case):
    arguments, words, *files = CASES[case]
    monkeypatch.syspath_prepend(str(Path.cwd()))
    before = create(files[0] if files else {})
    given = {argument.partition("=")[0].partition(".")[0] for argument in arguments}
    harmless = [f"{group}={name}" for group, name in (("dispatch", "local"), ("track", "none")) if group not in given]
    refused_with(capsys, words, "search", *harmless, *arguments)
    assert snapshot() == before


@pytest.mark.quick("unknown key", "a negative seed", "no such folder", "nothing in it")
@pytest.mark.nightly
@pytest.mark.parametrize("case", [case for case in CASES if case not in (*DATA, *TABLES, *NEED_MORE)])
def test_a_configuration_that_is_refused_is_not_printed_either(capsys, monkeypatch, case):
    arguments, words, *files = CASES[case]
    monkeypatch.syspath_prepend(str(Path.cwd()))
    before = create(files[0] if files else {})
    refused_with(capsys, words, "search", *arguments, "--cfg", "job")
    assert snapshot() == before


def other_model(study):
    """Another model's files in the winner's place, whole and fitting together."""
    winner, other = study / "checkpoints/trial_0000", Path("other")
    assert main(["train", "model.num_layers=1", "model.d_model=8", "training.epochs=1", "study.name=other"]) == 0
    (trained,) = Path("runs").glob("train-other-*/checkpoint")
    shutil.move(trained, other)
    shutil.rmtree(winner)
    other.rename(winner)


def write(name, content):
    return lambda study: (study / name).write_text(content)


def published(name, content):
    def prepare(study):
        (study / "study.db").unlink()
        write(name, content)(study)

    return prepare


# The command, the words, and what was done to the finished study `made` before.
OF_A_STUDY = {
    "a test of another model": (["test", "made"], ["was replaced", "hpo resume made"], other_model),
    "a prediction of another model": (
        ["predict", "made", "--input", "rows.txt"],
        ["has no final model of its winner", "hpo resume made"],
        other_model,
    ),
    "a resume under another model": (
        ["resume", "made", "model.d_model=8"],
        ["model.d_model was 16 and is now 8"],
        None,
    ),
    "a resume with fewer trials": (["resume", "made", "study.trials=0"], ["study.trials", "given 0"], None),
    "a resume of a key that is not there": (["resume", "made", "model.width=8"], ["model.width", "no such key"], None),
    "a resume of broken YAML": (["resume", "made"], ["config.yaml:2:1", "YAML"], write("config.yaml", "a: [")),
    "a resume of a list": (["resume", "made"], ["must be a mapping"], write("config.yaml", "- 1")),
    "a resume of half a study": (["resume", "made"], ["is missing"], write("config.yaml", "study: {name: x}")),
    "a study of no name": (["resume", ""], ["no ''"], None),
    "a study of 5,000 letters": (["resume", "x" * 5000], ["there are made"], None),
    "a study with a NUL": (["resume", "a\0b"], ["there are made"], None),
    **{
        f"a {command} of a study that is not there": ([command, "nothing"], ["no 'nothing'", "there are made"], None)
        for command in ("resume", "report", "test", "sync")
    },
    "a sync to a folder": (["sync", "made", "track.uri=file:./x"], ["track.uri", "sqlite:///mlflow.db"], None),
    "a trial that is not there": (["reproduce", "made", "--trial", "99"], ["trial:", "(0)", "'99'"], None),
    "a fold that is not there": (["reproduce", "made", "--folds", "9"], ["folds:", "[9]"], None),
    "a fold that is a word": (["reproduce", "made", "--folds", "x"], ["--folds", "'x'"], None),
    "a tolerance above one": (["reproduce", "made", "--tolerance", "5"], ["tolerance:", "5.0"], None),
    "a tolerance that is no number": (["reproduce", "made", "--tolerance", "nan"], ["tolerance:", "nan"], None),
    "a run without MLflow": (["reproduce", "runs:/abc"], ["uri:", "no file mlflow.db"], None),
    "a report that is no JSON": (["reproduce", "made"], ["report.json:1:2", "JSON"], write("report.json", "{")),
    "a report of another shape": (
        ["reproduce", "made"],
        ["'files'"],
        write("report.json", '{"format": 1, "files": [1]}'),
    ),
    "a table of other columns": (
        ["compare", "made", "made"],
        ["trials.csv", "no column"],
        published("trials.csv", "a\n1\n"),
    ),
    "one study to compare": (["compare", "made"], ["two or more", "made"], None),
    "one study twice": (["compare", "made", "made"], ["given 'made' twice"], None),
    "one strategy": (["compare", "--strategies", "random"], ["strategies:", "two or more"], None),
    "repeats that are a word": (["compare", "--strategies", "random,grid", "--repeats", "x"], ["--repeats"], None),
    "a storage of no kind": (["export", "made", "--optuna", "foo://x"], ["optuna:", "foo://x"], None),
    "no storage": (["export", "made"], ["--optuna", "hpo export --help"], None),
    "an import of nothing": (["import", "x"], ["optuna, ray, csv", "given none"], None),
    "an import over a study": (["import", "made", "--csv", "rows.txt"], ["already exists"], None),
    "an import from no file": (["import", "x", "--csv", "missing.csv"], ["csv:", "missing.csv"], None),
    "an import from no folder": (["import", "x", "--ray", "missing", "--metric", "loss"], ["ray:", "missing"], None),
    "an import from no database": (["import", "x", "--optuna", "sqlite:///no.db"], ["no file no.db"], None),
    "a model that is not there": (["predict", "nothing", "--input", "rows.txt"], ["model:", "'nothing'"], None),
    "a folder that is no model": (
        ["predict", "runs", "--input", "rows.txt"],
        ["runs", "not a usable checkpoint"],
        None,
    ),
    "a model of 5,000 letters": (["predict", "x" * 5000, "--input", "rows.txt"], ["model:"], None),
    "an input that is not there": (["predict", "made", "--input", "missing.txt"], ["--input", "missing.txt"], None),
    "an input that is not UTF-8": (["predict", "made", "--input", "latin.txt"], ["--input", "UTF-8"], None),
    "an input of nothing": (["predict", "made", "--input", "empty.txt"], ["--input", "empty"], None),
    "an input that is no row": (["predict", "made", "--input", "words.txt"], ["rows of numbers"], None),
    "an option that is a word": (["predict", "made", "--input", "rows.txt", "--top-k", "x"], ["--top-k"], None),
    "an output that is a folder": (
        ["predict", "made", "--input", "rows.txt", "--output", "runs"],
        ["output:", "folder"],
        None,
    ),
    "an output of no kind": (["attention", "made", "--text", "a", "--output", "x.gif"], ["output:", ".png"], None),
    "an unknown key of a training": (
        ["train", "foo=1"],
        ["foo: there is no such key; see `hpo train --cfg job`"],
        None,
    ),
    "a training for no metric": (["train", "study.metric=bleu"], ["study.metric", "accuracy"], None),
    "a port that is a word": (["ui", "--port", "x"], ["--port"], None),
    "no runs to show": (["ui"], ["no runs yet"], None),
    "a command that is not there": (["serach"], ["did you mean 'search'?"], None),
    "a command in capitals": (["Search"], ["did you mean 'search'?"], None),
    "publish": (["publish", "x"], ["use `hpo report --publish`"], None),
    "delete": (["delete", "x"], ["use `hpo remove`: delete studies"], None),
    "status": (["status"], ["use `hpo show`"], None),
    "plot": (["plot"], ["use `hpo report`"], None),
}


@pytest.mark.parametrize("case", OF_A_STUDY)
def test_the_other_commands_refuse_as_plainly(capsys, study, case):
    arguments, words, prepare = OF_A_STUDY[case]
    create({"rows.txt": "1 2 3\n", "latin.txt": b"\xff\xfe\n", "empty.txt": "", "words.txt": "so be it\n"})
    if prepare is not None:
        prepare(study)
    refused_with(capsys, words, *arguments)
    # A record that is looked at leaves a lock and SQLite's own files; nothing else may come.
    assert {path.name for path in Path().iterdir()} == {"runs", "rows.txt", "latin.txt", "empty.txt", "words.txt"}
    assert {path.name for path in Path("runs").iterdir() if not path.name.startswith("train-other-")} == {"made"}


@pytest.mark.parametrize("arguments", [("search",), ("train",), ("search", "--cfg", "job"), ("resume", "made")])
def test_a_python_that_leaves_out_assertions_is_refused(capsys, monkeypatch, study, arguments):
    monkeypatch.setattr(documents, "flags", SimpleNamespace(optimize=1))
    before = snapshot()
    refused_with(capsys, ("Python: runs without assertions", "PYTHONOPTIMIZE"), *arguments)
    with pytest.raises(ConfigError, match="assertions"):
        search(lambda config: 1.0, {"x": [1, 2]}, direction="maximize", progress=False)
    assert snapshot() == before


def test_an_experiment_that_was_deleted_is_refused(capsys):
    import contextlib
    import sqlite3

    # As MLflow has the table; writing it by MLflow itself takes seconds.
    with contextlib.closing(sqlite3.connect("mlflow.db")) as database, database:
        database.execute("CREATE TABLE experiments (experiment_id INTEGER, name TEXT, lifecycle_stage TEXT)")
        database.execute("INSERT INTO experiments VALUES (1, 'gone', 'deleted'), (2, 'there', 'active')")
    arguments = ("search", "dispatch=local", "track=mlflow", "study.trials=0")
    refused_with(capsys, ["study.trials"], *arguments, "track.experiment=there")
    refused_with(capsys, ["track.experiment: 'gone' was deleted"], *arguments[:-1], "track.experiment=gone")
    assert not Path("runs").exists()


def process(*arguments, **environment):
    """Run the console script as a person does: its exit code, its output and its errors as bytes."""
    command = [sys.executable, "-m", "hpo.cli.main", *arguments]
    done = subprocess.run(command, capture_output=True, env=os.environ | environment, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


def test_arguments_that_are_no_utf_8_are_quoted_in_bytes():
    code, out, err = process("search", b"study.name=\xff\xfe")
    assert (code, out) == (2, b"")
    assert err == b"error: command line: b'study.name=\\xff\\xfe' is not UTF-8; give it in UTF-8\n"


def test_a_terminal_of_another_encoding_gets_the_line_all_the_same():
    code, _, err = process("resume", "größe", LC_ALL="C", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert code == 2
    assert err.startswith(b"error: study: there is no 'gr")
    assert b"Traceback" not in err


@pytest.mark.quick("arguments0")
@pytest.mark.nightly
@pytest.mark.parametrize("arguments", [["--help"], ["search", "--cfg", "job"]])
def test_a_reader_that_leaves_early_is_no_fault(arguments):
    """`hpo --help | head -1`: the pipe is closed before the first line is written."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "hpo.cli.main", *arguments],
        stdout=writer,
        stderr=subprocess.PIPE,
        timeout=60,
        check=False,
    )
    os.close(writer)
    assert done.stderr == b""
    # As with a signal of a broken pipe; argparse itself passes over it.
    assert done.returncode in (0, 141)


@pytest.mark.quick("arguments0")
@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["--help"], ["search", "objective=tests.toy:score", *LOCAL]])
def test_an_output_that_is_full_is_named(arguments):
    """And no file of ours, of which there may be none yet."""
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "hpo.cli.main", *arguments]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, env=environment(), timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.count(b"\n") == 1
    assert b"standard output: No space left on device; " in done.stderr


@pytest.mark.nightly
def test_an_output_that_is_closed_is_no_fault():
    command = f"{sys.executable} -m hpo.cli.main search --cfg job >&-"
    done = subprocess.run(command, shell=True, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.quick("arguments0")
@pytest.mark.nightly
@pytest.mark.parametrize("arguments", [["--help"], ["search", "model.num_heads=7"]])
def test_a_terminal_of_twenty_columns_shows_everything(arguments):
    code, out, err = process(*arguments, COLUMNS="20", LINES="5")
    wide = process(*arguments, COLUMNS="200")
    assert code in (0, 2)
    assert (out + err).split() == (wide[1] + wide[2]).split()
    assert b"Traceback" not in err


@pytest.mark.nightly
def test_a_study_runs_on_a_terminal_of_twenty_columns(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    code, out, err = hpo(capsys, "search", "objective=tests.toy:score", *LOCAL, "study.trials=1")
    assert code == 0, err
    assert "winner" in out
