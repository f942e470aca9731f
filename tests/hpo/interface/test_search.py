"""`hpo.search` from Python: any function is searched, goes on, is reproduced, and refused in one line."""

import functools
import importlib
import json
import os
import shlex
import signal
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import hpo
from hpo.cli.main import main
from hpo.engine.training.payload import Payload
from hpo.interface.study import Study

SPACE = {"lr": hpo.log(1e-4, 1.0), "net": {"layers": [1, 2, 3], "act": ["relu", "tanh"]}, "dropout": (0.0, 0.5)}
HERE = {"dispatch": "local", "track": "none"}


def note(value):
    """Keep what a function saw, which is a copy of what is written here."""
    with Path("noted").open("a") as file:
        file.write(json.dumps(value) + "\n")


def noted():
    return [json.loads(line) for line in Path("noted").read_text().splitlines()]


def score(config):
    return -abs(config["lr"] - 0.01) - config["net"]["layers"] - config["dropout"]


def found(objective, **arguments):
    settings = HERE | arguments.pop("settings", {})
    arguments = {"space": SPACE, "trials": 4, "direction": "maximize", "progress": False} | arguments
    return hpo.search(objective, **arguments, settings=settings)


def test_a_function_of_a_configuration_is_searched():
    study = found(score, trials=6)
    assert isinstance(study, Study)
    assert study.trials["state"].tolist() == ["complete"] * 6
    assert study.best.score == max(study.trials["score"]) == score(study.best.config)
    assert set(study.best.point) == {"lr", "net.layers", "net.act", "dropout"}
    assert all(isinstance(layers, int) for layers in study.trials["net.layers"])


def test_what_a_function_reports_is_its_curve_and_what_it_returns_its_result():
    def train(config, trial):
        for epoch in (1, 2, 3):
            trial.report(epoch=epoch, loss=1 / epoch)
        trial.report({"loss": 0.1, "epoch": 4}, more=False)
        return {"accuracy": config["lr"], "loss": 0.1}

    study = found(train, metric="accuracy", trials=1)
    with study._read() as (_, record, _):
        (trial,) = record.history()
    assert [dict(point) for point in trial.outcomes[0].curve] == [
        *({"epoch": epoch, "loss": 1 / epoch} for epoch in (1, 2, 3)),
        {"epoch": 4, "loss": 0.1},
    ]
    assert study.best.score == study.best.config["lr"]
    assert study.trials["cost"].tolist() == [4.0]


def test_points_without_an_epoch_are_counted_and_report_may_be_the_second_argument():
    def train(config, report):
        report(loss=2.0)
        report(loss=1.0)
        return config["lr"]

    with found(train, trials=1)._read() as (_, record, _):
        (trial,) = record.history()
    assert [point["epoch"] for point in trial.outcomes[0].curve] == [1, 2]


def test_a_function_knows_its_training():
    def train(config, trial):
        note([trial.number, trial.fold, trial.repeat, trial.seed, trial.threads, trial.amount])
        return config["lr"]

    found(train, trials=2, settings={"study.repeats": 2})
    assert [place[:3] for place in noted()] == [[0, 0, 0], [0, 0, 1], [1, 0, 0], [1, 0, 1]]
    assert len({seed for *_, seed, _, _ in noted()}) == 4


def test_a_training_that_falls_behind_is_stopped_at_its_report():
    def train(config, trial):
        try:
            for epoch in range(1, 6):
                trial.report(epoch=epoch, score=-config["lr"])
        except ValueError:
            raise AssertionError("a stopped training is no error of its own") from None
        finally:
            note(trial.number)
        return -config["lr"]

    study = found(train, trials=12, settings={"study.stop_rule": "median", "study.lanes": 1})
    assert "stopped" in set(study.trials["state"])
    assert sorted(noted()) == list(range(12))


