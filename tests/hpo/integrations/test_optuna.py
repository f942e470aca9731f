"""What people of Optuna type: objectives and spaces of its shape, and our strategies as samplers of its studies."""

import subprocess
import sys
from pathlib import Path

import optuna
import pytest

import hpo
from hpo.engine.strategies import STRATEGIES as REGISTERED
from hpo.engine.strategies import make_strategy
from hpo.errors import ConfigError, SpaceError
from hpo.integrations.optuna import as_sampler
from hpo.testing.strategies import play
from hpo.trials.goal import Goal
from hpo.trials.space.reader import space_from_dict
from tests.hpo.cli.commands import hpo as cli
from tests.hpo.commands.searched import found, note, noted, outcome_of
from tests.studies import REPOSITORY, SPACES, STRATEGIES, refuses

MIXED, CONDITIONAL = SPACES["mixed"], SPACES["conditional"]
BY_STEPS = ("successive_halving", "hyperband", "asha")
# A ladder needs scales, of which Optuna knows nothing; a proposal of gp takes too long.
QUICK = [name for name in REGISTERED if name not in (*BY_STEPS, "ladder", "gp")]
ASHA = {"name": "asha", "min_amount": 1, "max_amount": 4, "eta": 2}
LR = {"lr": (0.1, 1.0)}
ACTS, LOW = ["relu", "gelu"], 1e-5


@pytest.mark.slow
def test_a_function_that_continues_from_its_state_is_searched_by_asha():
    @hpo.objective(continues=True, continues_with=("epochs",))
    def train(config, trial):
        kept = trial.resume_dir / "epoch"
        begun = int(kept.read_text()) if kept.exists() else 0
        for epoch in range(begun + 1, (trial.amount or config["epochs"]) + 1):
            trial.resume_dir.mkdir(parents=True, exist_ok=True)
            kept.write_text(str(epoch))
            trial.report(epoch=epoch, score=config["lr"] * epoch)
        note(begun)
        return config["lr"] * epoch

    study = found(train, space=LR, strategy=ASHA, config={"epochs": 4})
    assert study.best.score == pytest.approx(4 * study.best.config["lr"])
    assert max(noted()) > 0  # Some went on from a state.
    assert study.reproduce().is_reproduced
    before = len(study.trials)
    assert len(study.resume(6, progress=False).trials) > before


def without_state(config, trial):
    return config["lr"]


@hpo.objective(continues=True)
def without_trial(config):
    return config["lr"]


@pytest.mark.parametrize(("train", "strategy", "says"), [
    (without_state, ASHA, r"without_state does not support this; .* @hpo.objective\(continues=True\), stop at"),
    (without_trial, ASHA, r"without_trial continues trainings, and needs .*; write `def without_trial\(config, "),
    (without_trial, "random", "stop at trial.amount and continue from trial.resume_dir"),
])  # fmt: skip
def test_a_function_that_cannot_continue_is_refused_with_what_to_write(train, strategy, says):
    refuses(hpo.HpoError, says, found, train, space=LR, strategy=strategy)
    assert not Path("runs").exists()


def test_a_space_may_be_a_function_of_a_trial_that_returns_what_it_suggests():
    def hp_space(trial):
        lr, act = trial.suggest_float("lr", 1e-4, 0.1, log=True), trial.suggest_categorical("act", ["a", "b"])
        return {"lr": lr, "act": act}

    asked = hpo.open(hp_space, name="asked", direction="maximize", settings={"track": "none"})
    asked.close()
    for study in (asked.study, found(lambda config: config["lr"], space=hp_space)):
        assert study.config["space"] == {"lr": {"low": 1e-4, "high": 0.1, "log": True}, "act": {"choices": ["a", "b"]}}
    with pytest.raises(hpo.HpoError, match=r"the suggested names as keys \(lr\), but returned rate"):
        found(lambda config: 1.0, space=lambda trial: {"rate": trial.suggest_float("lr", 0, 1)})


def test_a_value_is_reported_for_a_step_which_is_the_epoch_unless_there_is_one():
    def train(config, trial):
        trial.report(0.1, 0)
        trial.report(value=0.2, step=1)
        trial.report(loss=0.2, step=30)
        trial.report(loss=0.1, step=400, epoch=40)
        return config["lr"]

    first, second, named, with_epoch = outcome_of(found(train, trials=1, metric="accuracy")).curve
    assert [first, second] == [{"epoch": 0, "accuracy": 0.1}, {"epoch": 1, "accuracy": 0.2}]
    assert [named, with_epoch] == [{"epoch": 30, "loss": 0.2}, {"epoch": 40, "loss": 0.1, "step": 400}]


