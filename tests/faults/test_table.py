"""The tables of docs/explanation/faults.md name existing tests, each once and with its marker."""

import ast
import re

from tests.conftest import TIERS
from tests.studies import REPOSITORY


def tier_of(test, file):
    """Return the first tier that has a case of the test, by its own marks or those of its whole file (`pytestmark`)."""
    assigned = [
        node for node in file.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
    ]
    marks = [*test.decorator_list, *(mark for node in assigned for mark in getattr(node.value, "elts", [node.value]))]
    names = {ast.unparse(getattr(mark, "func", mark)).removeprefix("pytest.mark.") for mark in marks}
    # Cases that no mark names are quick, unless a mark is for all.
    bare = {ast.unparse(mark).removeprefix("pytest.mark.") for mark in marks}
    return next((tier for tier in TIERS if tier in names and bare & {*TIERS}), "quick")


def test_every_test_that_the_tables_of_faults_name_exists_is_named_once_and_runs_when_they_say():
    page = (REPOSITORY / "docs/explanation/faults.md").read_text()
    named = re.findall(r"`([\w/]+\.py)::(\w+)`(?: \((slow|nightly)\))?", page)
    assert len(named) > 30
    assert len({test[:2] for test in named}) == len(named)
    for file, name, tier in named:
        path = REPOSITORY / (file if file.startswith("tests/") else f"tests/faults/{file}")
        tree = ast.parse(path.read_text())
        tests = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert name in tests, f"{file} has no {name}"
        assert tier_of(tests[name], tree) == (tier or "quick"), f"{file}::{name}"