def test_a_stopped_training_that_reports_again_is_stopped_again():
    def train(config, trial):
        for epoch in range(1, 6):
            try:
                trial.report(epoch=epoch, score=-config["lr"])
            except hpo.TrainingStopped:
                with pytest.raises(hpo.TrainingStopped):
                    trial.report(epoch=epoch + 1, score=0.0)
                return None
        return -config["lr"]

    states = found(train, trials=12, settings={"study.stop_rule": "median", "study.lanes": 1}).trials["state"]
    assert set(states) == {"complete", "stopped"}


def test_an_error_of_a_function_is_the_failure_of_its_trial():
    def train(config, trial):
        trial.report(loss=1.0)
        raise ZeroDivisionError(f"at {config['net']['act']}")

    study = found(train, trials=2)
    assert all("ZeroDivisionError: at " in error for error in study.trials["error"])
    with pytest.raises(hpo.HpoError, match="no trial is complete; the first failed with: fold 0: ZeroDivisionError"):
        _ = study.best


def test_a_report_from_another_thread_or_after_the_end_is_an_error():
    def train(config, trial):
        raised = []

        def report():
            try:
                trial.report(loss=1.0)
            except RuntimeError as error:
                raised.append(str(error))

        thread = threading.Thread(target=report)
        thread.start()
        thread.join()
        raise ValueError(raised[0])

    study = found(train, trials=1)
    assert "in the thread in which the function was called" in study.trials["error"][0]
    trial = hpo.RunningTrial(Payload("a:b", {}, "score").task({}))
    assert list(trial.run(lambda: trial.report(loss=1.0))) == [{"epoch": 1, "loss": 1.0}]
    with pytest.raises(RuntimeError, match="after the end"):
        trial.report(loss=1.0)


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


def test_another_function_or_space_is_another_study():
    def makes(offset):
        def train(config):
            return config["lr"] + offset

        return train

    names = [found(makes(0)).name, found(makes(1)).name, found(makes(1), space={"lr": (0.0, 1.0)}).name]
    names.append(found(makes(0)).name)
    assert names == ["train", "train-2", "train-3", "train"]
    with pytest.raises(hpo.HpoError, match=r"code: objective.pkl"):
        found(makes(1), name="train")


@pytest.mark.parametrize("kind", ["array", "path", "set", "method", "partial", "module", "module inside"])
def test_what_a_function_uses_makes_it_another(kind):
    """A change of it is another study, or is refused; a function that uses the same is the same."""

    def uses(value):
        Path("own_scale.py").write_text(f"SCALE = {value}\n")

        class Scale:
            def by(self):
                return value

        def module_inside(config):
            import own_scale

            return own_scale.SCALE

        wraps = {
            "array": lambda held: lambda config: float(held[0]),
            "path": lambda held: lambda config: float(held.name),
            "set": lambda held: lambda config: float(max(held)),
            "method": lambda held: held.by,
            "partial": lambda held: held,
        }
        held = {
            "array": np.array([value]), "path": Path(str(value)), "set": {value, 0}, "method": Scale(),
            "partial": functools.partial(lambda factor, config: factor, value),
        }  # fmt: skip
        if kind == "module inside":
            return module_inside
        if kind == "module":
            monkeypatched = importlib.import_module("own_scale")
            importlib.reload(monkeypatched)
            return lambda config: monkeypatched.SCALE
        if kind == "method":
            return lambda config: held["method"].by()
        return wraps[kind](held[kind])

    sys.path.insert(0, str(Path.cwd()))
    try:
        study = found(uses(1), trials=2)
        assert found(uses(1), trials=2).name == study.name
        with pytest.raises(hpo.HpoError, match=r"code: (objective\.pkl|own_scale\.py)"):
            found(uses(2), trials=4, name=study.name)
    finally:
        sys.path.remove(str(Path.cwd()))
        sys.modules.pop("own_scale", None)


def test_a_kept_function_is_read_again_by_its_study_alone():
    def train(config, trial):
        return config["lr"] + trial.seed % 7

    study = found(train, trials=3)
    again = study.reproduce("all")
    assert (again["recorded"] == again["reproduced"]).all()
    (study.folder / "objective.pkl").unlink()
    with pytest.raises(hpo.HpoError, match="was given from Python and is kept in the folder of its study"):
        hpo.load(study.name).resume(5, progress=False)