def test_what_an_objective_suggests_is_its_space():
    def train(trial):
        lr = trial.suggest_float("lr", LOW, 1e-1, log=True)
        others = {"layers": trial.suggest_int(name="layers", low=1, high=3), "p": trial.suggest_uniform("p", 0, 1)}
        act = trial.suggest_categorical("act", ACTS)
        trial.report(lr, 0)
        assert not trial.should_prune()
        assert trial.params == {"lr": lr, **others, "act": act}
        return lr * others["layers"] + trial.number

    study = found(train, space=None)
    assert study.trials["state"].tolist() == ["complete"] * 4
    numbers = {"lr": {"low": 1e-5, "high": 0.1, "log": True}, "layers": {"low": 1, "high": 3, "integer": True}}
    assert study.config["space"] == numbers | {"p": {"low": 0.0, "high": 1.0}, "act": {"choices": ["relu", "gelu"]}}


def test_a_training_that_raises_trial_pruned_is_stopped_and_no_failure(capsys):
    def train(trial):
        lr = trial.suggest_float("lr", 0.1, 1.0)
        for step in range(2):
            trial.report(lr * step, step)
            if lr < 0.5:
                raise optuna.TrialPruned("too bad")
        return lr

    study = found(train, space=None, trials=6)
    states = study.trials["state"].tolist()
    assert states == ["stopped" if lr < 0.5 else "complete" for lr in study.trials["lr"]]
    pruned = states.index("stopped")
    assert study.trials["score"][pruned] == 0.0
    _, out, _ = cli(capsys, "show", study.name, "--trial", str(pruned))
    assert ("at point 0 (TrialPruned" in out, "too bad" in out) == (True, True)


def test_a_closure_and_a_lambda_of_optunas_shape_are_searched():
    most = 4
    assert set(found(lambda trial: trial.suggest_int("x", 1, most), space=None).trials["x"]) == {1, 2, 3, 4}
    refuses(hpo.HpoError, "later", found, lambda trial: trial.suggest_int("x", 1, later), space=None)
    later = 4


def conditional(trial):
    act = trial.suggest_categorical("act", ["relu", "gelu"])
    return trial.suggest_float("x", 0, 1) if act == "gelu" else 0.0


def computed(trial):
    high = 3
    return trial.suggest_int("x", 1, high)


@pytest.mark.parametrize(("objective", "says"), [
    (conditional, r"^conditional\(trial\): trial.suggest_float\('x', 0, 1\) is inside .*; give the space yourself"),
    (computed, r"^computed\(trial\): .*: each argument must be a literal.*as_sampler"),
    (lambda trial: [LOW := 3, lambda: LOW, trial.suggest_int("x", 1, LOW)][2], "each argument must be a literal"),
    (lambda trial: trial.suggest_int("x", 0, 9, 3), r"at most 3 arguments without a name \(name, low, high\)"),
    (lambda trial: 1.0, r"^<lambda>\(trial\): suggests no hyperparameter"),
    (lambda t: t.suggest_float("x", 0, 1), "must have the parameter 'trial', given 't';"),
])  # fmt: skip
def test_an_objective_whose_space_is_not_in_its_text_is_refused_with_the_way(objective, says):
    refuses(hpo.HpoError, says, found, objective, space=None)


@pytest.mark.slow
def test_a_given_space_serves_what_is_not_in_the_text():
    space = {"act": ["relu", "gelu"], "x": {"low": 0.0, "high": 1.0, "when": {"act": ["gelu"]}}}
    assert set(found(conditional, space=space, trials=4).trials["state"]) == {"complete"}
    says = {"y": "is suggested by the function, but the space has only x", "x": "between 0 and 1, the ran"}
    for name, words in says.items():
        failed = found(lambda trial, name=name: trial.suggest_float(name, 0, 1), space={"x": (1.5, 2.0)}, trials=1)
        assert words in failed.trials["error"][0]


def make(name, tree=MIXED, seed=0, **changes):
    return make_strategy(STRATEGIES[name] | changes, space_from_dict(tree), seed)


def loss_of(point):
    return None if len(str(point["toy.lr"])) % 4 == 3 else point["toy.layers"] / point["toy.width"] + point["toy.lr"]


