"""Without the private parts of others' libraries that are used for speed or quiet, a study has the same trials."""

import subprocess
import sys

import pytest
from sklearn.datasets import load_iris
from sklearn.model_selection import _validation
from sklearn.tree import DecisionTreeClassifier

from hpo.integrations.sklearn import HpoSearchCV
from hpo.trials.record import optuna_tables
from tests.studies import REPOSITORY, rows, run_toy, toy_config

# Runs a command on a Ray without its private names, then asks its cluster as a driver that would join it.
WITHOUT_RAYS_NAMES = """
import sys
from hpo.workers.dispatch.ray import address as ray_address
from hpo.workers.dispatch.ray import private as ray_private
from hpo.workers.dispatch.ray.cluster import RayCluster
from hpo.cli.main import main

ray_private.look_up = lambda module, name: (None, None)
ray_address.CALL_CLUSTER = ray_private.CALL_CLUSTER.replace("import GcsClient", "import no_such_name")
ask_once = RayCluster.close

def close(self):
    if self._is_connected:
        import ray

        address = ray.get_runtime_context().gcs_address
        ray_address.refuse_dead_address(address)
        ray_address.refuse_open_cluster(address)
        print("asked")
    ask_once(self)

RayCluster.close = close
code = main(sys.argv[1:])
try:
    RayCluster(None, 0, 1)
except Exception as error:
    print(error)
sys.exit(code)
"""


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
    def fitted():
        search = HpoSearchCV(DecisionTreeClassifier(random_state=0), {"max_depth": [1, 2, 3]}, trials=3, strategy="tpe")
        return search.fit(*load_iris(return_X_y=True)).cv_results_

    expected = fitted()
    monkeypatch.delattr(_validation, "_insert_error_scores")
    found = fitted()
    assert found["params"] == expected["params"]
    assert list(found["mean_test_score"]) == list(expected["mean_test_score"])


@pytest.mark.nightly
def test_without_rays_private_names_a_study_has_the_same_trials(tmp_path):
    def searched(name, *start):
        given = ("data=table", f"data.path={REPOSITORY / 'tests/tables/svm_digits.csv'}", "data.metric=accuracy_0")
        options = (*given, f"study.name={name}", "study.trials=6", "track=none")
        command = [sys.executable, *start[:2], "search", *options, *start[2:]]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)

    plain = searched("plain", "-m", "hpo", "dispatch=local")
    assert plain.returncode == 0, plain.stderr
    hidden = searched("hidden", "-c", WITHOUT_RAYS_NAMES, "dispatch=ray")
    assert hidden.returncode == 0, hidden.stdout + hidden.stderr
    assert rows(tmp_path / "runs/hidden/trials.csv") == rows(tmp_path / "runs/plain/trials.csv")
    assert "asked" in hidden.stdout
    assert "this version of Ray starts its dashboard's process" in hidden.stderr
    assert "reads its token when it is imported" in hidden.stdout
