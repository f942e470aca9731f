"""What a function reports while it is searched, what it knows about its training, and the models that it writes."""

import json
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

import hpo
from hpo.workers.training.tasks import Payload
from tests.hpo.commands.searched import found, note, noted, outcome_of


def test_reports_are_the_curve_and_the_returned_metrics_the_result():
    def train(config, trial):
        for epoch in (1, 2, 3):
            trial.report(epoch=epoch, loss=1 / epoch)
        trial.report({"loss": 0.1, "epoch": 4}, more=False)
        return {"accuracy": config["lr"], "loss": 0.1}

    study = found(train, metric="accuracy", trials=1)
    steps = [(1, 1.0), (2, 1 / 2), (3, 1 / 3), (4, 0.1)]
    assert [dict(point) for point in outcome_of(study).curve] == [{"epoch": e, "loss": loss} for e, loss in steps]
    assert (study.best.score, study.trials["cost"].tolist()) == (study.best.config["lr"], [4.0])


def test_a_function_knows_its_training():
    def train(config, trial):
        note([trial.number, trial.fold, trial.repeat, trial.seed, trial.threads, trial.amount])
        return config["lr"]

    found(train, trials=2, settings={"study.repeats": 2})
    assert [place[:3] for place in noted()] == [[0, 0, 0], [0, 0, 1], [1, 0, 0], [1, 0, 1]]
    assert len({seed for *_, seed, _, _ in noted()}) == 4


def test_a_training_that_falls_behind_is_stopped_at_this_and_every_later_report():
    def train(config, trial):
        note(trial.number)
        for epoch in range(1, 6):
            try:
                trial.report(epoch=epoch, score=-config["lr"])
            except ValueError:
                raise AssertionError("a stopped training is no error of its own") from None
            except hpo.TrainingStopped:
                with pytest.raises(hpo.TrainingStopped):
                    trial.report(epoch=epoch + 1, score=0.0)
                if trial.number % 2:
                    raise
                return None
        return -config["lr"]

    study = found(train, trials=12, settings={"study.stop_rule": "median", "study.lanes": 1})
    assert (set(study.trials["state"]), sorted(noted())) == ({"complete", "stopped"}, list(range(12)))


def test_an_error_of_a_function_is_the_failure_of_its_trial():
    def train(config, trial):
        trial.report(loss=1.0)
        raise ZeroDivisionError(f"at {config['net']['act']}")

    study = found(train, trials=2)
    with_place = re.compile(r"ZeroDivisionError at (test_reports\.py:\d+|line \d+ of train): at ")
    assert all(with_place.search(error) for error in study.trials["error"])
    with pytest.raises(hpo.HpoError, match="every trial failed, the first with: fold 0: ZeroDivisionError at"):
        _ = study.best


def test_a_report_from_another_thread_or_after_the_end_is_an_error():
    def train(config, trial):
        with ThreadPoolExecutor() as pool:
            pool.submit(trial.report, loss=1.0).result()

    assert "in the thread that runs the function" in found(train, trials=1).trials["error"][0]
    trial = hpo.RunningTrial(Payload("a:b", {}, "score").task({}))
    assert list(trial.run(lambda: trial.report(loss=1.0))) == [{"loss": 1.0}]
    with pytest.raises(RuntimeError, match="after the end"):
        trial.report(loss=1.0)


SIX = {"x": [1, 2, 3, 4, 5, 6]}


def writes(config, trial):
    note(config["x"])
    trial.checkpoint_dir.mkdir(parents=True)
    (trial.checkpoint_dir / "weights").write_text(str(config["x"]))
    if config["x"] == 6:
        raise ValueError("no luck")
    return {"score": config["x"], "size": config["x"]}


def test_the_models_of_the_best_trials_are_kept():
    study = found(writes, space=SIX, trials=6, settings={"study.checkpoints": 3})
    assert sorted(int(path.read_text()) for path in study.folder.glob("checkpoints/*/weights")) == [3, 4, 5]
    place = f"checkpoints/trial_{study.best.number:04d}"
    assert (study.best.model_dir, (study.folder / place / "weights").read_text()) == (study.folder / place, "5")
    model = json.loads((study.folder / "report.json").read_text())["winner"]["model"]
    assert (model["checkpoint_dir"], len(noted())) == (place, 6)


def test_a_winner_whose_model_was_deleted_is_trained_once_more():
    goals = {"metric": {"score": "maximize", "size": "minimize"}, "direction": None, "choose": {"size": 1.0}}
    study = found(writes, space=SIX, trials=6, **goals)
    assert (study.best.point, (study.best.model_dir / "weights").read_text()) == ({"x": 1}, "1")
    trainings = len(noted())
    assert trainings <= 7
    study.resume(progress=False)
    assert len(noted()) == trainings
