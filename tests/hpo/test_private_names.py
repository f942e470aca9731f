"""Without the private parts of others' libraries that are used for speed or quiet, a study has the same trials."""

import pytest
from sklearn.datasets import load_iris
from sklearn.model_selection import _validation
from sklearn.tree import DecisionTreeClassifier

from hpo.integrations.sklearn import HpoSearchCV
from hpo.trials.record import optuna_tables
from tests.studies import run_toy, toy_config


@pytest.mark.slow
def test_where_optunas_tables_have_another_form_a_study_has_the_same_trials(tmp_path, monkeypatch):
    expected = run_toy(tmp_path / "tables", toy_config("evolutionary", trials=8))
    monkeypatch.setitem(optuna_tables.COLUMNS, "trials", {"a column of another version"})
    run_toy(tmp_path / "calls", toy_config("evolutionary", trials=7))
    assert run_toy(tmp_path / "calls", toy_config("evolutionary", trials=8)) == expected
    # One way continues what the other began.
    run_toy(tmp_path / "both", toy_config("evolutionary", trials=7))
    monkeypatch.undo()
    assert run_toy(tmp_path / "both", toy_config("evolutionary", trials=8)) == expected


def test_without_scikit_learns_private_names_a_search_has_the_same_candidates(monkeypatch):
    def found():
        search = HpoSearchCV(DecisionTreeClassifier(random_state=0), {"max_depth": [1, 2, 3]}, trials=3, strategy="tpe")
        results = search.fit(*load_iris(return_X_y=True)).cv_results_
        return results["params"], list(results["mean_test_score"])

    expected = found()
    monkeypatch.delattr(_validation, "_insert_error_scores")
    assert found() == expected
