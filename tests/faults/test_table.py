"""The table of faults in docs/faults.md names tests that there are."""

import ast
import re

from tests.studies import REPOSITORY


def test_every_test_that_the_table_of_faults_names_exists():
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", (REPOSITORY / "docs/faults.md").read_text())
    assert len(named) > 30
    for file, name in named:
        path = REPOSITORY / (file if file.startswith("tests/") else f"tests/faults/{file}")
        tests = {node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)}
        assert name in tests, f"{file} has no {name}"
