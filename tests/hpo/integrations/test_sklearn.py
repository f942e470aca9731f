"""HpoSearchCV: an estimator of scikit-learn that searches by our strategies, and what users of its searches type."""

from unittest.mock import Mock

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

import hpo
from hpo.integrations.defaults import with_scores
from hpo.integrations.sklearn import HpoSearchCV

pytestmark = pytest.mark.filterwarnings("ignore")
IRIS = load_iris(return_X_y=True)
DIGITS = [part[:300] for part in load_digits(return_X_y=True)]
PIPE = Pipeline([("scale", StandardScaler()), ("clf", SVC())])
ORDERED = {"name": "grid", "order": "lexicographic", "round_size": 1}
# A search on every one of their data sets takes a minute altogether.
CHECKED = (LogisticRegression(), {"C": (0.1, 1.0)}), (Ridge(), {"alpha": (0.1, 1.0)})


@pytest.mark.nightly
@parametrize_with_checks([HpoSearchCV(*given, trials=2, strategy="random", cv=2) for given in CHECKED])
def test_it_is_an_estimator(estimator, check):
    check(estimator)


def test_it_finds_parameters_of_a_pipeline():
    space = {"svc__C": hpo.log(1e-3, 1e3), "svc__gamma": hpo.log(1e-4, 1.0), "svc__kernel": ["rbf", "linear"]}
    search = HpoSearchCV(make_pipeline(StandardScaler(), SVC()), space, trials=12, cv=3).fit(*DIGITS)
    assert len(search.cv_results_["mean_test_score"]) == 12
    assert search.best_score_ == max(search.cv_results_["mean_test_score"]) > 0.9
    assert set(search.best_params_) == set(space)
    assert search.score(*DIGITS) > 0.95


@pytest.mark.slow
def test_the_same_seed_gives_the_same_search_on_any_number_of_jobs():
    def params(jobs, seed=0):
        space = {"C": hpo.log(1e-3, 1e3), "gamma": [0.001, 0.01, 0.1]}
        search = HpoSearchCV(SVC(), space, trials=6, cv=2, random_state=seed, n_jobs=jobs)
        return search.fit(*DIGITS).cv_results_["params"]

    assert params(None) == params(2) != params(None, seed=1)


@pytest.mark.parametrize(("arguments", "says"), [
    ({"scoring": {"score": "accuracy", "f1": "f1_macro"}, "refit": False}, "refit: must name the score"),
    ({"trials": 0}, "trials: must be a whole number of at least 1, given 0"),
    ({"trials": "3"}, "trials: must be a whole number of at least 1, given '3'"),
    ({"space": "C"}, "space: must be a dict of parameters, or a list of such"),
    ({"space": [["C", [1, 2]]]}, "space: must be a dict of parameters, or a list of such"),
    ({"space": []}, r"space: must be a dict of parameters, or a list of such dicts, given \[\]"),
    ({"space": [{"C": [1, 2]}, {"C": (1, 2, 3)}]}, "a tuple must be a range"),
    *(({"strategy": name}, f"strategy: '{name}' trains some points only partly") for name in ("asha", "ladder")),
])  # fmt: skip
def test_what_cannot_be_is_refused(arguments, says):
    with pytest.raises(hpo.HpoError, match=says):
        HpoSearchCV(SVC(), **({"space": {"C": (0.1, 1.0)}, "trials": 2, "cv": 2} | arguments)).fit(*IRIS)


def test_several_scores_have_the_columns_of_scikit_learns_own_search():
    arguments = {"cv": 2, "scoring": {"score": "accuracy", "f1": "f1_macro"}, "refit": "f1"}
    ours = HpoSearchCV(SVC(), {"C": [1e-3, 0.1]}, trials=2, strategy=ORDERED, **arguments).fit(*DIGITS)
    theirs = GridSearchCV(SVC(), {"C": [1e-3, 0.1]}, **arguments).fit(*DIGITS)
    assert list(ours.cv_results_) == list(theirs.cv_results_)
    for column in ("params", *(f"{kind}_test_{name}" for kind in ("mean", "std", "rank") for name in ("score", "f1"))):
        assert list(ours.cv_results_[column]) == list(theirs.cv_results_[column])
    assert (ours.best_params_, ours.best_score_) == (theirs.best_params_, theirs.best_score_)


@pytest.mark.parametrize("strategy", ["tpe", "evolutionary", "cma_es", {"name": "gp", "startup": 4}])
def test_a_candidate_whose_fits_all_fail_does_not_end_the_search(strategy):
    space = {"C": hpo.log(1e-3, 1e3), "gamma": [-1.0, 0.1, 1.0]}  # SVC refuses a gamma below 0
    search = HpoSearchCV(SVC(), space, trials=8, strategy=strategy, cv=2).fit(*IRIS)
    scores, gammas = search.cv_results_["mean_test_score"], search.cv_results_["param_gamma"]
    assert len(scores) == 8
    assert any(gammas < 0)
    assert list(np.isnan(scores)) == list(gammas < 0)
    assert search.best_params_["gamma"] > 0


