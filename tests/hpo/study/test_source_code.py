"""The code that a study rests on: every file of the toolkit that can decide a trial, and no other."""

import importlib
import re
import shutil
from pathlib import Path

import pytest
from hpo.study.basis.same_trials import SAME_TRIALS

import hpo
from hpo.engine.objective.objective import Objective
from hpo.engine.objective.source_files import digests_of
from hpo.engine.strategies import STRATEGIES
from hpo.engine.strategies.random import RandomSearch
from hpo.study.basis import source_code
from hpo.study.basis.source_code import describe_code, search_files

ROOMS = ("course", "objective", "space", "training", "trials")
# Files of these rooms that decide no trial, each with the reason.
DECIDE_NOTHING = {
    "space/peers.py": "reads other tools' dimensions, before a search",
    "space/written.py": "writes out what was given as text or from Python, and the configuration has the result",
    "trials/digits.py": "writes scores for people",
    "trials/table.py": "writes trials.csv from what is recorded",
}


@pytest.fixture
def toolkit(tmp_path):
    """A copy of the package that may be edited."""
    here = Path(hpo.__file__).parent
    for room in ("engine", "study/winner"):
        shutil.copytree(here / room, tmp_path / "hpo" / room, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "hpo"


def test_an_edit_of_any_file_that_decides_trials_changes_the_piece_of_the_search(toolkit):
    files, engine = search_files(toolkit), toolkit / "engine"
    decide = [engine / "loop.py", engine / "observers.py", engine / "strategies/first.py"]
    decide += [path for room in ROOMS for path in (engine / room).rglob("*.py") if path.name != "__init__.py"]
    for path in decide:
        before = source_code._hash([path])
        path.write_text(path.read_text() + "\nEDITED = True\n")
        is_seen = path in files and source_code._hash([path]) != before
        assert is_seen == (path.relative_to(engine).as_posix() not in DECIDE_NOTHING), path
    assert source_code._hash(files) != source_code._of_the_search()


def test_what_decides_who_wins_counts_and_what_is_made_of_the_winner_does_not(toolkit):
    files, winner = search_files(toolkit), toolkit / "study" / "winner"
    names = {path.name for path in files if winner in path.parents}
    assert names == {"choosing.py", "finalists.py", "full_training.py", "verdict.py"}
    (winner / "finalists.py").write_text("from hpo.study.winner.noise import error\n")
    (winner / "noise.py").write_text("error = 0\n")
    assert search_files(toolkit) == {*files, winner / "noise.py"}


def test_what_carries_tasks_and_keeps_outcomes_is_no_part_of_the_search(toolkit):
    rooms = {path.relative_to(toolkit / "engine").parts[0] for path in search_files(toolkit) if "engine" in path.parts}
    assert rooms == {*ROOMS, "loop.py", "observers.py", "strategies"}
    assert [path.name for path in search_files(toolkit) if "strategies" in path.parts] == ["first.py"]


@pytest.mark.slow
def test_files_of_the_toolkit_that_move_change_no_hash(toolkit):
    """All at once: of the search all but the beginnings, of a strategy all but its own file."""
    strategies, winner = toolkit / "engine" / "strategies", toolkit / "study" / "winner"

    def hashes():
        chosen = source_code._follow([strategies / "optuna_sampler.py"], toolkit, [strategies])
        return source_code._hash(search_files(toolkit)), source_code._hash(chosen)

    def name_of(path):
        return ".".join(path.relative_to(toolkit.parent).with_suffix("").parts)

    # Imported as `from hpo.engine.trials import reported`.
    stay = {*(toolkit / name for name in source_code._BEGINNINGS), toolkit / "engine" / "trials" / "reported.py"}
    before, modules = hashes(), {}
    for path in (search_files(toolkit) | {*strategies.glob("*.py")}) - stay - {strategies / "optuna_sampler.py"}:
        room = next(each for each in (strategies, winner, toolkit / "engine") if each in path.parents)
        moved = room / "elsewhere" / f"{path.parent.name}_{path.name}"
        moved.parent.mkdir(exist_ok=True)
        path.rename(moved)
        modules[name_of(path)] = name_of(moved)
    for path in toolkit.rglob("*.py"):
        imports = re.compile(r"(?<=from )[\w.]+(?= import)")
        path.write_text(imports.sub(lambda module: modules.get(module[0], module[0]), path.read_text()))
    assert len(modules) > 35
    assert hashes() == before


@pytest.mark.slow
def test_a_strategy_of_the_users_own_counts_with_the_modules_that_it_imports(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "own_drawing.py").write_text("SCALE = 1\n")
    (tmp_path / "own_strategy.py").write_text("import own_drawing\nclass Own: ...\n")
    own = importlib.import_module("own_strategy").Own
    before = describe_code(Objective("hpo.objectives.table:run_fold", print), own).pieces
    (tmp_path / "own_drawing.py").write_text("SCALE = 2\n")
    after = describe_code(Objective("hpo.objectives.table:run_fold", print), own).pieces
    assert [name for name in after if after[name] != before[name]] == ["own_drawing.py (strategy)"]
    others = describe_code(Objective("hpo.objectives.table:run_fold", print), RandomSearch).pieces
    assert not any("(strategy)" in name for name in others)


@pytest.mark.parametrize(("path", "strategy", "piece"), [
    ("hpo.objectives.table:run_fold", "random", "objective"), ("model.objective:run_fold", "random", "objective"),
    ("hpo.objectives.table:run_fold", "asha", "strategy"), ("hpo.objectives.table:run_fold", "hyperband", "strategy"),
])  # fmt: skip
def test_code_of_which_studies_of_before_go_on_is_that_of_today(path, strategy, piece):
    """Fails when it was changed: are its trials the same? Then its entry gets the new hash, and else it goes."""
    importlib.import_module(path.partition(":")[0])
    assert describe_code(Objective(path, print), STRATEGIES[strategy][1]).pieces[piece] in SAME_TRIALS


def test_modules_beside_a_package_that_it_imports_count_and_of_what_is_installed_only_the_package(
    tmp_path, monkeypatch
):
    for place in ("here", "site-packages"):
        root = tmp_path / place
        (root / "of_ours").mkdir(parents=True)
        (root / "of_ours" / "__init__.py").write_text("")
        (root / "of_ours" / "train.py").write_text("import beside_it\n")
        (root / "beside_it.py").write_text("F = 1\n")
        monkeypatch.chdir(root)
        names = {"of_ours/__init__.py", "of_ours/train.py"} | ({"beside_it.py"} if place == "here" else set())
        assert digests_of("of_ours.train").keys() == names
