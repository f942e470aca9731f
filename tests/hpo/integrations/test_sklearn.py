"""HpoSearchCV: an estimator of scikit-learn that searches by our strategies, and what users of its searches type."""

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import FitFailedWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, f1_score
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

import hpo
import hpo.integrations.sklearn as integration
from hpo.integrations import defaults
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


# What users of scikit-learn's own searches type.

IRIS = load_iris(return_X_y=True)


ORDERED = {"name": "grid", "order": "lexicographic", "round_size": 1}


def pipe():
    return Pipeline([("scale", StandardScaler()), ("clf", SVC())])


@pytest.mark.parametrize("strategy", ["tpe", "evolutionary", "cma_es", {"name": "gp", "startup": 4}])
def test_a_candidate_whose_fits_all_fail_does_not_end_the_search(strategy):
    space = {"C": hpo.log(1e-3, 1e3), "gamma": [-1.0, 0.1, 1.0]}  # SVC refuses a gamma below 0
    search = HpoSearchCV(SVC(), space, trials=8, strategy=strategy, cv=2).fit(*IRIS)
    scores, gammas = search.cv_results_["mean_test_score"], search.cv_results_["param_gamma"]
    assert len(scores) == 8
    assert any(gammas < 0)
    assert list(np.isnan(scores)) == list(gammas < 0)
    assert search.best_params_["gamma"] > 0


def test_all_failed_fits_are_told_at_once_at_the_end_as_grid_search_does():
    with pytest.warns(FitFailedWarning, match=r"2 fits failed out of a total of 6\.") as told:
        HpoSearchCV(SVC(), {"C": [-1.0, 0.1, 1.0]}, strategy="tpe", trials=3, cv=2).fit(*IRIS)
    assert sum(issubclass(warning.category, FitFailedWarning) for warning in told) == 1


def test_where_all_candidates_fail_the_error_is_scikit_learns():
    with pytest.raises(ValueError, match="All the 6 fits failed") as error:
        HpoSearchCV(SVC(), {"C": [-3.0, -2.0, -1.0]}, strategy="tpe", trials=3, cv=2).fit(*IRIS)
    assert "C" in str(error.value)


def test_a_number_as_error_score_is_the_score_of_what_failed_and_the_strategy_knows(monkeypatch):
    states = {}

    def with_score(trial, score, direction):
        ended = defaults.with_score(trial, score, direction)
        states[trial.point["C"]] = ended.state
        return ended

    monkeypatch.setattr(integration, "with_score", with_score)
    search = HpoSearchCV(SVC(), {"C": [-1.0, 1.0]}, strategy="tpe", trials=2, cv=2, error_score=0).fit(*IRIS)
    assert dict(zip(search.cv_results_["param_C"], search.cv_results_["mean_test_score"], strict=True))[-1.0] == 0
    assert search.best_params_ == {"C": 1.0}
    assert states == {-1.0: "failed", 1.0: "complete"}


def test_error_score_raise_raises_at_the_first():
    with pytest.raises(ValueError, match="C"):
        HpoSearchCV(SVC(), {"C": [-1.0, 1.0]}, strategy="tpe", trials=2, cv=2, error_score="raise").fit(*IRIS)


def both(estimator, x, y):
    return {
        "accuracy": accuracy_score(y, estimator.predict(x)),
        "f1": f1_score(y, estimator.predict(x), average="macro"),
    }


@pytest.mark.parametrize("scoring", [["accuracy", "f1_macro"], both])
def test_several_scores_survive_candidates_that_fail(scoring):
    space = {"C": [-2.0, -1.0, 0.1, 1.0]}
    search = HpoSearchCV(SVC(), space, strategy=ORDERED, trials=4, cv=2, scoring=scoring, refit="accuracy").fit(*IRIS)
    assert list(np.isnan(search.cv_results_["mean_test_accuracy"])) == [True, True, False, False]


def test_estimators_are_values():
    scalers = [StandardScaler(), MinMaxScaler(), "passthrough"]
    search = HpoSearchCV(pipe(), {"scale": scalers, "clf__C": hpo.log(0.1, 10)}, trials=9, cv=2).fit(*IRIS)
    assert {id(scaler) for scaler in search.cv_results_["param_scale"]} == set(map(id, scalers))
    assert search.best_params_["scale"] in scalers
    assert not hasattr(scalers[0], "mean_")  # a clone was fitted, the values stay as given
    assert type(search.best_estimator_["scale"]) in (StandardScaler, MinMaxScaler, str)


def test_estimators_that_look_the_same_are_two():
    scalers = [StandardScaler(), StandardScaler()]
    search = HpoSearchCV(pipe(), {"scale": scalers}, strategy=ORDERED, trials=9, cv=2).fit(*IRIS)
    assert [params["scale"] for params in search.cv_results_["params"]] == scalers


