"""The table of faults in docs/explanation/faults.md names tests that there are, and says which of them are slow."""

import ast
import re

from tests.studies import REPOSITORY


def is_slow(test, file):
    """Return whether a test carries the mark itself, or its whole file does (`pytestmark = [...]`)."""
    assigned = [
        node for node in file.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
    ]
    marks = [*test.decorator_list, *(mark for node in assigned for mark in getattr(node.value, "elts", [node.value]))]
    return any(ast.unparse(mark) == "pytest.mark.slow" for mark in marks)


def test_every_test_that_the_table_of_faults_names_exists_and_is_as_slow_as_it_says():
    named = re.findall(r"`([\w/]+\.py)::(\w+)`( \(slow\))?", (REPOSITORY / "docs/explanation/faults.md").read_text())
    assert len(named) > 30
    for file, name, slow in named:
        path = REPOSITORY / (file if file.startswith("tests/") else f"tests/faults/{file}")
        tree = ast.parse(path.read_text())
        tests = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert name in tests, f"{file} has no {name}"
        assert is_slow(tests[name], tree) == bool(slow), f"{file}::{name}"
