"""What the documents say of the repository: its version, its rooms, and what contributors are sent to."""

import re
import tomllib

import yaml

import hpo
from tests.documentation.blocks import blocks_of
from tests.studies import REPOSITORY


def test_the_example_of_the_landing_page_is_the_one_that_is_run():
    shown = next(block.body for block in blocks_of("README.md") if block.language == "python")
    run = next(block.body for block in blocks_of("docs/tutorials/own_trainer.md") if block.file == "tune.py")
    assert run.startswith(shown)


def test_the_tree_names_every_room():
    tree = next(block.body for block in blocks_of("docs/explanation/design.md") if block.body.startswith("hpo/"))
    named = set(re.findall(r"[\w.]+(?:/|\.py)", tree))
    for package in ("hpo", "model"):
        folder = REPOSITORY / package
        rooms = {f"{path.name}/" for path in folder.iterdir() if path.is_dir() and path.name != "__pycache__"}
        rooms |= {path.name for path in folder.glob("*.py") if not path.name.startswith("__")}
        assert rooms <= named
    for path in (REPOSITORY / "hpo" / "engine").iterdir():
        assert path.name.startswith("__") or {path.name, f"{path.name}/"} & named, path


def test_one_version_stands_everywhere():
    version = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["version"]
    assert yaml.safe_load((REPOSITORY / "CITATION.cff").read_text())["version"] == version
    headings = re.findall(r"^## ([\d.]+)", (REPOSITORY / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings == [version]
    assert hpo.__version__ == version


def test_what_the_documents_for_contributors_name_is_there():
    for name in ("CONTRIBUTING.md", "SECURITY.md"):
        text = (REPOSITORY / name).read_text()
        for path in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
            assert (REPOSITORY / path).exists(), f"{name}: {path}"
    for path in re.findall(
        r"`((?:hpo|model|conf|tests|\.github)/[\w./-]*)`", (REPOSITORY / "CONTRIBUTING.md").read_text()
    ):
        assert (REPOSITORY / path).exists(), path


def test_every_benchmark_that_a_text_names_is_there():
    texts = [REPOSITORY / "README.md", *(REPOSITORY / "docs").rglob("*.md"), *(REPOSITORY / "benchmarks").rglob("*.md")]
    for text in texts:
        for module in re.findall(r"-m (benchmarks(?:\.\w+)+)", text.read_text()):
            assert (REPOSITORY / f"{module.replace('.', '/')}.py").is_file(), f"{text}: {module}"
        for path in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text.read_text()) if "benchmarks" in text.parts else ():
            assert (text.parent / path).exists(), f"{text}: {path}"


def test_every_question_of_the_benchmarks_has_its_text_and_its_line():
    listed = (REPOSITORY / "benchmarks" / "README.md").read_text()
    for folder in (REPOSITORY / "benchmarks").iterdir():
        if folder.is_dir() and folder.name not in ("shared", "__pycache__"):
            assert (folder / "README.md").is_file()
            assert f"({folder.name}/README.md)" in listed
