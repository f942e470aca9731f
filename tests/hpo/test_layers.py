"""The import law: which room may import which, read from the source; and what a fresh interpreter loads."""

import ast
import json
import subprocess
import sys

import pytest

from tests.studies import REPOSITORY

# Each room may import itself and the rooms named here. What is imported inside functions counts too.
LAW = {
    "errors": set(),
    "markdown": set(),
    "keys": set(),
    "page": set(),
    "dimensions": set(),
    "constraints": {"dimensions", "errors"},
    "space": {"constraints", "dimensions"},
    "first_points": {"dimensions", "errors", "keys", "space"},
    "space_reader": {"constraints", "dimensions", "errors", "first_points", "keys", "space"},
    "examples": {"errors"},
    "config_sections": set(),
    "config": {"config_sections", "errors", "keys", "sealing", "space"},
    "documents": {"errors"},
    "sealing": {"documents", "errors"},
    "splits": {"config_sections", "errors", "examples"},
    "trials": {"space"},
    "history": {"space", "trials"},
    "strategies": {"dimensions", "errors", "history", "keys", "space", "trials"},
    "objective": {"config", "errors", "examples", "machine", "origin", "own_place", "sealing"},
    "objectives": {"config", "errors", "keys"},
    "machine": {"errors"},
    "memory": set(),
    "worker": {"errors", "machine", "memory", "objective", "own_place", "reported", "sealing", "trials"},
    "dispatch": {"config_sections", "errors", "memory", "sealing", "trials", "worker"},
    "observer": {"dispatch", "trials"},
    "record": {"history", "reported", "space", "trials"},
    "record_checksum": set(),
    "record_guard": {"errors"},
    "record_rows": {"dimensions", "machine", "record_checksum", "record_guard", "space", "trials"},
    "storage": {"errors", "record_guard", "sealing"},
    "record_storage": {
        "errors",
        "machine",
        "record",
        "record_guard",
        "record_rows",
        "sealing",
        "space",
        "storage",
        "trials",
    },
    "record_recovery": {
        "errors",
        "machine",
        "record",
        "record_guard",
        "record_rows",
        "record_storage",
        "space",
        "storage",
        "trials",
    },
    "race": {"trials"},
    "round": {"dispatch", "observer", "race", "record", "trials"},
    "track": {"config", "dispatch", "documents", "errors", "objective", "observer", "sealing", "space", "trials"},
    "search": {"dispatch", "errors", "history", "observer", "race", "record", "round", "space", "strategies", "trials"},
    "tasks": {"config", "examples", "keys", "sealing", "splits", "trials"},
    "environment": {"errors", "sealing"},
    "folder": {"config", "documents", "errors"},
    "trials_file": {"dimensions", "errors", "space"},
    "imports": {"documents", "errors", "folder", "space", "trials", "trials_file"},
    "reproduce": {
        "changes",
        "dispatch",
        "documents",
        "environment",
        "errors",
        "folder",
        "keys",
        "preparation",
        "study",
        "trials",
        "trials_file",
    },
    "study_checks": {"config", "dimensions", "errors", "examples", "keys", "objective", "space", "strategies"},
    "changes": {"config", "errors", "keys", "record"},
    "source_code": set(),
    "prepared_data": {"objective", "record"},
    "study": {
        "changes",
        "config",
        "documents",
        "environment",
        "errors",
        "examples",
        "folder",
        "imports",
        "made_here",
        "objective",
        "prepared_data",
        "race",
        "record",
        "record_guard",
        "record_recovery",
        "record_storage",
        "sealing",
        "source_code",
        "space",
        "splits",
        "storage",
        "strategies",
        "tasks",
        "trials",
    },
    "preparation": {
        "changes",
        "config",
        "errors",
        "folder",
        "imports",
        "keys",
        "objective",
        "space",
        "space_reader",
        "splits",
        "strategies",
        "study",
        "study_checks",
        "trials",
    },
    "finalists": {"dispatch", "history", "record", "study", "trials"},
    "final": {"dispatch", "errors", "finalists", "record", "study", "tasks", "trials"},
    "report": {
        "dimensions",
        "documents",
        "errors",
        "final",
        "finalists",
        "first_points",
        "folder",
        "history",
        "imports",
        "keys",
        "markdown",
        "page",
        "record",
        "record_rows",
        "space",
        "study",
        "trials",
        "trials_file",
    },
    "report_alone": {"documents", "errors", "folder"},
    "default_model": {"errors", "study", "trials", "worker"},
    "final_test": {
        "default_model",
        "documents",
        "errors",
        "final",
        "finalists",
        "folder",
        "record",
        "search",
        "splits",
        "study",
        "tasks",
        "trials",
        "worker",
    },
    "tracking": {
        "final",
        "finalists",
        "history",
        "keys",
        "record",
        "report",
        "sealing",
        "search",
        "space",
        "study",
        "track",
        "trials",
    },
    "states": {"dispatch", "trials"},
    "run": {
        "dispatch",
        "final",
        "finalists",
        "history",
        "observer",
        "record",
        "report",
        "search",
        "states",
        "study",
        "track",
        "tracking",
        "trials",
    },
    "compare": {
        "config",
        "dispatch",
        "documents",
        "environment",
        "errors",
        "folder",
        "keys",
        "markdown",
        "observer",
        "page",
        "preparation",
        "record",
        "search",
        "space",
        "strategies",
        "study",
        "trials",
        "trials_file",
    },
    "train_once": {
        "config",
        "config_sections",
        "documents",
        "environment",
        "errors",
        "folder",
        "objective",
        "sealing",
        "splits",
        "study_checks",
        "tasks",
        "trials",
        "worker",
    },
    "exchange": {
        "documents",
        "errors",
        "folder",
        "keys",
        "report",
        "sealing",
        "space",
        "storage",
        "trials",
        "trials_file",
    },
    "integrations": {
        "config",
        "dimensions",
        "errors",
        "history",
        "keys",
        "space",
        "space_reader",
        "strategies",
        "trials",
    },
    "origin": {"errors"},
    "reported": set(),
    "study_copy": {"config", "errors", "folder", "keys", "record_storage", "space_reader", "storage"},
    "made_here": {"config"},
    "own_place": {"errors", "sealing"},
}
ONLY_IN = {
    "torch": {"model", "hpo/engine/strategies/optuna_study.py"},
    "ray": {"hpo/dispatch", "hpo/integrations/ray_tune.py"},
    "mlflow": {"hpo/track"},
    "matplotlib": {"hpo/report"},
    "plotly": {"hpo/compare", "hpo/report/pages/html.py", "hpo/report"},
    "optuna": {
        "hpo/report/figures",
        "hpo/exchange",
        "hpo/integrations/optuna.py",
        "hpo/engine/strategies/optuna_study.py",
        "hpo/engine/record/rows.py",
        "hpo/engine/record/storage.py",
        "hpo/engine/record/address.py",
    },
    "hydra": {"hpo/cli"},
    "omegaconf": {"hpo/cli"},
    "model": {"model"},
    "hpo": {"hpo"},
}
SOURCES = sorted(p for package in ("hpo", "model") for p in (REPOSITORY / package).rglob("*.py"))


