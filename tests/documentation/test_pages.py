"""The documentation: every command and every block of code is run, and what cannot be run here is composed."""

import re
from pathlib import Path

import pytest
import yaml

from hpo.cli.main import COMMANDS, main
from tests.documentation.blocks import PAGES, blocks_of, follow
from tests.studies import REPOSITORY

# With something to run. README begins with what Start has, and the tests.
RUN = {"bash", "python"}
FOLLOWED = [page for page in PAGES if page.name != "README.md" and RUN & {block.language for block in blocks_of(page)}]
BLOCKS = [(page, block) for page in PAGES for block in blocks_of(page)]
SHOWN = [(page, block) for page, block in BLOCKS if block.language == "console" or page.name == "README.md"]
NOT_RUN = [(page, words) for page, block in SHOWN for words in block.commands()]
LINKING = [*PAGES, Path("CONTRIBUTING.md"), Path("SECURITY.md")]
LINKING += [path.relative_to(REPOSITORY) for path in (REPOSITORY / "benchmarks").rglob("*.md")]


@pytest.mark.nightly
@pytest.mark.parametrize("page", FOLLOWED, ids=str)
def test_a_reader_who_follows_a_page_gets_what_it_says(page):
    follow(page)


@pytest.mark.parametrize(("page", "words"), NOT_RUN, ids=lambda v: str(v) if isinstance(v, Path) else " ".join(v))
def test_a_command_that_is_not_run_here_is_one(page, words, capsys):
    command, *rest = words
    if command == "search":
        assert main([*words, "--cfg", "job"]) == 0
    assert main([command, "--help"]) == 0
    said = capsys.readouterr().out
    for option in (word.partition("=")[0] for word in rest if word.startswith("--")):
        assert option in said, option


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_its_code_compiles(page):
    for block in blocks_of(page):
        if block.language == "python":
            compile(block.body, str(page), "exec")
        elif block.language == "yaml":
            yaml.safe_load(block.body)


@pytest.mark.parametrize("page", LINKING, ids=str)
def test_its_links_and_benchmarks_exist(page):
    text = (REPOSITORY / page).read_text()
    for path in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", text):
        assert (REPOSITORY / page.parent / path).exists(), path
    for module in re.findall(r"-m (benchmarks(?:\.\w+)+)", text):
        assert (REPOSITORY / f"{module.replace('.', '/')}.py").is_file(), module


def test_every_command_is_shown():
    shown = {words[0] for _, block in BLOCKS for words in block.commands()}
    assert {word for word in shown if not word.startswith("-")} == set(COMMANDS)


def test_the_landing_page_fits_on_a_page_and_its_example_is_the_one_that_is_run():
    assert len((REPOSITORY / "README.md").read_text().splitlines()) <= 120
    shown = next(block.body for block in blocks_of("README.md") if block.language == "python")
    run = next(block.body for block in blocks_of("docs/tutorials/own_trainer.md") if block.file == "tune.py")
    assert run.startswith(shown)
