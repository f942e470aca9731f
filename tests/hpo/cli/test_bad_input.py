"""Bad input: one line on standard error that says where, what and what else; exit code 2; nothing created."""

import contextlib
import functools
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from hpo.commands.given.settings import compose_search
from hpo.commands.search import search
from hpo.config import documents
from hpo.errors import ConfigError
from tests.faults.driver import LOCAL
from tests.hpo.cli.bad_input_cases import COMPOSED, LATER, OBJECTIVES
from tests.hpo.cli.commands import refused
from tests.studies import REPOSITORY, environment

GROUPS = {path.name for path in (REPOSITORY / "conf").iterdir() if path.is_dir()}


def create(files):
    for name, content in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return snapshot()


def snapshot():
    """Return every file with its content; what importing writes next to a module is none of ours."""
    files = [path for path in Path().rglob("*") if "__pycache__" not in path.parts]
    return {str(path): path.read_bytes() if path.is_file() else None for path in files}


def refuses(capsys, case, *command):
    arguments, *words = case
    before = create(words.pop() if isinstance(words[-1], dict) else {})
    err = refused(capsys, *command, *arguments)
    assert all(word in err for word in words), err
    assert snapshot() == before


@pytest.mark.parametrize("case", COMPOSED | OBJECTIVES)
def test_one_line_exit_code_2_and_nothing_created(capsys, monkeypatch, case):
    monkeypatch.syspath_prepend(str(Path.cwd()))
    refuses(capsys, (COMPOSED | OBJECTIVES)[case], "search")


@pytest.mark.parametrize("case", LATER)
def test_a_bad_value_data_file_or_address_is_one_line_too(capsys, case):
    arguments, *rest = LATER[case]
    groups = [argument for argument in arguments if argument.partition("=")[0] in GROUPS]
    Path("composed.yaml").write_text(composed(*groups))
    typed = [argument for argument in arguments if argument not in groups]
    refuses(capsys, (typed, *rest), "search", "--config", "composed.yaml")


@functools.cache
def composed(*groups):
    return yaml.safe_dump(compose_search(["dispatch=local", "track=none", *groups]), sort_keys=False)


def write(name, content):
    return lambda study: (study / name).write_text(content)


# The command, the words, and what was done to the finished study `made` before.
OTHERS = {
    "a resume under another model": (["resume", "made", "model.d_model=8"], "model.d_model was 16 and is now 8"),
    "a resume under another time": (["resume", "made", "study.trial_minutes=1"], "study.trial_minutes was None and"),
    "a resume of broken YAML": (["resume", "made"], "config.yaml:2:1", "YAML", write("config.yaml", "a: [")),
    "a report of no study": (["report", "nothing"], "no 'nothing'", "there are made"),
    "a sync to a folder": (["sync", "made", "track.uri=file:./x"], "track.uri", "sqlite:///mlflow.db"),
    "an unknown trial": (["reproduce", "made", "--trial", "99"], "trial:", "(0)", "'99'"),
    "an unknown fold": (["reproduce", "made", "--folds", "9"], "folds:", "[9]"),
    "a fold of no number": (["reproduce", "made", "--folds", "x"], "--folds: must be fold numbers"),
    "no tail": (["logs", "made", "0", "--tail", "0"], "tail: must be 1 or more"),
    "a negative wait": (["watch", "made", "--wait=-1"], "--wait: must be 0 or more seconds"),
    "a watch of nothing": (["watch"], "STUDY: is missing"),
    "MLflow at no port": (["ui", "--port", "0"], "--port: must be 1 to 65535"),
    "a report of nothing": (["report"], "STUDY: is missing"),
    "a key that no sync has": (["sync", "made", "study.trials=3"], "study.trials: has no effect on `hpo sync`"),
    "a model of nobody": (["predict", "nobody", "--input", "rows.txt"], "is neither a study nor a checkpoint folder"),
    "a list of no folder": (["list", "--in", "rows.txt"], "in: ", "cannot be read"),
    "a run without MLflow": (["reproduce", "runs:/abc"], "uri:", "mlflow.db"),
    "a report that is no JSON": (["reproduce", "made"], "report.json:1:2", "JSON", write("report.json", "{")),
    "one study twice": (["compare", "made", "made"], "given 'made' twice"),
    "an export to no storage": (["export", "made"], "--optuna", "hpo export --help"),
    "an import over a study": (["import", "made", "--csv", "rows.txt"], "already exists"),
    "a folder that is no model": (["predict", "runs", "--input", "rows.txt"], "runs", "not a usable checkpoint"),
    "an input of nothing": (["predict", "made", "--input", "empty.txt"], "input: ", "empty"),
    "an output of no kind": (["attention", "made", "--text", "a", "--output", "x.gif"], "output:", ".png"),
    "an unknown key of a training": (["train", "foo=1"], "foo: there is no such key; see `hpo train --cfg job`"),
    "publish": (["publish", "x"], "use `hpo report --publish`"),
    "a study of no name": (["resume", ""], "no ''"),
    "a resume with fewer trials": (["resume", "made", "study.trials=0"], "study.trials", "given 0"),
    "a resume of half a study": (["resume", "made"], "is missing", write("config.yaml", "study: {name: x}")),
    "a report of another shape": (["reproduce", "made"], "'files'", write("report.json", '{"format":1,"files":[1]}')),
    "repeats that are a word": (["compare", "--strategies", "random,grid", "--repeats", "x"], "--repeats"),
    "an input that is not UTF-8": (["predict", "made", "--input", "latin.txt"], "input: ", "UTF-8"),
    "an output that is a folder": (["predict", "made", "--input", "rows.txt", "--output", "runs"], "is a folder"),
    "an output that is a device": (["predict", "made", "--input", "rows.txt", "--output", "/dev/null"], "is a device"),
    "data of no key": (["reproduce", "made", "data.pth=x"], "KEY=PATH: KEY must be one of data.path", "'data.pth=x'"),
    "a title of no report": (["report", "made", "title=x"], "must be report.KEY=TEXT, given 'title=x'"),
    "a page at no port": (["watch", "--page", "--port", "70000"], "--port: must be 1 to 65535, given 70000"),
    "a page that waits": (["watch", "--page", "--wait", "9"], "--wait: has no effect without a study"),
    "a study that never comes": (["watch", "none", "--wait", "0.1"], "there is no 'none' under runs/"),
}


