"""The site: built without a warning, with every key, command and field in it, and nothing loaded from elsewhere."""

import json
import re
import subprocess
import sys

import pytest

from hpo.cli.main import COMMANDS
from hpo.config.composing.compose import compose_config
from hpo.config.keys import flatten
from tests.studies import REPOSITORY, environment


@pytest.mark.slow
def test_it_builds_and_has_all_of_the_reference(tmp_path):
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "-f",
        str(REPOSITORY / "mkdocs.yml"),
        "-d",
        str(tmp_path),
    ]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr

    keys = (tmp_path / "reference/configuration/index.html").read_text()
    for path in (REPOSITORY / "conf").glob("*/*.yaml"):
        assert f"{path.parent.name}={path.stem}" in keys
    searched = [key for key in flatten(compose_config("search", [])) if not key.startswith("space.")]
    assert [key for key in searched if f"<code>{key}</code>" not in keys] == []
    assert "<code>command.line</code>" in keys
    commands = (tmp_path / "reference/commands/index.html").read_text()
    assert all(f"usage: hpo {command}" in commands for command in COMMANDS)
    fields = (tmp_path / "reference/report/index.html").read_text()
    schema = json.loads((REPOSITORY / "docs/reference/report.schema.json").read_text())
    assert all(f"<code>{name}</code>" in fields for name in schema["properties"])
    assert "minutes" in (tmp_path / "reference/python/index.html").read_text()

    for page in tmp_path.rglob("*.html"):
        loaded = re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="(https?:[^"]*)"', page.read_text())
        assert loaded == [], page
