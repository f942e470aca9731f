"""The import law of libraries, and what importing loads. import-linter keeps the law of our own modules."""

import ast
import json
import re
import subprocess
import sys

import pytest

import hpo
from tests.studies import REPOSITORY

LIGHTNING = "hpo/integrations/lightning.py"
# Libraries that are heavy, or would bind us: each is imported in these folders alone.
ONLY_IN = {
    "torch": ("model", "hpo/engine/strategies/optuna_study.py", "hpo/integrations/transformers.py", LIGHTNING),
    "ray": ("hpo/workers/dispatch", "hpo/integrations/ray_tune.py"),
    "mlflow": ("hpo/track", "hpo/workers/training/own_lines.py"),
    **dict.fromkeys(("matplotlib", "plotly"), ("hpo/report",)),
    "jinja2": ("hpo/report/pages",),
    "optuna": ("hpo/report", "hpo/integrations", "hpo/engine/strategies", "hpo/trials/record", "hpo/trials/space"),
    **dict.fromkeys(("hydra", "omegaconf"), ("hpo/config/composing",)),
}
SOURCES = sorted(p for package in ("hpo", "model") for p in (REPOSITORY / package).rglob("*.py"))


def test_each_library_stays_in_its_folders():
    for path in SOURCES:
        if not re.search(rf"\b({'|'.join(ONLY_IN)})\b", path.read_text()):
            continue  # It need not be parsed.
        place = path.relative_to(REPOSITORY).as_posix()
        nodes = list(ast.walk(ast.parse(path.read_text())))
        names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
        names += [str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)]
        for library in {name.partition(".")[0] for name in names} & {*ONLY_IN}:
            assert place.startswith(ONLY_IN[library]), f"{place}: {library}"


def test_what_catches_every_error_or_is_not_checked_says_why():
    """Ruff wants a code of each; here the reason: in the line, or of an `except` in the one below."""
    bare = re.compile(r"(?m)# (type: ignore\[[\w-]+\]|noqa: (BLE|S)\d+)$|except (Base)?Exception( as \w+)?:\n *[^# ]")
    assert [(path, match[0]) for path in SOURCES for match in bare.finditer(path.read_text())] == []


def test_no_module_has_a_name_that_people_call():
    """`from hpo import search` is to give a function."""
    assert not {path.stem for path in (REPOSITORY / "hpo").iterdir()} & {*hpo.__all__}


def loaded_by(code):
    script = f"import sys, json\n{code}\nprint(json.dumps(sorted({{m.partition('.')[0] for m in sys.modules}})))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=REPOSITORY)
    return set(json.loads(done.stdout.splitlines()[-1]))


# Code, and what it does not load. A strategy asks for Optuna when it needs it.
NOT_LOADED = {
    "import hpo.engine.loop, hpo.engine.strategies, hpo.workers.training.worker, hpo.integrations.exchange": (
        "torch ray mlflow hydra model sklearn optuna cmaes scipy pandas"
    ),
    "import hpo.study.preparing.preparation, hpo.study.opening, hpo.track": "optuna sqlalchemy torch ray mlflow pandas",
    "from hpo.cli.main import main; main(['--help'])": "torch ray mlflow hydra optuna pandas numpy pydantic",
    "from hpo.cli.main import main; main(['list', '--in', 'studies'])": "pandas optuna torch numpy mlflow ray",
    "from hpo.cli.main import main; main(['search', 'model.num_heads=7'])": "torch ray mlflow optuna pandas scipy",
    "from hpo.cli.main import main; main(['resume', 'nothing'])": "torch ray mlflow optuna pandas hydra",
}


@pytest.mark.slow
@pytest.mark.parametrize("code", NOT_LOADED)
def test_what_is_not_needed_yet_is_not_loaded(code):
    assert not loaded_by(code) & {*NOT_LOADED[code].split()}