@pytest.mark.parametrize("case", OTHERS)
def test_the_other_commands_refuse_as_plainly(capsys, study, case):
    arguments, *words = OTHERS[case]
    files = {"rows.txt": "1 2 3\n", "latin.txt": b"\xff\xfe\n", "empty.txt": ""}
    create(files)
    if not isinstance(words[-1], str):
        words.pop()(study)
    err = refused(capsys, *arguments)
    assert all(word in err for word in words), err
    # Reading a record leaves a lock and SQLite's own files; nothing else may come.
    assert {path.name for path in [*Path().iterdir(), *Path("runs").iterdir()]} == {"runs", "made", *files}


@pytest.mark.parametrize("arguments", [("search",), ("train",), ("resume", "made")])
def test_a_python_that_leaves_out_assertions_is_refused(capsys, monkeypatch, study, arguments):
    monkeypatch.setattr(documents, "flags", SimpleNamespace(optimize=1))
    refuses(capsys, (arguments, "Python: runs without assertions", "PYTHONOPTIMIZE"))
    with pytest.raises(ConfigError, match="assertions"):
        search(lambda config: 1.0, {"x": [1, 2]}, direction="maximize", progress=False)


def test_an_experiment_that_was_deleted_is_refused(capsys):
    # As MLflow has the table; writing it by MLflow itself takes seconds.
    with contextlib.closing(sqlite3.connect("mlflow.db")) as database, database:
        database.execute("CREATE TABLE experiments (experiment_id INTEGER, name TEXT, lifecycle_stage TEXT)")
        database.execute("INSERT INTO experiments VALUES (1, 'gone', 'deleted'), (2, 'there', 'active')")
    arguments = ["dispatch=local", "track=mlflow"]
    refuses(capsys, ([*arguments, "study.trials=0", "track.experiment=there"], "study.trials"), "search")
    refuses(capsys, ([*arguments, "track.experiment=gone"], "track.experiment: 'gone' was deleted"), "search")


def process(*arguments, stdout=subprocess.PIPE, **variables):
    command = [sys.executable, "-m", "hpo.cli.main", *arguments]
    pipes = {"stdout": stdout, "stderr": subprocess.PIPE}
    done = subprocess.run(command, **pipes, env=environment() | variables, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


def test_arguments_that_are_no_utf_8_are_quoted_in_bytes():
    says = b"error: command line: b'study.name=\\xff\\xfe' is not UTF-8; give it in UTF-8\n"
    assert process("search", b"study.name=\xff\xfe") == (2, b"", says)


@pytest.mark.slow
def test_a_terminal_of_another_encoding_or_of_twenty_columns_gets_every_word():
    code, _, err = process("resume", "größe", LC_ALL="C", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert (code, err.startswith(b"error: study: there is no 'gr"), err.count(b"\n")) == (2, True, 1)
    narrow, wide = (process("--help", COLUMNS=columns) for columns in ("20", "200"))
    assert (narrow[0], narrow[1].split()) == (0, wide[1].split())


@pytest.mark.slow
def test_an_output_that_is_closed_is_no_fault():
    command = f"{sys.executable} -m hpo.cli.main search --cfg job >&-"
    done = subprocess.run(command, shell=True, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_reader_that_leaves_early_is_no_fault():
    """`hpo --help | head -1`: the pipe is closed before the first line is written."""
    reader, writer = os.pipe()
    os.close(reader)
    code, _, err = process("--help", stdout=writer)
    os.close(writer)
    # As with a signal of a broken pipe; argparse itself passes over it.
    assert (code in (0, 141), err) == (True, b"")


@pytest.mark.quick("--help")
@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["--help"], ["search", "objective=toys:score", *LOCAL]], ids=lambda a: a[0])
def test_an_output_that_is_full_is_named(arguments):
    with Path("/dev/full").open("w") as full:
        code, _, err = process(*arguments, stdout=full)
    assert (code, err.count(b"\n"), b"standard output: No space left on device; " in err) == (1, 1, True)
