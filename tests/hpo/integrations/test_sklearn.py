"""HpoSearchCV: an estimator of scikit-learn that searches by our strategies."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import hpo
from hpo.integrations.sklearn import HpoSearchCV

# A search on every one of its data sets takes a minute altogether.
pytestmark = pytest.mark.filterwarnings("ignore")
CHECKED = [
    HpoSearchCV(LogisticRegression(), {"C": (0.1, 1.0)}, trials=2, strategy="random", cv=2),
    HpoSearchCV(Ridge(), {"alpha": (0.1, 1.0)}, trials=2, strategy="random", cv=2),
]


@pytest.mark.nightly
@parametrize_with_checks(CHECKED)
def test_it_is_an_estimator(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def digits():
    x, y = load_digits(return_X_y=True)
    return x[:300], y[:300]


def test_it_finds_parameters_of_a_pipeline(digits):
    space = {"svc__C": hpo.log(1e-3, 1e3), "svc__gamma": hpo.log(1e-4, 1.0), "svc__kernel": ["rbf", "linear"]}
    search = HpoSearchCV(make_pipeline(StandardScaler(), SVC()), space, trials=12, cv=3).fit(*digits)
    assert len(search.cv_results_["mean_test_score"]) == 12
    assert search.best_score_ == max(search.cv_results_["mean_test_score"]) > 0.9
    assert set(search.best_params_) == set(space)
    assert search.score(*digits) > 0.95


@pytest.mark.slow
def test_the_same_seed_gives_the_same_search_on_any_number_of_jobs(digits):
    def params(jobs, seed=0):
        space = {"C": hpo.log(1e-3, 1e3), "gamma": [0.001, 0.01, 0.1]}
        search = HpoSearchCV(SVC(), space, trials=6, cv=2, random_state=seed, n_jobs=jobs)
        return search.fit(*digits).cv_results_["params"]

    assert params(None) == params(2) != params(None, seed=1)


def test_without_a_seed_it_searches_all_the_same(digits):
    for seed in (None, np.random.RandomState(0)):
        search = HpoSearchCV(SVC(), {"C": hpo.log(1e-2, 1e2)}, trials=2, random_state=seed, cv=2)
        assert len(search.fit(*digits).cv_results_["params"]) == 2


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"scoring": ["accuracy", "f1_macro"], "refit": False}, "refit: must name the score"),
        ({"strategy": "evolution"}, "did you mean 'evolutionary'"),
        ({"trials": 0}, "trials: must be a whole number of at least 1, given 0"),
        ({"trials": "3"}, "trials: must be a whole number of at least 1, given '3'"),
    ],
)
def test_what_cannot_be_is_refused(digits, arguments, says):
    with pytest.raises(hpo.HpoError, match=says):
        HpoSearchCV(SVC(), **({"space": {"C": (0.1, 1.0)}, "trials": 2, "cv": 2} | arguments)).fit(*digits)


def test_several_scores_have_the_columns_of_scikit_learns_own_search(digits):
    arguments = {"cv": 2, "scoring": {"own": "accuracy", "f1": "f1_macro"}, "refit": "f1"}
    ordered = {"name": "grid", "order": "lexicographic"}
    ours = HpoSearchCV(SVC(), {"C": [1e-3, 0.1]}, trials=2, strategy=ordered, **arguments)
    theirs = GridSearchCV(SVC(), {"C": [1e-3, 0.1]}, **arguments)
    for search in (ours, theirs):
        search.fit(*digits)
    assert list(ours.cv_results_) == list(theirs.cv_results_)
    for column in ("params", *(f"{kind}_test_{name}" for kind in ("mean", "std", "rank") for name in ("own", "f1"))):
        assert list(ours.cv_results_[column]) == list(theirs.cv_results_[column])
    assert (ours.best_params_, ours.best_score_) == (theirs.best_params_, theirs.best_score_)
