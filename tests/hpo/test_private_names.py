"""Without the private parts of others' libraries that are used for speed or quiet, a study has the same trials."""

from hpo.engine.record import optuna_tables
from tests.studies import run_toy, toy_config


def test_where_optunas_tables_have_another_form_a_study_has_the_same_trials(tmp_path, monkeypatch):
    expected = run_toy(tmp_path / "tables", toy_config("evolutionary", trials=12))
    monkeypatch.setitem(optuna_tables._COLUMNS, "trials", {"a column of another version"})
    run_toy(tmp_path / "calls", toy_config("evolutionary", trials=5))
    assert run_toy(tmp_path / "calls", toy_config("evolutionary", trials=12)) == expected
    # What one way began the other goes on with.
    run_toy(tmp_path / "both", toy_config("evolutionary", trials=5))
    monkeypatch.undo()
    assert run_toy(tmp_path / "both", toy_config("evolutionary", trials=12)) == expected
