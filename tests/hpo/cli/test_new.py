"""`hpo new`, and the page that has an objective's whole contract."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

import hpo
from hpo.cli.main import main
from hpo.workers.objective.objective import Objective
from hpo.workers.training.tasks import Payload
from tests.hpo.cli.commands import refused
from tests.studies import REPOSITORY

FILES = [Path("forest.py"), Path("my_conf/study/forest.yaml")]


def test_it_writes_two_files_names_what_comes_next_and_overwrites_nothing(capsys):
    FILES[1].parent.mkdir(parents=True)
    FILES[1].write_text("mine")
    assert "my_conf/study/forest.yaml: exists already" in refused(capsys, "new", "forest")
    assert (FILES[0].exists(), FILES[1].read_text()) == (False, "mine")
    FILES[1].unlink()
    assert main(["new", "forest"]) == 0
    next_line = "next:   hpo search --config-dir my_conf study=forest"
    assert capsys.readouterr().out.splitlines() == ["wrote forest.py and my_conf/study/forest.yaml", next_line]
    assert not any("NAME" in file.read_text() for file in FILES)
    with pytest.raises(hpo.HpoError, match="exists already"):
        hpo.new("forest")
    assert hpo.new("meadow").files[0] == Path("meadow.py")


@pytest.mark.parametrize("name", ["3x", "a-b", "class", "model", "hpo", "", "../x", "größe", "numpy", "json"])
def test_a_name_that_no_module_can_have_or_another_has_is_refused(name, capsys):
    says = refused(capsys, "new", name)
    assert says.startswith(("error: name: must be the name of a ", f"error: name: a module '{name}' exists already"))
    assert list(Path().iterdir()) == []


def named(heading):
    """Return the names in the first column of a section's table."""
    page = (REPOSITORY / "docs/extending/write_an_objective.md").read_text()
    section = page.partition(f"## {heading}")[2].partition("\n## ")[0]
    return {
        name.lower() for cell in re.findall(r"^\| (`.*?) \|", section, re.M) for name in re.findall(r"`(\w+)", cell)
    }


def test_the_page_has_every_key_of_a_task_and_every_optional_function():
    payload = Payload("a:b", {}, "loss", test=[0], curves=[])
    assert named("What `trial` and `task` have") == payload.task({}).keys() - {"objective"}
    # Only the toolkit's own modules have `code_keys`, `code_files` and REVISION.
    own = {"path", "run_fold", "pickled", "code_keys", "code_files", "revision"}
    assert named("What else") == {field.name for field in fields(Objective)} - own
