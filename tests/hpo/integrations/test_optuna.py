"""Our strategies as Optuna samplers, in Optuna's own studies."""

import subprocess
import sys
import threading

import optuna
import pytest

from hpo.engine.strategies import STRATEGIES as REGISTERED
from hpo.engine.strategies import make_strategy
from hpo.errors import ConfigError, SpaceError
from hpo.integrations.defaults import default_strategy
from hpo.integrations.optuna import as_sampler
from hpo.testing.strategies import play
from hpo.trials.goal import Goal
from hpo.trials.space.reader import space_from_dict
from tests.studies import REPOSITORY, SPACES, STRATEGIES

MIXED, CONDITIONAL = SPACES["mixed"], SPACES["conditional"]
BY_STEPS = ("successive_halving", "hyperband", "asha")
# A ladder needs scales, of which Optuna knows nothing.
NAMES = [name for name in REGISTERED if name not in (*BY_STEPS, "ladder")]
QUICK = [name for name in NAMES if name != "gp"]


@pytest.fixture(autouse=True)
def quiet():
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    yield
    optuna.logging.set_verbosity(before)


def make(name, tree=MIXED, seed=0, **changes):
    return make_strategy(STRATEGIES[name] | changes, space_from_dict(tree), seed)


def loss_of(point):
    """A loss that depends on the values, whatever their order."""
    return None if len(str(point["toy.lr"])) % 4 == 3 else point["toy.layers"] / point["toy.width"] + point["toy.lr"]


def suggested(trial):
    """Ask for the mixed space, last dimension first."""
    return {
        "toy.nonlinearity": trial.suggest_categorical("toy.nonlinearity", ["tanh", "relu", "gelu"]),
        "toy.lr": trial.suggest_categorical("toy.lr", [0.001, 0.01, 0.1]),
        "toy.width": trial.suggest_categorical("toy.width", [8, 16, 32, 64]),
        "toy.layers": trial.suggest_int("toy.layers", 1, 5),
    }


def objective(trial):
    loss = loss_of(suggested(trial))
    if loss is None:
        raise RuntimeError("this point cannot be trained")
    return loss


def run(study, count, **options):
    study.optimize(objective, n_trials=count, catch=(RuntimeError,), **options)
    return [{key: trial.params[key] for key in sorted(trial.params)} for trial in study.trials]


def in_order(points):
    return [{key: point[key] for key in sorted(point)} for point in points]


@pytest.mark.parametrize("name", QUICK)
def test_one_trial_at_a_time_gets_the_trials_of_our_own_search(name):
    expected = [trial.point for trial in play(make(name), 4, loss_of)][:18]
    study = optuna.create_study(sampler=as_sampler(make(name)))
    assert run(study, len(expected)) == in_order(expected)


def test_ask_and_tell_and_a_larger_score_that_is_better():
    expected = [trial.point for trial in play(make("evolutionary"), 3, loss_of)]
    study = optuna.create_study(sampler=as_sampler(make("evolutionary")), direction="maximize")
    points = []
    for _ in expected:
        trial = study.ask()
        points.append(suggested(trial))
        loss = loss_of(points[-1])
        study.tell(trial, None if loss is None else -loss, state=optuna.trial.TrialState.FAIL if loss is None else None)
    assert in_order(points) == in_order(expected)


def test_several_at_once_never_get_a_point_twice_and_exhaust_the_space():
    study = optuna.create_study(sampler=as_sampler(make("random", {"toy": {"a": [1, 2, 3, 4], "b": [1, 2, 3]}})))
    together = threading.Barrier(2, timeout=10)

    def slow(trial):
        if trial.number < 4:
            together.wait()
        return float(trial.suggest_int("toy.a", 1, 4) * trial.suggest_int("toy.b", 1, 3))

    study.optimize(slow, n_trials=12, n_jobs=2)
    assert len({tuple(sorted(trial.params.items())) for trial in study.trials}) == 12


def test_running_trials_are_left_out_of_the_next_round_and_not_proposed_again():
    study = optuna.create_study(sampler=as_sampler(make("evolutionary", population=4, surviving=0.5)))
    trials = [study.ask() for _ in range(9)]
    points = [suggested(trial) for trial in trials]
    assert len({str(point) for point in points}) == 9


def test_a_study_that_is_loaded_again_goes_on_with_the_same_points():
    """Half a round was handed out, and a trial of it never finished."""
    study = optuna.create_study(storage="sqlite:///study.db", study_name="s", sampler=as_sampler(make("evolutionary")))
    run(study, 2)
    study.ask()
    run(study, 5)
    other = optuna.load_study(storage="sqlite:///study.db", study_name="s", sampler=as_sampler(make("evolutionary")))
    copy = optuna.create_study(sampler=as_sampler(make("evolutionary")))
    run(copy, 2)
    copy.ask()
    run(copy, 5)
    assert run(other, 6) == run(copy, 6)


def test_optimize_stops_when_the_strategy_is_over():
    study = optuna.create_study(sampler=as_sampler(make("grid", {"toy": {"a": [1, 2, 3]}})))
    study.optimize(lambda trial: float(trial.suggest_int("toy.a", 1, 3)), n_trials=50)
    assert sorted(trial.params["toy.a"] for trial in study.trials) == [1, 2, 3]
    assert study.ask().suggest_int("toy.a", 1, 3) in (1, 2, 3)


def test_conditional_parameters():
    study = optuna.create_study(sampler=as_sampler(make("random", CONDITIONAL)))

    def conditional(trial):
        if trial.suggest_categorical("toy.nonlinearity", ["relu", "tanh"]) == "tanh":
            return 0.0
        layers = trial.suggest_int("toy.layers", 1, 4)
        return float(layers * (trial.suggest_categorical("toy.width", [8, 16, 32]) if layers > 2 else 1))

    study.optimize(conditional, n_trials=50)
    space = space_from_dict(CONDITIONAL)
    assert len(study.trials) == space.size
    assert all(space.contains(trial.params) for trial in study.trials)


