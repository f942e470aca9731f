"""`hpo.search` from Python: any function is searched, goes on, is reproduced, and refused in one line."""

import functools
import os
import signal
import threading
from pathlib import Path

import pytest

import hpo
from hpo.commands.study import Study
from hpo.session.stopping import Stopped
from tests.hpo.commands.searched import found, note, noted, score


def test_a_function_of_a_configuration_is_searched():
    study = found(score, trials=6)
    assert isinstance(study, Study)
    assert study.trials["state"].tolist() == ["complete"] * 6
    assert study.best.score == max(study.trials["score"]) == score(study.best.config)
    assert set(study.best.point) == {"lr", "net.layers", "net.act", "dropout"}
    assert all(isinstance(layers, int) for layers in study.trials["net.layers"])


def test_the_same_call_returns_the_finished_study_and_a_larger_budget_goes_on():
    def train(config):
        note(config["lr"])
        return config["lr"]

    first = found(train, trials=3)
    assert found(train, trials=3).name == first.name == "train"
    assert len(noted()) == 3
    assert len(found(train, trials=5).trials) == 5
    assert len(noted()) == 5
    assert len(hpo.load("train").resume(7, progress=False).trials) == 7
    assert len(found(train, trials=3).trials) == 7
    assert len(noted()) == 7
    assert len(hpo.load("train").resume(8, name="more", progress=False).trials) == 8
    assert len(hpo.load("train").trials) == 7


@pytest.mark.slow
def test_another_function_or_space_is_another_study():
    def makes(offset):
        def train(config):
            return config["lr"] + offset

        return train

    names = [found(makes(0)).name, found(makes(1)).name, found(makes(1), space={"lr": (0.0, 1.0)}).name]
    names.append(found(makes(0)).name)
    assert names == ["train", "train-2", "train-3", "train"]
    with pytest.raises(hpo.HpoError, match="the code of the function changed"):
        found(makes(1), name="train")


def test_values_of_the_configuration_are_tried_first():
    config = {"lr": 0.02, "net": {"layers": 2, "act": "tanh"}, "dropout": 0.25, "offset": 3}
    study = found(lambda given: given["lr"] + given["offset"], config=config, trials=2)
    first = study.trials.iloc[0]
    assert (first["lr"], first["net.layers"], first["net.act"], first["dropout"]) == (0.02, 2, "tanh", 0.25)
    assert first["score"] == 3.02