def suggested(trial):
    """Ask for the mixed space, last dimension first."""
    choices = {"toy.nonlinearity": ["tanh", "relu", "gelu"], "toy.lr": [0.001, 0.01, 0.1], "toy.width": [8, 16, 32, 64]}
    chosen = {name: trial.suggest_categorical(name, values) for name, values in choices.items()}
    return chosen | {"toy.layers": trial.suggest_int("toy.layers", 1, 5)}


def run(study, count, sign=1):
    def objective(trial):
        loss = loss_of(suggested(trial))
        if loss is None:
            raise RuntimeError("this point cannot be trained")
        return sign * loss

    study.optimize(objective, n_trials=count, catch=(RuntimeError,))
    return [trial.params for trial in study.trials]


@pytest.mark.parametrize(("name", "sign"), [*((name, 1) for name in QUICK), ("evolutionary", -1)])
def test_one_trial_at_a_time_gets_the_trials_of_our_own_search(name, sign):
    expected = [dict(trial.point) for trial in play(make(name), 4, loss_of)][:18]
    study = optuna.create_study(sampler=as_sampler(make(name)), direction="maximize" if sign == -1 else "minimize")
    assert run(study, len(expected), sign) == expected


def test_running_trials_are_left_out_of_the_next_round_and_not_proposed_again():
    study = optuna.create_study(sampler=as_sampler(make("evolutionary", population=4, surviving=0.5)))
    assert len({str(suggested(trial)) for trial in [study.ask() for _ in range(9)]}) == 9


def test_a_study_that_is_loaded_again_goes_on_with_the_same_points():
    for storage in ("sqlite:///study.db", None):
        study = optuna.create_study(storage=storage, study_name="s", sampler=as_sampler(make("evolutionary")))
        run(study, 2)
        study.ask()
        run(study, 5)
    other = optuna.load_study(storage="sqlite:///study.db", study_name="s", sampler=as_sampler(make("evolutionary")))
    assert run(other, 6) == run(study, 6)


def test_optimize_stops_when_the_strategy_is_finished():
    study = optuna.create_study(sampler=as_sampler(make("grid", {"toy": {"a": [0.1, 0.2, 0.3]}})))
    study.optimize(lambda trial: trial.suggest_float("toy.a", 0.1, 0.3, step=0.1), n_trials=50)
    assert sorted(trial.params["toy.a"] for trial in study.trials) == [0.1, 0.2, 0.3]
    assert study.ask().suggest_float("toy.a", 0.1, 0.3, step=0.1) in (0.1, 0.2, 0.3)


def test_conditional_parameters():
    def objective(trial):
        is_relu = trial.suggest_categorical("toy.nonlinearity", ["relu", "tanh"]) == "relu"
        if is_relu and trial.suggest_int("toy.layers", 1, 4) > 2:
            trial.suggest_categorical("toy.width", [8, 16, 32])
        return 0.0

    study = optuna.create_study(sampler=as_sampler(make("random", CONDITIONAL)))
    study.enqueue_trial({"toy.nonlinearity": "relu"})
    study.optimize(objective, n_trials=50)
    space = space_from_dict(CONDITIONAL)
    assert len({str(trial.params) for trial in study.trials}) == space.size
    assert all(space.contains(trial.params) for trial in study.trials)


def test_trials_that_others_made_are_learned_from():
    best = {"toy.layers": 1, "toy.width": 64, "toy.lr": 0.001, "toy.nonlinearity": "gelu"}
    study = optuna.create_study(sampler=as_sampler(make("evolutionary", population=6, surviving=0.2, mutation=0.05)))
    study.enqueue_trial(best)
    run(study, 12)
    children = [trial.params for trial in study.trials[6:]]
    assert study.trials[0].params == best
    assert best not in children
    assert all(sum(child[key] != value for key, value in best.items()) <= 2 for child in children)


