"""The user's own code that a study rests on, by content: strategies, and what an objective imports."""

import importlib

import pytest

from hpo.engine.strategies.random import RandomSearch
from hpo.study.basis.source_code import describe_code
from hpo.workers.objective.objective import Objective
from hpo.workers.objective.source_files import digests_of

TABLE = Objective("hpo.objectives.table:run_fold", print, revision=1)


@pytest.mark.slow
def test_a_strategy_of_the_users_own_counts_with_the_modules_that_it_imports(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "own_drawing.py").write_text("SCALE = 1\n")
    (tmp_path / "own_strategy.py").write_text("import own_drawing\nclass Own: ...\n")
    own = importlib.import_module("own_strategy").Own
    before = describe_code(TABLE, {"own_strategy:Own": own}).pieces
    (tmp_path / "own_drawing.py").write_text("SCALE = 2\n")
    after = describe_code(TABLE, {"own_strategy:Own": own}).pieces
    assert [name for name in after if after[name] != before[name]] == ["own_drawing.py (strategy)"]
    others = describe_code(TABLE, {"random": RandomSearch}).pieces
    assert not any("(strategy)" in name for name in others)


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
