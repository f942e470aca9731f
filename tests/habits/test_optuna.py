"""What people of Optuna type."""

from pathlib import Path

import optuna
import pytest
import yaml

import hpo
from hpo.cli.main import main
from hpo.trials.space.peers import of_peer
from tests.hpo.cli.commands import refused
from tests.hpo.commands.searched import HERE, found, note, noted, outcome_of
from tests.studies import rows


@pytest.mark.slow
def test_a_function_that_goes_on_from_its_state_takes_asha():
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

    asha = {"name": "asha", "min_amount": 1, "max_amount": 4, "eta": 2}
    given = {"direction": "maximize", "strategy": asha, "settings": HERE, "progress": False, "config": {"epochs": 4}}
    study = hpo.search(train, {"lr": (0.1, 1.0)}, trials=4, **given)
    assert study.best.score == pytest.approx(4 * study.best.config["lr"])
    assert max(noted()) > 0  # Some went on from a state.
    assert study.reproduce().is_reproduced
    before = len(study.trials)
    assert len(study.resume(6, progress=False).trials) > before


def test_a_space_may_be_a_function_of_a_trial_as_hp_space_is():
    def hp_space(trial):
        return {
            "lr": trial.suggest_float("lr", 1e-4, 0.1, log=True),
            "act": trial.suggest_categorical("act", ["a", "b"]),
        }

    asked = hpo.open(hp_space, name="asked", direction="maximize", settings={"track": "none"})
    asked.close()
    study = found(lambda config: config["lr"], space=hp_space)
    for made in (study, asked.study):
        space = yaml.safe_load((made.folder / "config.yaml").read_text())["space"]
        assert space == {"lr": {"low": 1e-4, "high": 0.1, "log": True}, "act": {"choices": ["a", "b"]}}


def test_a_space_that_returns_another_name_than_it_suggests_is_refused():
    def hp_space(trial):
        return {"learning_rate": trial.suggest_float("lr", 1e-4, 0.1), "batch": 32}

    with pytest.raises(
        hpo.HpoError,
        match=r"space: hp_space\(trial\) must return the names that it suggests \(lr\), given l",
    ):
        found(lambda config: 1.0, space=hp_space)


def test_asha_of_a_function_that_cannot_go_on_says_how_it_could():
    says = r"asha continues trainings, and train does not support this; .* @hpo.objective\(continues=True\), stop at"

    def train(config, trial):
        return config["lr"]

    strategy = {"name": "asha", "max_amount": 4}
    with pytest.raises(hpo.HpoError, match=says):
        hpo.search(train, {"lr": (0.1, 1.0)}, direction="maximize", strategy=strategy, settings=HERE)


def test_one_that_goes_on_without_seeing_the_trial_is_refused_with_what_to_write(tmp_path):
    @hpo.objective(continues=True)
    def c(config):
        return config["lr"]

    says = r"objective: c continues trainings, and needs .*; write `def c\(config, trial\)`, stop at trial.amount"
    for strategy in ({"name": "asha", "max_amount": 4}, "random"):
        with pytest.raises(hpo.HpoError, match=says + " and continue from trial.resume_dir"):
            hpo.search(c, {"lr": (0.1, 1.0)}, direction="maximize", strategy=strategy, settings=HERE)
    assert not (tmp_path / "runs").exists()


@pytest.mark.nightly
def test_the_decorator_works_without_parentheses():
    @hpo.objective
    def train(config):
        return config["lr"]

    study = found(train, space={"lr": [1, 2]}, trials=2)
    assert (study.name, study.best.score) == ("train", 2)


@pytest.mark.quick("<lambda>0")
@pytest.mark.nightly
@pytest.mark.parametrize(
    "report",
    [
        lambda t, v, n: t.report(v, n),
        lambda t, v, n: t.report(v, step=n),
        lambda t, v, n: t.report(value=v, step=n),
    ],
)
def test_a_value_is_reported_for_a_step(report):
    def train(config, trial):
        for step in range(3):
            report(trial, config["lr"] * step, step)
        return config["lr"]

    study = found(train, trials=1, metric="accuracy", direction="maximize")
    lr = study.best.config["lr"]
    assert outcome_of(study).curve == [{"epoch": step, "accuracy": lr * step} for step in range(3)]


