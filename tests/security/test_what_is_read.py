"""Nothing that is read back runs code or explodes: no pickles, no `_target_`, no YAML or JSON bombs."""

import re
import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hpo.config.documents import parse_yaml, yaml_text
from hpo.errors import DocumentError
from tests.hpo.cli.commands import hpo
from tests.studies import REPOSITORY, refuses

# What would run what it reads, next to the calls that ruff refuses: of pickle and its like (S301), and eval (S307).
RUNS_CODE = r"torch\.load|joblib\.load|instantiate\(|exec\(|__import__\(|allow_pickle=True|(unsafe|full)_load"


def test_no_source_calls_what_runs_what_it_reads():
    files = [path for package in ("hpo", "model") for path in (REPOSITORY / package).rglob("*.py")]
    sources = [(path.name, path.read_text()) for path in files]
    assert [name for name, text in sources if re.search(rf"\b({RUNS_CODE})", text)] == []
    # Functions that this user gave from Python, or trusted.
    assert [name for name, text in sources if "noqa: S30" in text] == ["pickled_function.py"]
    # The strict loader of YAML; the shipped defaults are read by PyYAML's safe one.
    assert [name for name, text in sources if "yaml.load(" in text] == ["documents.py"]


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
    commands += [["train", "--config", "whole.yaml"], ["report", "made"]]
    commands += [["resume", "made"], ["compare", "made", "made"], ["predict", "trained", "--input", "whole.yaml"]]
    hpo(capsys, "search", "--config", "missing.yaml")  # What is imported is not what is measured.
    for command in commands:
        began = time.process_time()
        code, _, err = hpo(capsys, *command)
        seconds = time.process_time() - began
        assert (code, err.startswith("error: ")) == (2, True), command
        assert seconds < 1, command
    assert not Path("executed").exists()


@pytest.mark.parametrize("file", ["report.json", "environment.json", "trials.csv", "test.json"])
def test_json_that_explodes_is_refused(capsys, study, file):
    (study / file).write_text("[" * 100_000)
    for command in (["reproduce", "made", "--folds", "0"], ["compare", "made", "made"], ["report", "made"]):
        code, _, err = hpo(capsys, *command)
        assert code in (0, 2)
        assert code == 0 or (err.startswith("error: ") and err.count("\n") == 1)


@settings(max_examples=50)
@given(st.text(st.characters(exclude_categories=["Cs"])))
@example("a\x85b\u2028c\u2029d")
def test_every_text_comes_back_from_yaml(text):
    assert parse_yaml(yaml_text({"a": [text], "b": {"c": text}}), "file") == {"a": [text], "b": {"c": text}}


@pytest.mark.parametrize(("text", "words"), [
    ("a: 1\nb: 2\na: 3", r"file:3:1.*'a' is listed twice"), ("a:\n  b: 1\n  b: 2", r"file:3:3.*'b' is listed twice"),
    ("a: &b {c: 1}\nd: {<<: *b}", r"file:2:9: '\*b' is an alias"),
    ("a: &b {c: 1}\nd: *b", r"file:2:4: '\*b' is an alias.*write the value itself"),
    ("a: 1\n---\nb: 2\n", "file:2:1.*another document"), ("a: {1: x}\n", "file:1:5.*in quotes"),
    ("a: !!binary aGk=", r"file:1:4.*binary"), (f"a: {':'.join(['59'] * 2000)}.0", "too large")
])  # fmt: skip
def test_faults_in_yaml_have_line_and_column(text, words):
    refuses(DocumentError, words, parse_yaml, text, "file")
