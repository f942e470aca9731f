"""The suite itself: what it is strict about."""

import ast
import warnings

import pytest

from tests.studies import REPOSITORY

# Tests that need private names of ours: no run produces these messages of Ray on request.
WITH_PRIVATE_NAMES = {"tests/hpo/workers/dispatch/test_ray_pool.py"}
# Private names of libraries and of Python.
OF_LIBRARIES = {"_C", "_cuda_setDevice", "_exit", "_global_node", "_local_scalar_dense", "_private", "_processes"}
OF_LIBRARIES |= {"_raylet", "_replace", "_repr_html_", "_repr_mimebundle_", "_storage", "_study_id"}


def test_a_warning_inside_a_test_is_an_error():
    with pytest.raises(UserWarning, match="anything"):
        warnings.warn("anything", stacklevel=1)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_a_test_says_of_warnings_itself_holds():
    warnings.warn("anything", stacklevel=1)


def test_tests_use_no_private_names_of_ours():
    files = {path.relative_to(REPOSITORY).as_posix(): path for path in (REPOSITORY / "tests").rglob("*.py")}
    found = {name: private_names(ast.parse(path.read_text())) for name, path in files.items()}
    assert {name: names for name, names in found.items() if names and name not in WITH_PRIVATE_NAMES} == {}
    assert all(found[name] for name in WITH_PRIVATE_NAMES), "remove a file from the list when it needs no private name"


def private_names(tree):
    """Return the private names that a test imports from our packages, takes from an object, or replaces."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in ("hpo", "model"):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) not in ("self", "cls"):
            found.add(node.attr)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("setattr"):
            names = [each.value for each in node.args[:2] if isinstance(each, ast.Constant)]
            found |= {str(name).rpartition(".")[2] for name in names}
    return {name for name in found if name.startswith("_") and not name.endswith("__")} - OF_LIBRARIES
