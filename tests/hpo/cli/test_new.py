"""`hpo new`, and the page that has an objective's whole contract."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

import hpo
from hpo.cli.main import main
from hpo.workers.objective.objective import Objective
from hpo.workers.training.tasks import Payload
from tests.studies import REPOSITORY

PAGE = (REPOSITORY / "docs/extending/write_an_objective.md").read_text()


def test_what_it_writes_names_what_comes_next(capsys):
    assert main(["new", "forest"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "wrote forest.py and my_conf/study/forest.yaml",
        "next:   hpo search --config-dir my_conf study=forest",
    ]
    assert "NAME" not in Path("forest.py").read_text() + Path("my_conf/study/forest.yaml").read_text()


def test_from_python_it_writes_the_same():
    assert hpo.new("forest").files == [Path("forest.py"), Path("my_conf/study/forest.yaml")]
    with pytest.raises(hpo.HpoError, match="exists already"):
        hpo.new("forest")


def test_it_overwrites_nothing(capsys):
    Path("my_conf/study").mkdir(parents=True)
    Path("my_conf/study/forest.yaml").write_text("mine")
    assert main(["new", "forest"]) == 2
    assert "my_conf/study/forest.yaml: exists already" in capsys.readouterr().err
    assert not Path("forest.py").exists()
    assert Path("my_conf/study/forest.yaml").read_text() == "mine"


@pytest.mark.parametrize("name", ["numpy", "json"])
def test_a_name_that_a_module_has_is_refused(name, capsys):
    assert main(["new", name]) == 2
    assert f"a module '{name}' exists already" in capsys.readouterr().err
    assert not Path(f"{name}.py").exists()


@pytest.mark.parametrize("name", ["3x", "a-b", "class", "model", "hpo", "", "../x", "import", "größe"])
def test_a_name_that_no_module_can_have_is_refused(name, capsys):
    assert main(["new", name]) == 2
    assert capsys.readouterr().err.startswith("error: name: must be the name of a Python module")
    assert list(Path().iterdir()) == []


def named(heading):
    """Return the names in the first column of a section's table."""
    section = PAGE.partition(f"## {heading}")[2].partition("\n## ")[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return {name for cell in cells for name in re.findall(r"`(\w+)", cell)}


def test_the_page_has_every_key_of_a_task():
    payload = Payload("a:b", {}, "loss", test=[0], curves=[])
    assert named("What `trial` and `task` have") == payload.task({}).keys() - {"objective"}


def test_the_page_has_everything_that_a_module_may_offer():
    # Only the toolkit's own modules are asked for `code_keys`, `code_files` and REVISION.
    own = {"path", "run_fold", "pickled", "code_keys", "code_files", "revision"}
    offered = {field.name for field in fields(Objective)} - own
    assert {name.lower() for name in named("What else")} == offered