@pytest.mark.parametrize(
    ("rates", "says", "more"),
    [([-3.0, -2.0, -1.0], r"(?s)All the 6 fits failed.*C", {}), ([-1.0, 1.0], "C", {"error_score": "raise"})],
)
def test_where_all_candidates_fail_and_with_error_score_raise_the_error_is_scikit_learns(rates, says, more):
    with pytest.raises(ValueError, match=says):
        HpoSearchCV(SVC(), {"C": rates}, strategy="tpe", trials=3, cv=2, **more).fit(*IRIS)


def test_failed_fits_are_told_at_once_at_the_end_as_grid_search_does():
    with pytest.warns(FitFailedWarning, match=r"2 fits failed out of a total of 6\.") as told:
        HpoSearchCV(SVC(), {"C": [-1.0, 0.1, 1.0]}, strategy="tpe", trials=3, cv=2).fit(*IRIS)
    assert sum(issubclass(warning.category, FitFailedWarning) for warning in told) == 1


def test_a_number_as_error_score_is_the_score_of_what_failed_as_the_strategy_knows(monkeypatch):
    told = Mock(side_effect=with_scores)
    monkeypatch.setattr("hpo.integrations.sklearn.with_scores", told)
    search = HpoSearchCV(SVC(), {"C": [-1.0, 1.0]}, strategy=ORDERED, trials=2, cv=2, error_score=0).fit(*IRIS)
    assert (search.cv_results_["mean_test_score"][0], search.best_params_) == (0, {"C": 1.0})
    assert [call.args[1] == [None] for call in told.call_args_list] == [True, False]


@pytest.mark.parametrize(
    "scoring", [["accuracy", "f1_macro"], lambda svc, x, y: {"accuracy": svc.score(x, y), "error": 1 - svc.score(x, y)}]
)
def test_several_scores_survive_candidates_that_fail(scoring):
    space = {"C": [-2.0, -1.0, 0.1, 1.0]}
    search = HpoSearchCV(SVC(), space, strategy=ORDERED, trials=4, cv=2, scoring=scoring, refit="accuracy").fit(*IRIS)
    assert list(np.isnan(search.cv_results_["mean_test_accuracy"])) == [True, True, False, False]


def test_estimators_are_values_and_two_that_look_the_same_are_two():
    scalers = [StandardScaler(), StandardScaler(), "passthrough"]
    choices = hpo.choices(*scalers[1:], named=scalers[0])
    search = HpoSearchCV(PIPE, {"scale": choices, "clf__C": hpo.log(0.1, 10)}, trials=9, cv=2).fit(*IRIS)
    assert {id(scaler) for scaler in search.cv_results_["param_scale"]} == set(map(id, scalers))
    assert search.best_params_["scale"] in scalers
    assert not hasattr(scalers[0], "mean_")  # a clone was fitted, the values stay as given
    assert type(search.best_estimator_["scale"]) in (StandardScaler, str)


def test_what_is_no_json_value_is_a_value():
    space = {"hidden_layer_sizes": [(4,), (4, 4)], "alpha": np.logspace(-4, -2, 3), "max_iter": range(5, 7)}
    given = {"strategy": "grid", "trials": 20, "cv": 2, "random_state": np.random.RandomState(0)}
    search = HpoSearchCV(MLPClassifier(random_state=0), space, **given).fit(*IRIS)
    assert len(search.cv_results_["params"]) == 12
    assert set(search.cv_results_["param_hidden_layer_sizes"]) == {(4,), (4, 4)}
    assert search.best_params_["alpha"] in (1e-4, 1e-3, 1e-2)
    weights = [{0: 1.0, 1: 2.0, 2: 1.0}, "balanced", None]
    given = {"strategy": ORDERED, "trials": 3, "cv": 2, "random_state": None}
    search = HpoSearchCV(SVC(), {"class_weight": weights}, **given).fit(*IRIS)
    assert [params["class_weight"] for params in search.cv_results_["params"]] == weights


def test_a_list_of_grids():
    grids = [
        {"clf": [SVC()], "clf__C": hpo.log(0.1, 10), "clf__kernel": ["rbf", "linear"]},
        {"clf": [DecisionTreeClassifier(random_state=0)], "clf__max_depth": [1, 2, 3]},
        {"clf": [LogisticRegression()], "scale": [MinMaxScaler(), None]},
    ]
    search = HpoSearchCV(PIPE, grids, trials=8, strategy="evolutionary", cv=2).fit(*IRIS)
    for place, params in enumerate(search.cv_results_["params"]):
        grid = next(grid for grid in grids if grid["clf"][0] is params["clf"])
        assert set(params) == set(grid)
        for name in ("clf__C", "clf__kernel", "clf__max_depth", "scale"):
            assert search.cv_results_[f"param_{name}"].mask[place] == (name not in grid)
    assert len({type(params["clf"]) for params in search.cv_results_["params"]}) >= 2
    assert search.best_params_ in search.cv_results_["params"]


def test_without_scikit_learns_private_name_a_search_has_the_same_candidates(monkeypatch):
    def fitted():
        search = HpoSearchCV(DecisionTreeClassifier(random_state=0), {"max_depth": [1, 2, 3]}, trials=3, strategy="tpe")
        return search.fit(*IRIS).cv_results_

    expected = fitted()
    monkeypatch.delattr("sklearn.model_selection._validation._insert_error_scores")
    found = fitted()
    assert (found["params"], [*found["mean_test_score"]]) == (expected["params"], [*expected["mean_test_score"]])