def imported(path):
    """Yield the dotted name of everything that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names if node.module == "hpo")


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_imports_keep_the_law(path):
    place = path.relative_to(REPOSITORY)
    room = place.with_suffix("").parts[1] if place.parts[0] == "hpo" else None
    for name in imported(path):
        top = name.partition(".")[0]
        if top in ONLY_IN:
            assert any(str(place).startswith(allowed) for allowed in ONLY_IN[top]), f"{place} imports {name}"
        if room in LAW and name.startswith("hpo."):
            other = name.split(".")[1]
            assert other in {*LAW[room], room, "__version__"}, f"room {room} imports room {other} ({place})"


def test_every_room_stands_in_the_law():
    rooms = {p.stem for p in (REPOSITORY / "hpo").iterdir() if not p.name.startswith(("_", "py.typed", "."))}
    assert rooms == {*LAW, "cli"}


def loaded_by(code):
    script = f"import sys, json\n{code}\nprint(json.dumps(sorted({{m.partition('.')[0] for m in sys.modules}})))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=REPOSITORY)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_search_and_strategies_load_nothing_heavy():
    loaded = loaded_by("import hpo.engine.loop, hpo.strategies, hpo.worker")
    assert not loaded & {"torch", "ray", "mlflow", "hydra", "model", "sklearn"}


def test_strategies_load_no_optuna_before_one_asks_for_it():
    loaded = loaded_by("import hpo.engine.strategies, hpo.integrations, hpo.exchange")
    assert not loaded & {"optuna", "cmaes", "scipy", "torch", "ray", "pandas"}


def test_help_loads_nothing_heavy():
    loaded = loaded_by("from hpo.cli.main import main\nmain(['--help'])")
    assert not loaded & {"torch", "ray", "mlflow", "hydra", "optuna", "pandas", "numpy", "pydantic"}


def test_the_objective_module_loads_no_torch():
    assert "torch" not in loaded_by("import model.objective")
