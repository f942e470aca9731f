"""`hpo new`: files to begin with."""

from pathlib import Path

import pytest

import hpo
from hpo.cli.main import main
from tests.hpo.cli.commands import refused

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