def test_a_named_step_is_the_epoch():
    def train(config, trial):
        trial.report(loss=0.2, step=30)
        trial.report(loss=0.1, step=400, epoch=40)
        return config["lr"]

    curve = outcome_of(found(train, trials=1)).curve
    assert curve == [{"epoch": 30, "loss": 0.2}, {"epoch": 40, "loss": 0.1, "step": 400}]


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (optuna.distributions.FloatDistribution(0, 1), {"low": 0.0, "high": 1.0}),
        (optuna.distributions.FloatDistribution(1e-5, 0.1, log=True), {"low": 1e-5, "high": 0.1, "log": True}),
        (optuna.distributions.FloatDistribution(0.1, 1.1, step=0.5), {"low": 0.1, "high": 1.1, "step": 0.5}),
        (optuna.distributions.IntDistribution(1, 8), {"low": 1, "high": 8, "integer": True}),
        (optuna.distributions.IntDistribution(1, 7, step=2), {"low": 1, "high": 7, "step": 2}),
        (optuna.distributions.IntDistribution(1, 64, log=True), {"low": 1, "high": 64, "integer": True, "log": True}),
        (optuna.distributions.CategoricalDistribution(["a", None, 1]), {"choices": ["a", None, 1]}),
    ],
)
def test_a_distribution_is_read(given, read):
    assert of_peer(given, "space.lr") == read


LOW = 1e-5
SHAPED = {"space": None, "direction": "minimize"}


def shaped(trial):
    lr = trial.suggest_float("lr", LOW, 1e-1, log=True)
    config = {"layers": trial.suggest_int(name="layers", low=1, high=3), "act": trial.suggest_categorical("act", ACTS)}
    momentum = trial.suggest_uniform("momentum", 0, 1)
    for step in range(3):
        trial.report(lr + step, step)
        if trial.should_prune():
            raise optuna.TrialPruned
    trial.set_user_attr("params", 17)
    trial.set_user_attr("note", "text")
    assert trial.params == {"lr": lr, **config, "momentum": momentum}
    return lr * config["layers"] + trial.number


ACTS = ["relu", "gelu"]


def test_an_objective_of_optunas_shape_is_searched():
    study = found(shaped, **SHAPED, trials=8)
    assert study.trials["state"].tolist() == ["complete"] * 8
    assert study.trials["lr"].between(1e-5, 1e-1).all()
    assert set(study.trials["layers"]) == {1, 2, 3}
    assert set(study.trials["act"]) == {"relu", "gelu"}
    assert study.config["space"]["momentum"] == {"low": 0.0, "high": 1.0}
    assert outcome_of(study).metrics["params"] == 17
    assert [point["epoch"] for point in outcome_of(study).curve] == [0, 1, 2]
    assert study.reproduce().is_reproduced
    assert len(study.resume(10, progress=False).trials) == 10
    assert found(shaped, **SHAPED, trials=8).name == study.name


def test_an_objective_of_optunas_shape_is_searched_from_a_command_line_as_from_python(capsys, tmp_path):
    Path("shaped.py").write_text(
        "def f(trial):\n"
        "    return trial.suggest_float('x', 0, 1) * trial.suggest_int('study', 1, 3)\n"
        "def g(trial):\n"
        "    return sum(trial.suggest_float(f'x{i}', 0, 1) for i in range(3))\n"
    )
    words = ("study.trials=4", "study.direction=minimize", "dispatch=local", "track=none")
    assert main(["search", "objective=shaped:f", *words]) == 0
    assert "not tried first" not in capsys.readouterr().out
    study = hpo.search("shaped:f", trials=4, direction="minimize", name="python", settings=HERE, progress=False)
    assert rows(tmp_path / "runs/f/trials.csv") == rows(study.folder / "trials.csv")
    assert "give the space yourself" in refused(capsys, "search", "objective=shaped:g", *words)
    assert not (tmp_path / "runs/g").exists()