def test_the_report_says_that_a_kept_function_is_needed():
    study = found(lambda config: config["lr"])
    study.report(title="why?")
    report = json.loads((study.folder / "report.json").read_text())
    assert any("was given from Python and lies in objective.pkl" in caution for caution in report["cautions"])
    assert report["study"]["title"] == "why?"
    assert main([*shlex.split(report["study"]["rerun"])[1:], "dispatch=local", "track=none"]) == 0
    assert main(["reproduce", study.name]) == 0
    with pytest.raises(hpo.HpoError, match="start a study of it from Python"):
        hpo.search(study._folder.config().to_dict(), name="other")


def test_a_strangers_function_is_not_read():
    def train(config):
        return config["lr"]

    study = found(train, trials=2)
    path = study.folder / "objective.pkl"
    path.write_bytes(path.read_bytes().replace(b"lr", b"lx"))
    for use in (lambda: hpo.load(study.name).best, lambda: hpo.load(study.name).reproduce()):
        with pytest.raises(hpo.HpoError, match="was not made here"):
            use()


def test_values_of_the_configuration_are_tried_first():
    config = {"lr": 0.02, "net": {"layers": 2, "act": "tanh"}, "dropout": 0.25, "offset": 3}
    study = found(lambda given: given["lr"] + given["offset"], config=config, trials=2)
    first = study.trials.iloc[0]
    assert (first["lr"], first["net.layers"], first["net.act"], first["dropout"]) == (0.02, 2, "tanh", 0.25)
    assert first["score"] == 3.02


def test_companions_are_given_by_a_decorator():
    def examples(_config):
        return {"size": 20, "labels": [0, 1] * 10}

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
    with pytest.raises(hpo.HpoError, match="has no companion 'run_tests'; did you mean 'run_test'"):
        hpo.objective(run_tests=scored)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"space": None}, "space: is missing"),
        ({"direction": None}, "direction: is missing; give 'maximize' or 'minimize'"),
        ({"strategy": "evolution"}, "did you mean 'evolutionary'"),
        ({"settings": {"study.lane": 3}}, "there is no 'study.lane'; did you mean 'study.lanes'"),
        ({"space": {"lr": (1, 2, 3)}}, "a tuple is a range"),
        ({"space": {"study": {"lr": (0, 1)}}}, "'study' is a section of the search's own"),
        ({"space": {"lr": []}}, "space.lr"),
        ({"trials": 0}, "study.trials"),
        ({"objective": lambda lr: lr}, "must be called as f(config) or f(config, trial), given objective(lr); what is"),
        ({"objective": lambda lr, net: lr}, "what is searched comes in config: config['lr']"),
        ({"space": [1, 2]}, "space: must be a dict, given a list"),
        ({"strategy": 3}, "strategy: must be a name"),
        ({"settings": {"dispatch": "loca"}}, "dispatch must be one of"),
        ({"objective": {"a": 1}, "space": None}, "is no whole configuration"),
        ({"objective": lambda: 1}, "must be called as f(config) or f(config, trial)"),
        ({"objective": lambda a, b, c: 1}, "must be called as f(config) or f(config, trial)"),
        ({"objective": 3}, "must be a function"),
        ({"objective": {}, "space": {"lr": (0, 1)}, "metric": "f1"}, "space, metric: no effect beside a whole configu"),
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

    with pytest.raises(hpo.HpoError, match=r"'train' cannot be sent to workers: it uses `lock`, a lock; make that in"):
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


def test_a_whole_configuration_is_composed_as_on_the_command_line():
    tree = hpo.compose("data=none", "model=none", "training=none", "space=none", "objective=tests.toy:score", "+a=1")
    assert tree["study"]["trials"] == 16
    assert tree["a"] == 1


def test_a_study_shows_itself():
    study = found(score)
    assert f"{study.best.score:.4g}" in study._repr_html_()
    assert repr(study) == "hpo.load('runs/score')"
    with pytest.raises(hpo.HpoError, match="figure: must be one of"):
        study.plot("best")
