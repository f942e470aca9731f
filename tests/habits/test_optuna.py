"""What people of Optuna type."""

import optuna
import pytest

import hpo
from hpo.engine.space.peers import of_peer
from tests.hpo.interface.searched import HERE, found, note, noted, outcome_of


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
    assert study.reproduce()["holds"].all()
    before = len(study.trials)
    assert len(study.resume(6, progress=False).trials) > before


def test_asha_of_a_function_that_cannot_go_on_says_how_it_could():
    says = r"asha continues trainings, which train does not offer; .* @hpo.objective\(continues=True\), stop at"

    def train(config, trial):
        return config["lr"]

    strategy = {"name": "asha", "max_amount": 4}
    with pytest.raises(hpo.HpoError, match=says):
        hpo.search(train, {"lr": (0.1, 1.0)}, direction="maximize", strategy=strategy, settings=HERE)


@pytest.mark.parametrize("report", [lambda t, v, n: t.report(v, n), lambda t, v, n: t.report(v, step=n)])
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
        trial.report(loss=0.1, step=40, epoch=4)
        return config["lr"]

    curve = outcome_of(found(train, trials=1)).curve
    assert curve == [{"epoch": 30, "loss": 0.2}, {"epoch": 4, "loss": 0.1, "step": 40}]


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