WHEN = {"b": {"choices": [[1], 2]}, "c": {"values": [1, 2], "when": {"b": [[1]]}}}
MISTAKES = {
    "an unknown name": (lambda t: t.suggest_int("toy.layer", 1, 5), "'toy.layer', which is not in .*toy.layers"),
    "another range": (lambda t: t.suggest_int("toy.layers", 1, 6), r"space.toy.layers: .*high=6.*\[1, 2, 3, 4, 5\]"),
    "other choices": (lambda t: t.suggest_categorical("toy.nonlinearity", ["relu", "gelu"]), "toy.nonlinearity"),
    "another kind": (lambda t: t.suggest_float("toy.lr", 0.001, 0.1), "toy.lr"),
    "an unmet condition": (lambda t: (t.suggest_categorical("b", ["[1]", 2]), t.suggest_int("c", 1, 2)), "is not met"),
    "nothing under a condition": (lambda t: float(t.suggest_categorical("b", ["[1]", 2]) == 2), "space.c: .*not sug"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_an_objective_at_odds_with_the_space_is_one_clear_error(mistake):
    wrong, message = MISTAKES[mistake]
    sampler = as_sampler(make("random", WHEN if "condition" in mistake else MIXED))
    refuses(SpaceError, message, optuna.create_study(sampler=sampler).optimize, wrong, n_trials=4)


BOTH = {"x": {"low": 0.0, "high": 1.0}, "layers": {"choices": [1, 2, 3]}}


def two(x, layers):
    return {"score": (x - 0.3) ** 2 + layers, "size": float(layers) - x}


@pytest.mark.parametrize("name", ["evolutionary", "tpe"])
def test_several_objectives_get_the_trials_of_a_search_by_several_metrics(name):
    study = optuna.create_study(directions=["minimize", "maximize"], sampler=as_sampler(make(name, BOTH)))
    study.optimize(
        lambda t: [*two(t.suggest_float("x", 0, 1), t.suggest_categorical("layers", [1, 2, 3])).values()], n_trials=15
    )
    expected = play(make(name, BOTH), 15, lambda point: two(**point), Goal({"score": "minimize", "size": "maximize"}))
    assert [trial.params for trial in study.trials] == [dict(trial.point) for trial in expected][:15]


@pytest.mark.parametrize(("name", "given", "says"), [
    ("cma_es", {"directions": ["minimize", "minimize"]}, r"supports only one metric.*2 objectives"),
    ("random", {"pruner": optuna.pruners.HyperbandPruner()}, "pruner: must not be a HyperbandPruner, .*choose"),
    *((name, {}, "trains some points only partly, which works only in `hpo search`") for name in BY_STEPS),
])  # fmt: skip
def test_a_strategy_of_one_loss_or_of_steps_and_a_pruner_by_brackets_are_refused(name, given, says):
    refuses(ConfigError, says, optuna.create_study(sampler=as_sampler(make(name)), **given).ask)


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "says"), [("optuna_study", "40 trials, best"), ("ray_tuner", "best loss")])
def test_the_examples_of_other_tools_run(name, says):
    command = [sys.executable, str(REPOSITORY / f"examples/{name}.py")]
    assert says in subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_trial_that_asks_after_a_later_one_gets_the_earlier_point():
    alone, study = (optuna.create_study(sampler=as_sampler(make("evolutionary"))) for _ in range(2))
    expected = [suggested(alone.ask()) for _ in range(2)]
    begun = [study._storage.create_new_trial(study._study_id) for _ in expected]
    later, earlier = (optuna.trial.Trial(study, number) for number in reversed(begun))
    assert [suggested(later), suggested(earlier)] == expected[::-1]


def test_generations_come_to_their_end_with_several_trials_at_once():
    for _ in range(20):
        strategy = make("evolutionary", population=4, surviving=0.5, children=None, generations=3)
        study = optuna.create_study(sampler=as_sampler(strategy))
        study.optimize(lambda trial: float(len(str(suggested(trial)))), n_trials=100, n_jobs=3)
        assert 4 + 2 + 2 <= len(study.trials) < 100


def test_attributes_stand_beside_metrics_by_name():
    def train(trial):
        trial.set_user_attr("params", 17)
        trial.set_user_attr("seconds", 7_000)
        return {"loss": trial.suggest_float("lr", 0.1, 1.0), "error": 1.0}

    study = found(train, space=None, trials=1, direction=None, metric={"loss": "minimize", "error": "minimize"})
    outcome = outcome_of(study)
    assert (outcome.metrics["params"], outcome.seconds < 60) == (17, True)


def test_a_full_training_that_raises_trial_pruned_has_failed_and_the_scores_of_the_search_stay():
    @hpo.objective(continues=True)
    def train(config, trial):
        for epoch in range(trial.trained + 1, trial.amount + 1):
            if epoch == 3:
                raise optuna.TrialPruned
            trial.report(epoch=epoch, score=config["lr"])

    halving = {"name": "successive_halving", "min_amount": 1, "max_amount": 4, "eta": 2}
    study = found(train, space={"lr": [0.1, 0.2, 0.3, 0.4]}, strategy=halving, trials=4, direction="maximize")
    assert (study.best.point, set(study.trials["state"])) == ({"lr": 0.4}, {"complete", "stopped"})
