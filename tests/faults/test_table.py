"""The table of faults in docs/faults.md names tests that there are, and says which of them are slow."""

import ast
import re

from tests.studies import REPOSITORY


def is_slow(test):
    return any(ast.unparse(mark) == "pytest.mark.slow" for mark in test.decorator_list)


def test_every_test_that_the_table_of_faults_names_exists_and_is_as_slow_as_it_says():
    named = re.findall(r"`([\w/]+\.py)::(\w+)`( \(slow\))?", (REPOSITORY / "docs/faults.md").read_text())
    assert len(named) > 30
    for file, name, slow in named:
        path = REPOSITORY / (file if file.startswith("tests/") else f"tests/faults/{file}")
        tests = {node.name: node for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)}
        assert name in tests, f"{file} has no {name}"
        assert is_slow(tests[name]) == bool(slow), f"{file}::{name}"
