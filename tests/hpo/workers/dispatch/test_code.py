"""An objective's code travels: Python files, and what its package declares as its data; nothing else of it."""

import sys
from pathlib import Path

import pytest

from hpo.errors import DispatchError
from hpo.workers.dispatch import code
from hpo.workers.dispatch.code import Code, code_of, describe, refuse_unlike, staged
from hpo.workers.objective.resolution import resolve


@pytest.fixture
def working_directory(monkeypatch):
    files = {
        "travelling_helper.py": "A = 1",
        "travelling_other.py": "",
        "travelling_package/__init__.py": "",
        "travelling_package/train.py": "import travelling_helper\ndef run(config): return 1.0",
        "travelling_package/words.txt": "",
        "travelling_package/inner/__init__.py": "",
        "travelling_package/inner/data/table.csv": "",
        "travelling_package/.env": "",
        "travelling_package/.backup/train.py": "",
        "travelling_package/id_rsa": "",
        "travelling_single.py": "import travelling_helper\ndef run(config): return 1.0",
    }
    for name, text in files.items():
        Path(name).parent.mkdir(exist_ok=True, parents=True)
        Path(name).write_text(text)
    monkeypatch.syspath_prepend(str(Path.cwd()))
    yield str(Path.cwd())
    for name in [name for name in sys.modules if name.startswith("travelling")]:
        del sys.modules[name]


PACKAGE = {f"travelling_package/{name}" for name in ("__init__.py", "train.py", "inner/__init__.py")}
PACKAGE |= {"travelling_helper.py"}


def sent(working_directory):
    return code_of(resolve("travelling_package.train:run(config)", working_directory), working_directory)


@pytest.mark.parametrize(
    ("declared", "data"),
    [
        (None, ()),
        ('travelling_package = ["*.txt"]', ["words.txt"]),
        ('"*" = ["*.txt", "**/*.csv"]', ["words.txt", "inner/data/table.csv"]),
        ('"travelling_package.inner" = ["data/*"]', ["inner/data/table.csv"]),
        ('travelling_package = ["*"]', ["words.txt", "id_rsa"]),
        ('another_package = ["*"]', ()),
    ],
)
def test_of_a_package_the_python_files_go_and_its_declared_data_but_no_hidden_files(working_directory, declared, data):
    if declared is not None:
        Path("pyproject.toml").write_text(f"[tool.setuptools.package-data]\n{declared}\n")
    code = sent(working_directory)
    assert set(code.files) == PACKAGE | {f"travelling_package/{name}" for name in data}
    assert set(code.others) == {
        *(
            f"travelling_package/{name}"
            for name in ("words.txt", "inner/data/table.csv", ".env", "id_rsa", ".backup/train.py")
        )
    } - set(code.files)


def test_links_that_leave_the_package_or_the_working_directory_do_not_go(working_directory, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "other.py").touch()
    (elsewhere / "words.txt").touch()
    Path("pyproject.toml").write_text('[tool.setuptools.package-data]\ntravelling_package = ["*.txt", "*/*.txt"]\n')
    package = Path("travelling_package")
    (package / "linked.py").symlink_to(elsewhere / "other.py")
    (package / "linked.txt").symlink_to(elsewhere / "words.txt")
    (package / "folder").symlink_to(elsewhere)
    (package / "beside.txt").symlink_to(Path("travelling_other.py").absolute())
    (package / "same.txt").symlink_to("words.txt")
    Path("travelling_helper.py").unlink()
    Path("travelling_helper.py").symlink_to(elsewhere / "other.py")
    code = sent(working_directory)
    assert set(code.files) == PACKAGE - {"travelling_helper.py"} | {
        *(f"travelling_package/{name}" for name in ("words.txt", "same.txt"))
    }
    there = ("linked.py", "linked.txt", "folder/words.txt", "beside.txt")
    assert set(code.links) == {"travelling_helper.py", *(f"travelling_package/{name}" for name in there)}


def test_one_line_says_what_goes_and_what_does_not(working_directory):
    assert sent(working_directory).in_words() == (
        "your code goes to the nodes: 4 files, 1 KiB (travelling_helper.py, travelling_package/__init__.py, "
        "travelling_package/inner/__init__.py, ...); not sent: 5 other files of the package, such as "
        "travelling_package/id_rsa: declare needed files in pyproject.toml, [tool.setuptools.package-data]"
    )


@pytest.mark.parametrize(
    "text",
    [
        "[tool",
        "[tool]\nsetuptools = 1",
        *(f"[tool.setuptools.package-data]\na = {a}" for a in ("1", '"*"', '["../*"]')),
    ],
)
def test_a_declaration_that_cannot_be_read_is_refused(working_directory, text):
    Path("pyproject.toml").write_text(text)
    with pytest.raises(DispatchError, match=r"pyproject\.toml: .*package-data must have lists|cannot be read"):
        sent(working_directory)


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
    monkeypatch.setattr(code, "MOST_BYTES", 10)
    Path("large.py").write_text("x" * 20)
    with pytest.raises(DispatchError, match=r"move large\.py, the largest file, elsewhere, or do not"):
        staged(Code({"large.py": Path("large.py")})).__enter__()


@pytest.mark.parametrize("name", ["Python", "torch", "hpo"])
def test_a_node_with_another_version_is_refused_with_both(name):
    here, node = describe(None), {"node": "n1"}
    refuse_unlike(here, here | node)
    with pytest.raises(
        DispatchError, match=rf"node n1 must have the same {name} .*{here[name].split()[0]}.*, given 0\.1;"
    ):
        refuse_unlike(here, here | node | {name: "0.1"})


def test_an_installed_package_of_other_code_is_refused():
    here = describe("tests")
    with pytest.raises(DispatchError, match=r"node n1 must have the same tests .* of code .*given of code 123"):
        refuse_unlike(here, here | {"tests": "of code 123", "node": "n1"})