def test_what_is_no_json_value_is_a_value():
    space = {"hidden_layer_sizes": [(4,), (4, 4)], "alpha": np.logspace(-4, -2, 3), "max_iter": range(5, 7)}
    search = HpoSearchCV(MLPClassifier(random_state=0), space, strategy="grid", trials=20, cv=2).fit(*IRIS)
    assert len(search.cv_results_["params"]) == 12
    assert set(search.cv_results_["param_hidden_layer_sizes"]) == {(4,), (4, 4)}
    assert search.best_params_["alpha"] in (1e-4, 1e-3, 1e-2)
    weights = [{0: 1.0, 1: 2.0, 2: 1.0}, "balanced", None]
    search = HpoSearchCV(SVC(), {"class_weight": weights}, strategy=ORDERED, trials=3, cv=2).fit(*IRIS)
    assert [params["class_weight"] for params in search.cv_results_["params"]] == weights


GRIDS = [
    {"clf": [SVC()], "clf__C": hpo.log(0.1, 10), "clf__kernel": ["rbf", "linear"]},
    {"clf": [DecisionTreeClassifier(random_state=0)], "clf__max_depth": [1, 2, 3]},
    {"clf": [LogisticRegression()], "scale": [MinMaxScaler(), None]},
]


@pytest.mark.quick("strategy1")
@pytest.mark.nightly
@pytest.mark.parametrize("strategy", ["tpe", "evolutionary", {"name": "gp", "startup": 4}])
def test_a_list_of_grids(strategy):
    search = HpoSearchCV(pipe(), GRIDS, trials=8, strategy=strategy, cv=2).fit(*IRIS)
    seen = set()
    for place, params in enumerate(search.cv_results_["params"]):
        grid = next(grid for grid in GRIDS if grid["clf"][0] is params["clf"])
        seen.add(type(params["clf"]))
        assert set(params) == set(grid)
        for name in ("clf__C", "clf__kernel", "clf__max_depth", "scale"):
            assert search.cv_results_[f"param_{name}"].mask[place] == (name not in grid)
    assert len(seen) >= 2
    assert search.best_estimator_.predict(IRIS[0]).shape == (150,)
    assert search.best_params_ in search.cv_results_["params"]


@pytest.mark.parametrize("strategy", ["asha", {"name": "hyperband"}, "successive_halving", "ladder"])
def test_a_strategy_that_cannot_be_used_says_at_once_which_can(strategy):
    search = HpoSearchCV(SVC(), {"C": hpo.log(1e-3, 1e3)}, strategy=strategy)
    with pytest.raises(hpo.HpoError, match=r"strategy: must be one that fully trains every point \(grid, random, "):
        search.fit(*IRIS)


def test_a_list_of_grids_is_searched_whole_by_grid():
    grids = [{"kernel": ["linear"], "C": [1, 10]}, {"kernel": ["rbf"], "C": [1, 10], "gamma": [0.1, 1.0]}, {}]
    search = HpoSearchCV(SVC(), grids, trials=50, strategy=ORDERED, cv=2).fit(*IRIS)
    assert search.cv_results_["params"] == [
        *({"kernel": "linear", "C": c} for c in (1, 10)),
        *({"kernel": "rbf", "C": c, "gamma": gamma} for c in (1, 10) for gamma in (0.1, 1.0)),
        {},
    ]


@pytest.mark.parametrize(
    ("space", "says"),
    [
        ([], r"space: must be a dict of parameters, or a list of such dicts, given \[\]"),
        ([["C", [1, 2]]], r"space: must be a dict of parameters, or a list of such"),
        ("C", r"space: must be a dict of parameters, or a list of such dicts, given 'C'"),
        ([{"C": [1, 2]}, {"C": (1, 2, 3)}], "a tuple must be a range"),
    ],
)
def test_what_is_no_grid_is_refused(space, says):
    with pytest.raises(hpo.HpoError, match=says):
        HpoSearchCV(SVC(), space, trials=2, cv=2).fit(*IRIS)


@pytest.mark.parametrize("form", ["frame", "arrays"])
def test_cross_val_score_of_an_objective_as_folds_of_the_search(form):
    """As `cross_val_score(model, X, y, cv=5).mean()` in an objective, with a test part outside."""
    data = load_iris(as_frame=True).frame if form == "frame" else IRIS

    def classify(config, trial):
        if form == "frame":
            x, y = trial.data.drop(columns="target").to_numpy(), trial.data["target"].to_numpy()
        else:
            x, y = trial.data
        return SVC(C=config["C"]).fit(x[trial.train], y[trial.train]).score(x[trial.validation], y[trial.validation])

    settings = {"dispatch": "local", "track": "none"}
    study = hpo.search(
        *(classify, {"C": hpo.log(0.1, 10)}), trials=2, direction="maximize", data=data, folds=5, settings=settings,
        progress=False,
    )  # fmt: skip
    row = study.trials.iloc[0]
    assert row["score"] == pytest.approx(np.mean([row[f"fold_{fold}"] for fold in range(5)]))
    assert study.test(with_default=False)["score"] > 0.7
