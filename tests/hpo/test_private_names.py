"""Without the private parts of Optuna that are used for speed, a study has the same trials."""

import pytest

from hpo.trials.record import optuna_tables
from tests.studies import run_toy, toy_config


@pytest.mark.slow
def test_where_optunas_tables_have_another_form_a_study_has_the_same_trials(tmp_path, monkeypatch):
    expected = run_toy(tmp_path / "tables", toy_config("evolutionary", trials=8))
    monkeypatch.setitem(optuna_tables.COLUMNS, "trials", {"a column of another version"})
    run_toy(tmp_path / "calls", toy_config("evolutionary", trials=7))
    assert run_toy(tmp_path / "calls", toy_config("evolutionary", trials=8)) == expected
    run_toy(tmp_path / "both", toy_config("evolutionary", trials=7))
    monkeypatch.undo()
    assert run_toy(tmp_path / "both", toy_config("evolutionary", trials=8)) == expected
