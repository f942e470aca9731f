"""The documents and the repository say the same: the reference, the site, terms, the version, and the folders."""

import re
import subprocess
import sys
import tomllib

import pytest
import yaml

import hpo
from docs.building.reference import pages, written
from hpo.config.composing.compose import compose_config
from hpo.config.keys import flatten
from tests.documentation.blocks import blocks_of
from tests.studies import REPOSITORY, environment

# The term to write, by the pattern of what it replaces.
TERMS = {
    r"\b(a|the|what|that|by) hands?\b(?! (out|on|over)\b)": "user action, or: the user",
    r"\btold apart\b": "significant, measurable difference",
    r"\bcourse of (a|the) search\b": "schedule",
    r"\b(freight|parcels?)\b": "transfer, files to transfer",
    r"\bcrews?\b": "worker group",
    r"\bglances?\b": "view",
    r"\b(looks?|looked|looking) on\b": "reader, read-only",
    r"\bsurroundings\b": "preflight checks",
    r"\bseal(s|ed|ing)?\b": "secret, redact",
    r"\bcompanions?\b": "optional functions",
    r"\bledgers?\b": "test log",
    r"\b(became|becomes|came) of\b": "outcome, result",
    r"\btrained to the end\b": "fully trained",
    r"\b(mended|repaired)\b": "fixed",
    r"\bgives up\b": "stops early",
    r"\bis counted in\b": "unit",
    r"\bkept functions?\b": "pickled function",
    r"\bopenings?\b(?= of (a|the|its|these) (test|data))": "test evaluation",
    r"\bbeside (a|the|all|its|this) (study|studies|record|folder)\b": "next to, with",
    r"\bwhoever\b": "the reader, the user, the driver",
}
PLACES = ("hpo/**/*.py", "model/**/*.py", "conf/**/*.yaml", "docs/**/*.md", "README.md", "CONTRIBUTING.md")


def test_the_pages_hold_the_generated_text():
    assert [page.stem for page in pages()] == ["commands", "configuration", "json", "python", "report"]
    for page in pages():
        assert page.read_text() == written(page.read_text()), "write it again: python -m docs.building.reference"


def test_the_reference_has_every_key_and_choice_of_the_configuration():
    page = (REPOSITORY / "docs/reference/configuration.md").read_text()
    for path in (REPOSITORY / "conf").glob("*/*.yaml"):
        assert f"{path.parent.name}={path.stem}" in page
    searched = [key for key in flatten(compose_config("search", [])) if not key.startswith("space.")]
    assert [key for key in searched if f"`{key}`" not in page] == []


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(REPOSITORY / "mkdocs.yml")]
    options = {"env": environment(), "capture_output": True, "text": True, "timeout": 300}
    done = subprocess.run([*command, "-d", str(tmp_path)], check=False, **options)
    assert done.returncode == 0, done.stderr
    for page in tmp_path.rglob("*.html"):
        loaded = re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="(https?:[^"]*)"', page.read_text())
        assert loaded == [], page


def test_replaced_terms_are_not_written():
    found = []
    for path in {path for place in PLACES for path in REPOSITORY.glob(place)}:
        text = path.read_text(encoding="utf-8")
        matches = [(re.search(old, text, re.IGNORECASE), new) for old, new in TERMS.items()]
        found += [f"{path.relative_to(REPOSITORY)}: {match[0]!r}: {new}" for match, new in matches if match]
    assert not found, "\n".join(found)


def test_the_tree_of_the_design_names_every_folder():
    tree = next(block.body for block in blocks_of("docs/explanation/design.md") if block.body.startswith("hpo/"))
    named = set(re.findall(r"[\w.]+(?:/|\.py)", tree))
    for package in ("hpo", "model"):
        folder = REPOSITORY / package
        folders = {f"{path.name}/" for path in folder.iterdir() if path.is_dir() and path.name != "__pycache__"}
        folders |= {path.name for path in folder.glob("*.py") if not path.name.startswith("__")}
        assert folders <= named
    for path in (REPOSITORY / "hpo" / "engine").iterdir():
        assert path.name.startswith("__") or {path.name, f"{path.name}/"} & named, path


def test_the_version_is_the_same_everywhere():
    version = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["version"]
    assert yaml.safe_load((REPOSITORY / "CITATION.cff").read_text())["version"] == version
    assert re.findall(r"^## ([\d.]+)", (REPOSITORY / "CHANGELOG.md").read_text(), re.MULTILINE) == [version]
    assert hpo.__version__ == version


def test_the_folders_that_contributors_are_sent_to_exist():
    text = (REPOSITORY / "CONTRIBUTING.md").read_text()
    for path in re.findall(r"`((?:hpo|model|conf|tests|\.github)/[\w./-]*)`", text):
        assert (REPOSITORY / path).exists(), path


def test_every_question_of_the_benchmarks_has_its_text_and_its_line():
    listed = (REPOSITORY / "benchmarks" / "README.md").read_text()
    folders = {path.name for path in (REPOSITORY / "benchmarks").iterdir() if path.is_dir()}
    for name in folders - {"shared", "__pycache__"}:
        assert (REPOSITORY / "benchmarks" / name / "README.md").is_file()
        assert f"({name}/README.md)" in listed