def test_a_closure_and_a_lambda_of_optunas_shape_are_searched():
    most = 4

    def objective(trial):
        return trial.suggest_int("x", 1, most)

    assert set(found(objective, **SHAPED, trials=4).trials["x"]) == {1, 2, 3, 4}
    assert len(found(lambda trial: trial.suggest_float("x", -1, 1) ** 2, **SHAPED, trials=4).trials) == 4


def conditional(trial):
    act = trial.suggest_categorical("act", ["relu", "gelu"])
    return trial.suggest_float("x", 0, 1) if act == "gelu" else 0.0


def looped(trial):
    return sum(trial.suggest_float(f"x{i}", 0, 1) for i in range(3))


def computed(trial):
    high = 3
    return trial.suggest_int("x", 1, high)


def handed_on(trial):
    return computed(trial)


def silent(trial):
    return 1.0


@pytest.mark.parametrize(
    ("objective", "says"),
    [
        (conditional, r"conditional\(trial\): trial.suggest_float\('x', 0, 1\) is inside a condition, loop"),
        (looped, r"looped\(trial\): .* is inside a condition, loop or function; give the space yourself"),
        (computed, r"computed\(trial\): .*: its arguments must be plain values.*as_sampler"),
        (handed_on, r"handed_on\(trial\): passes 'trial' to other code"),
        (silent, r"silent\(trial\): suggests no hyperparameter"),
    ],
)
def test_an_objective_whose_space_is_not_in_its_text_is_refused_with_the_way(objective, says):
    with pytest.raises(hpo.HpoError, match=f"^{says}") as refused:
        found(objective, **SHAPED)
    assert "\n" not in str(refused.value)


@pytest.mark.nightly
def test_a_space_that_is_given_serves_what_is_not_in_the_text():
    space = {"act": ["relu", "gelu"], "x": {"low": 0.0, "high": 1.0, "when": {"act": ["gelu"]}}}
    assert set(found(conditional, space=space, trials=8).trials["state"]) == {"complete"}
    errors = found(looped, space={"x0": (0.0, 2.0)}, trials=3).trials["error"]
    assert all(
        "is suggested by the function, but the space has only x0" in text
        or "must be between the suggested 0 and 1" in text
        for text in errors
    )


def test_a_pruned_trial_has_failed_and_says_why():
    def objective(trial):
        trial.report(trial.suggest_float("x", 0, 1), 1)
        raise optuna.TrialPruned("too bad")

    assert all("TrialPruned" in text and "too bad" in text for text in found(objective, **SHAPED).trials["error"])


def test_a_trial_of_another_name_is_told_its_name():
    def objective(t):
        return t.suggest_float("x", 0, 1)

    with pytest.raises(hpo.HpoError, match="must have the parameter 'trial', given 't';"):
        hpo.search(objective, trials=2)


@pytest.mark.nightly
def test_tuples_of_a_categorical_distribution_stay_tuples():
    with pytest.warns(UserWarning, match="for persistent storage"):
        space = {"x": optuna.distributions.CategoricalDistribution([(1, 2), (3, 4)])}
    study = found(lambda config: sum(config["x"] + ()), space=space)
    assert (study.best.score, study.best.config) == (7, {"x": (3, 4)})


def test_callbacks_texts_of_a_trial_and_a_target_are_as_in_optuna():
    def objective(trial):
        trial.set_user_attr("checkpoint", f"model_{trial.number}")
        return trial.suggest_float("x", 0.0, 1.0, step=0.1)

    seen = []

    def stop(study, trial):
        seen.append(trial.number)
        if trial.number == 2:
            study.stop()

    study = found(objective, space=None, trials=9, callbacks=[stop], settings={"study.lanes": 1}, name="stopped")
    assert seen == list(study.trials.number) == [0, 1, 2]
    assert list(study.trials.checkpoint) == ["model_0", "model_1", "model_2"]
    reached = found(objective, space=None, trials=11, name="reached", settings={"study.target": 0.5})
    assert reached.status.ended_by == "target"
    assert (reached.trials.score >= 0.5).any()
    assert len(reached.trials) < 11
