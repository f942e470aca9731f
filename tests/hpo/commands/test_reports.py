"""What a function reports while it is searched, and what its training knows."""

import re
import threading

import pytest

import hpo
from hpo.study.files.folder import StudyFolder
from hpo.study.results.run import StudyRun
from hpo.workers.training.tasks import Payload
from tests.hpo.commands.searched import found, note, noted


def test_what_a_function_reports_is_its_curve_and_what_it_returns_its_result():
    def train(config, trial):
        for epoch in (1, 2, 3):
            trial.report(epoch=epoch, loss=1 / epoch)
        trial.report({"loss": 0.1, "epoch": 4}, more=False)
        return {"accuracy": config["lr"], "loss": 0.1}

    study = found(train, metric="accuracy", trials=1)
    (trial,) = StudyRun.read(StudyFolder(study.folder)).history
    assert [dict(point) for point in trial.outcomes[0].curve] == [
        *({"epoch": epoch, "loss": 1 / epoch} for epoch in (1, 2, 3)),
        {"epoch": 4, "loss": 0.1},
    ]
    assert study.best.score == study.best.config["lr"]
    assert study.trials["cost"].tolist() == [4.0]


@pytest.mark.slow
def test_points_without_an_epoch_are_counted_and_report_may_be_the_second_argument():
    def train(config, report):
        report(loss=2.0)
        report(loss=1.0)
        return config["lr"]

    study = found(train, trials=1)
    (trial,) = StudyRun.read(StudyFolder(study.folder)).history
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
    told = re.compile(r"ZeroDivisionError at (test_reports\.py:\d+|line \d+ of train): at ")
    assert all(told.search(error) for error in study.trials["error"])
    with pytest.raises(hpo.HpoError, match="every trial failed, the first with: fold 0: ZeroDivisionError at"):
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
    assert "in the thread that runs the function" in study.trials["error"][0]
    trial = hpo.RunningTrial(Payload("a:b", {}, "score").task({}))
    assert list(trial.run(lambda: trial.report(loss=1.0))) == [{"loss": 1.0}]
    with pytest.raises(RuntimeError, match="after the end"):
        trial.report(loss=1.0)


def test_a_condition_on_texts_is_written_as_it_is_in_a_file():
    space = {"opt": ["sgd", "adam"], "momentum": {"values": [0.1, 0.9], "when": {"opt": ["sgd"]}}}
    study = found(lambda config: config.get("momentum", 0.0), space=space, trials=3)
    assert study.best.config == {"opt": "sgd", "momentum": 0.9}
