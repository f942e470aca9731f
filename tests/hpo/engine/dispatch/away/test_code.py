"""An objective's code travels: its package without what git ignores, and what it imports from beside it."""

import subprocess
import sys
from pathlib import Path

import pytest

from hpo.engine.dispatch.away import code
from hpo.engine.dispatch.away.code import Code, code_of, staged
from hpo.engine.dispatch.away.likeness import describe, refuse_unlike
from hpo.engine.training.objective.resolution import resolve
from hpo.errors import DispatchError


@pytest.fixture
def working_directory(monkeypatch):
    files = {
        "travelling_helper.py": "A = 1",
        "travelling_other.py": "",
        "travelling_package/__init__.py": "",
        "travelling_package/train.py": "import travelling_helper\ndef run(config): return 1.0",
        "travelling_package/words.txt": "",
        "travelling_package/big.bin": "",
        "travelling_single.py": "import travelling_helper\ndef run(config): return 1.0",
        ".gitignore": "*.bin",
    }
    for name, text in files.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text)
    subprocess.run(["git", "init", "-q"], check=True)
    monkeypatch.syspath_prepend(str(Path.cwd()))
    yield str(Path.cwd())
    for name in [name for name in sys.modules if name.startswith("travelling")]:
        del sys.modules[name]


def test_a_package_goes_whole_with_what_it_imports_but_without_what_git_ignores(working_directory):
    objective = resolve("travelling_package.train:run(config)", working_directory)
    assert set(code_of(objective, working_directory).files) == {
        *("travelling_package/__init__.py", "travelling_package/train.py", "travelling_package/words.txt"),
        "travelling_helper.py",
    }


def test_a_module_goes_with_what_it_imports(working_directory):
    objective = resolve("travelling_single:run(config)", working_directory)
    files = code_of(objective, working_directory)
    assert set(files.files) == {"travelling_single.py", "travelling_helper.py"}
    with staged(files) as folder:
        assert sorted(path.name for path in folder.iterdir()) == ["travelling_helper.py", "travelling_single.py"]
    assert not folder.exists()


def test_of_the_toolkits_own_nothing_goes():
    with staged(code_of(resolve("model.objective:run_fold"), str(Path.cwd()))) as folder:
        assert folder is None


def test_too_much_is_refused_with_the_largest_file(monkeypatch):
    monkeypatch.setattr(code, "_MOST_BYTES", 10)
    Path("large.py").write_text("x" * 20)
    with pytest.raises(DispatchError, match=r"the largest file is large\.py: move it out, or name it in \.gitignore"):
        staged(Code({"large.py": Path("large.py")})).__enter__()


@pytest.mark.parametrize("name", ["Python", "torch", "hpo"])
def test_a_node_with_another_version_is_refused_with_both(name):
    here = describe(None)
    refuse_unlike(here, dict(here), "n1")
    with pytest.raises(DispatchError, match=rf"node n1 has {name} 0\.1, this machine {here[name].split()[0]}"):
        refuse_unlike(here, here | {name: "0.1"}, "n1")


def test_an_installed_package_of_other_code_is_refused():
    here = describe("tests")
    with pytest.raises(DispatchError, match="node n1 has tests of code 123, this machine of code"):
        refuse_unlike(here, here | {"tests": "of code 123"}, "n1")
