"""Nothing that is read back runs code or explodes: no pickles, no `_target_`, no YAML or JSON bombs."""

import ast
import json
import os
import pickle
import re
import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hpo.config.documents import parse_json, parse_yaml, yaml_text
from hpo.errors import DocumentError
from tests.hpo.cli.commands import hpo
from tests.studies import REPOSITORY

SOURCES = sorted(p for package in ("hpo", "model") for p in (REPOSITORY / package).rglob("*.py"))
# What would run what it reads, by the last name of a call; `eval` is also what torch calls its mode of evaluation.
RUNS_CODE = {"exec", "__import__", "unsafe_load", "full_load", "unsafe_load_all"}
RUNS_CODE |= {"instantiate", "read_pickle", "Unpickler"}
RUNS_CODE_OF = {("torch", "load"), *((owner, None) for owner in ("pickle", "joblib", "shelve", "marshal", "dill"))}
# Functions that this user gave from Python, or trusted, are read, and values hashed.
PICKLED_FUNCTIONS = {("pickle", None), ("pickle", "loads"), ("joblib", None), ("joblib", "hash")}
ALLOWED = {"hpo/workers/objective/pickled_function.py": PICKLED_FUNCTIONS}
# Without one of these words a file has no such call, and need not be parsed.
SUSPECT = re.compile(rf"\b({'|'.join((*RUNS_CODE, *(owner for owner, _ in RUNS_CODE_OF), 'eval'))})\b")


class Canary:
    """Unpickling it makes a folder."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


def calls(path):
    """Yield (the name before the dot or None, the last name) of every call in a file, and every import."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            function = node.func
            if isinstance(function, ast.Attribute):
                yield (function.value.id if isinstance(function.value, ast.Name) else None), function.attr
            elif isinstance(function, ast.Name):
                yield None, function.id
        elif isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                yield alias.name.partition(".")[0], None
            if isinstance(node, ast.ImportFrom):
                yield (node.module or "").partition(".")[0], None


def test_no_source_calls_what_runs_what_it_reads():
    for path in SOURCES:
        if not SUSPECT.search(path.read_text()):
            continue
        for owner, name in {*calls(path)} - ALLOWED.get(path.relative_to(REPOSITORY).as_posix(), set()):
            assert name not in RUNS_CODE, f"{path}: {name}"
            assert {(owner, None), (owner, name)}.isdisjoint(RUNS_CODE_OF), f"{path}: {owner}.{name}"
            assert (owner, name) != (None, "eval"), f"{path}: eval"
    # The only loader of YAML is the strict one; the shipped defaults are read by PyYAML's safe one.
    assert [path.name for path in SOURCES if "yaml.load(" in path.read_text()] == ["documents.py"]


@pytest.mark.nightly
def test_pickles_in_every_folder_that_is_read_are_never_executed(capsys, tmp_path, study):
    """Each file is replaced by a pickle under its own name; others are next to it under names that libraries load."""
    assert hpo(capsys, "report", "made", "--publish")[0] == 0
    canary = tmp_path / "executed"
    evil = pickle.dumps(Canary(canary))
    # SQLite deletes -shm and -wal when it closes the database.
    files = [p for p in Path().rglob("*") if p.is_file() and not p.name.endswith(("-shm", "-wal"))]
    folders = {path.parent for path in files}
    assert {"data", "made", "trial_0000"} <= {folder.name for folder in folders}
    names = "data.pkl model.pt weights.bin state.pth tuner.pkl examples.npy config.pickle MLmodel"
    for path in (folder / name for folder in folders for name in names.split()):
        path.write_bytes(evil)
    Path("rows.txt").write_text("1 2 3\n")
    commands = [["resume", "made"], ["report", "made"], ["test", "made"], ["reproduce", "made"]]
    commands += [["reproduce", "studies/made"], ["export", "made", "--optuna", "sqlite:///o.db"]]
    commands += [["predict", "made", "--input", "rows.txt"]]
    for file in files:
        if not file.exists():
            # What workers had stored of the data went when the data was found changed, and was written anew.
            assert "encoded" in file.parts
            continue
        before = file.read_bytes()
        file.write_bytes(evil)
        for command in commands:
            hpo(capsys, *command)
            assert not canary.exists(), f"{command} executed {file}"
        file.write_bytes(before)
    pickle.loads(evil)
    assert canary.exists(), "the canary sings"


LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join(['*' + chr(97 + n)] * 9)}]\n" for n in range(12)
)
BOMBS = {
    "billion laughs": LAUGHS,
    "deep lists": "a: " + "[" * 100_000,
    "a value inside itself": "a: &a [*a]\n",
    "an object": "a: !!python/object/apply:os.mkdir [executed]\n",
    "a number without end": "a: 1" + "0" * 100_000,
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_yaml_bomb_ends_in_an_error_within_a_second(capsys, bomb):
    places = ("whole.yaml", "my/study/x.yaml", "runs/made/config.yaml", "trained/config.yaml", "trained/checkpoint/x")
    for path in map(Path, places):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(BOMBS[bomb])
    commands = [["search", "--config", "whole.yaml"], ["search", "--config-dir", "my", "study=x"]]
    commands += [["train", "--config", "whole.yaml"], ["resume", "made"], ["report", "made"]]
    commands += [["compare", "made", "made"], ["predict", "trained", "--input", "whole.yaml"]]
    hpo(capsys, "search", "--config", "missing.yaml")  # What is imported is not what is measured.
    for command in commands:
        began = time.process_time()
        code, _, err = hpo(capsys, *command)
        seconds = time.process_time() - began
        assert (code, err.startswith("error: ")) == (2, True), command
        assert seconds < 1, command
    assert not Path("executed").exists()


@pytest.mark.parametrize(
    ("file", "content"),
    [
        *((file, "[" * 100_000) for file in ("report.json", "environment.json", "trials.csv", "test.json")),
        *(("report.json", content) for content in ("1" * 10_000, "", '{"a": "\ud800"}')),
    ],
)
def test_json_that_explodes_or_is_no_object_is_refused(capsys, study, file, content):
    path = study / file
    path.write_text(content, errors="surrogatepass")
    for command in (["reproduce", "made", "--folds", "0"], ["compare", "made", "made"], ["report", "made"]):
        code, _, err = hpo(capsys, *command)
        assert code in (0, 2)
        assert code == 0 or (err.startswith("error: ") and err.count("\n") == 1)


def test_numbers_texts_lists_and_mappings_are_read_as_they_are():
    text = "a: 1\nb: [x, 2.5, null, true]\nc: {d: 2020-01-01, e: {f: 1}}\n"
    expected = {"a": 1, "b": ["x", 2.5, None, True], "c": {"d": "2020-01-01", "e": {"f": 1}}}
    assert parse_yaml(text, "file") == expected
    assert parse_json(json.dumps(expected), "file") == expected
    twice = {"lr": [0.1, 0.2]}
    assert parse_yaml(yaml_text({"a": twice, "b": twice}), "file") == {"a": twice, "b": twice}


@settings(max_examples=50)
@given(st.text(st.characters(exclude_categories=["Cs"])))
@example("a\x85b\u2028c\u2029d")
def test_every_text_comes_back_from_yaml(text):
    assert parse_yaml(yaml_text({"a": [text], "b": {"c": text}}), "file") == {"a": [text], "b": {"c": text}}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: 1\nb: 2\na: 3", r"file:3:1.*'a' is listed twice"),
        ("a:\n  b: 1\n  b: 2", r"file:3:3.*'b' is listed twice"),
        ("a: &b {c: 1}\nd: *b", r"file:2:4: '\*b' is an alias.*write the value itself"),
        ("a: &b {c: 1}\nd: {<<: *b}", r"file:2:9: '\*b' is an alias"),
        ("a: !!binary aGk=", r"file:1:4.*binary"),
        (f"a: {':'.join(['59'] * 2000)}.0", "too large"),
    ],
)
def test_faults_in_yaml_have_line_and_column(text, words):
    with pytest.raises(DocumentError, match=words):
        parse_yaml(text, "file")