@pytest.mark.quick("dict")
@pytest.mark.nightly
@pytest.mark.parametrize("described", [dict, hpo.Examples])
def test_companions_are_given_by_a_decorator(described):
    def examples(_config):
        return described(size=20, labels=[0, 1] * 10)

    def scored(_config, trial):
        return {"score": float(len(trial.test)), "model": float((trial.checkpoint_dir / "model").read_text())}

    @hpo.objective(describe_data=examples, run_test=scored)
    def train(config, trial):
        if trial.checkpoint_dir:
            trial.checkpoint_dir.mkdir(parents=True, exist_ok=True)
            (trial.checkpoint_dir / "model").write_text(str(config["lr"]))
        return config["lr"] + len(trial.validation or ())

    study = found(train, settings={"split.folds": 2, "split.test_fraction": 0.2})
    assert study.test(with_default=False) == {"score": 4.0, "model": study.best.config["lr"]}
    with pytest.raises(hpo.HpoError, match="opened"):
        study.test()
    with pytest.raises(hpo.HpoError, match="there is no optional function 'run_tests'; did you mean 'run_test'"):
        hpo.objective(run_tests=scored)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"space": None}, "space: is missing"),
        ({"direction": None}, "direction: is missing; give 'maximize' or 'minimize'"),
        (
            {"workers": 2, "settings": {"dispatch.workers": 4}},
            "workers: must be given once, given 2",
        ),
        ({"strategy": "evolution"}, "did you mean 'evolutionary'"),
        ({"settings": {"study.lane": 3}}, "there is no 'study.lane'; did you mean 'study.lanes'"),
        ({"space": {"lr": (1, 2, 3)}}, "a tuple must be a range"),
        ({"space": {"lr": []}}, "space.lr"),
        ({"trials": 0}, "trials: must be"),
        (
            {"objective": lambda lr: lr},
            "must be f(config), f(config, trial), f(trial) or f(task), given objective(lr); read",
        ),
        ({"objective": lambda lr, net: lr}, "read searched values from config: config['lr']"),
        ({"metric": {}, "direction": None}, "metric: must have a direction for each metric"),
        ({"metric": {"a": "max", "b": "minimize"}, "direction": None}, "metric.a: must be 'maximize' or 'minimize'"),
        ({"metric": ["a", "b"]}, "metric: must be one name"),
        ({"metric": {"a": "maximize", "b": "minimize"}}, "direction: has no effect with metric"),
        ({"limits": {"memory": "8 GB"}}, "limits.memory: must be a number"),
        ({"choose": {"a": 1}}, "choose: must name metrics of the study"),
        ({"space": [1, 2]}, "space: must be a dict, given a list"),
        ({"strategy": 3}, "strategy: must be a name"),
        ({"settings": {"dispatch": "loca"}}, "dispatch must be one of"),
        ({"objective": {"a": 1}, "space": None}, "must be a complete configuration"),
        ({"objective": lambda: 1}, "f(config, trial), f(trial) or f(task), given objective("),
        ({"objective": lambda a, b, c: 1}, "f(config, trial), f(trial) or f(task), given objective("),
        ({"objective": 3}, "must be a function"),
        (
            {"objective": {}, "space": {"lr": (0, 1)}, "metric": "f1"},
            "space, metric: have no effect with a",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(arguments, says):
    with pytest.raises(hpo.HpoError) as refusal:
        found(arguments.pop("objective", score), **arguments)
    assert says in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert not Path("runs").exists()


def test_a_function_that_cannot_be_sent_names_what_it_holds():
    lock = threading.Lock()

    def train(config):
        with lock:
            return config["lr"]

    with pytest.raises(hpo.HpoError, match=r"cannot be sent to workers: it uses `lock`, a lock; create this in"):
        found(train)

    class Holder:
        def __init__(self):
            self.locks = {"one": [lock]}

        def score(self, config):
            return config["lr"]

    def helped(config):
        return train(config)

    held = [Holder().score, helped, functools.partial(lambda inner, config: 1, lock)]
    named = ["`score.__self__.locks['one'][0]`, a lock", "`lock`, a lock", "`objective.args[0]`, a lock"]
    with Path("numbers").open("w+") as file:
        held.append(lambda config: file.read())
        named.append("`file`, a TextIOWrapper")
        for objective, name in zip(held, named, strict=True):
            with pytest.raises(hpo.HpoError) as refusal:
                found(objective)
            assert name in str(refusal.value)


def test_an_interrupt_saves_and_leaves_the_process_alive():
    def train(config, trial):
        if trial.number == 2 and not Path("again").exists():
            Path("again").touch()
            os.kill(os.getpid(), signal.SIGINT)
            trial.report(loss=1.0)
        return config["lr"]

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt, match="2 of 4 trials are saved in runs/train; the same call goes on"):
        found(train)
    assert len(found(train).trials) == 4
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interrupt_while_a_study_is_continued_says_what_is_saved(monkeypatch):
    """Workers take seconds to start; what was finished before is saved all along."""
    study = found(score, trials=2)

    def interrupted(*_):
        raise Stopped(signal.SIGINT)

    monkeypatch.setattr("hpo.session.session.make_dispatcher", interrupted)
    with pytest.raises(KeyboardInterrupt, match="stopped: 2 of 5 trials are saved"):
        study.resume(5, progress=False)


def test_a_whole_configuration_is_composed_as_on_the_command_line():
    tree = hpo.compose("data=none", "model=none", "training=none", "space=none", "objective=tests.toy:score", "+a=1")
    assert tree["study"]["trials"] == 16
    assert tree["a"] == 1


@pytest.mark.slow
def test_a_study_shows_itself():
    study = found(score)
    assert f"{study.best.score:.4g}" in study._repr_html_()
    assert repr(study) == "hpo.load('runs/score')"
    with pytest.raises(hpo.HpoError, match="figure: must be one of"):
        study.plot("best")