def test_trials_that_others_made_are_learnt_from():
    best = {"toy.layers": 1, "toy.width": 64, "toy.lr": 0.001, "toy.nonlinearity": "gelu"}
    study = optuna.create_study(sampler=as_sampler(make("evolutionary", population=6, surviving=0.2, mutation=0.05)))
    study.enqueue_trial(best)
    run(study, 12)
    children = [trial.params for trial in study.trials[6:]]
    assert study.trials[0].params == best
    assert best not in children
    assert all(sum(child[key] != value for key, value in best.items()) <= 2 for child in children)


MISTAKES = {
    "an unknown name": (
        lambda t: t.suggest_int("toy.layer", 1, 5),
        "'toy.layer', which is not in the space.*toy.layers",
    ),
    "another range": (lambda t: t.suggest_int("toy.layers", 1, 6), r"space.toy.layers: .*high=6.*\[1, 2, 3, 4, 5\]"),
    "other choices": (lambda t: t.suggest_categorical("toy.nonlinearity", ["relu", "gelu"]), "toy.nonlinearity"),
    "another kind": (lambda t: t.suggest_float("toy.lr", 0.001, 0.1), "toy.lr"),
    "not everything": (lambda t: float(t.suggest_int("toy.layers", 1, 5)), "did not suggest it"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_an_objective_at_odds_with_the_space_is_one_clear_error(mistake):
    wrong, message = MISTAKES[mistake]
    study = optuna.create_study(sampler=as_sampler(make("random")))
    with pytest.raises(SpaceError, match=message):
        study.optimize(wrong, n_trials=1)


def test_a_parameter_whose_condition_does_not_hold_is_refused():
    space = {"b": {"choices": [1, 2]}, "c": {"values": [1, 2], "when": {"b": 1}}}
    study = optuna.create_study(sampler=as_sampler(make("grid", space, order="lexicographic")))
    with pytest.raises(SpaceError, match=r"space\.c.*has no value for it.*'b': \(1,\)"):
        study.optimize(lambda t: t.suggest_categorical("b", [1, 2]) + t.suggest_int("c", 1, 2), n_trials=4)


TWO = Goal({"score": "minimize", "size": "maximize"})


BOTH = {"x": {"low": 0.0, "high": 1.0}, "layers": {"choices": [1, 2, 3]}}


def two(x, layers):
    return {"score": (x - 0.3) ** 2 + layers, "size": float(layers) - x}


@pytest.mark.parametrize("name", ["evolutionary", "tpe"])
def test_several_objectives_get_the_trials_of_a_search_by_several_metrics(name):
    strategy = make(name, BOTH)
    study = optuna.create_study(directions=["minimize", "maximize"], sampler=as_sampler(strategy))
    study.optimize(
        lambda t: [*two(t.suggest_float("x", 0.0, 1.0), t.suggest_categorical("layers", [1, 2, 3])).values()],
        n_trials=15,
    )
    expected = play(make(name, BOTH), 15, lambda point: two(**point), TWO)
    assert [trial.params for trial in study.trials] == [dict(trial.point) for trial in expected][:15]


def test_a_strategy_of_one_loss_refuses_several_objectives():
    with pytest.raises(ConfigError, match=r"models one loss.*2 objectives"):
        optuna.create_study(directions=["minimize", "minimize"], sampler=as_sampler(make("cma_es"))).ask()


@pytest.mark.parametrize("name", BY_STEPS)
def test_a_strategy_that_trains_by_steps_is_refused(name):
    with pytest.raises(ConfigError, match="trains by amounts, which works only in `hpo search`"):
        optuna.create_study(sampler=as_sampler(make(name))).ask()


def test_a_strategy_in_one_call_says_what_is_wrong():
    with pytest.raises(ConfigError, match="did you mean 'random'"):
        default_strategy("randon", {"x": [1, 2]})
    with pytest.raises(ConfigError, match="did you mean 'tpe'"):
        default_strategy("TPE", {"x": [1, 2]})
    with pytest.raises(ConfigError, match=r"strategy\.round_size: .*given 0"):
        default_strategy("random", {"x": [1, 2]}, settings={"round_size": 0})


@pytest.mark.nightly
def test_the_example_runs():
    command = [sys.executable, str(REPOSITORY / "examples/optuna_study.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "40 trials, best" in done.stdout


def test_a_trial_that_asks_after_a_later_one_gets_the_earlier_point():
    strategy = make("evolutionary", population=4, surviving=0.5, children=None, generations=2)
    alone = optuna.create_study(sampler=as_sampler(strategy))
    expected = [suggested(alone.ask()), suggested(alone.ask())]
    study = optuna.create_study(sampler=as_sampler(strategy))
    # As two threads may: both trials have begun before the first of them asks.
    begun = [study._storage.create_new_trial(study._study_id) for _ in expected]
    later, earlier = (optuna.trial.Trial(study, number) for number in reversed(begun))
    assert [suggested(earlier), suggested(later)] == expected


def test_generations_come_to_their_end_with_several_trials_at_once():
    for _ in range(20):
        study = optuna.create_study(
            sampler=as_sampler(make("evolutionary", population=4, surviving=0.5, children=None, generations=3))
        )
        study.optimize(lambda trial: float(len(str(suggested(trial)))), n_trials=100, n_jobs=3)
        assert 4 + 2 + 2 <= len(study.trials) < 100
