"""What a function reports, notes, writes and knows while it is searched, and what callbacks get."""

import contextlib
import json
import logging
import re
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import hpo
from hpo.trials.curve_table import curves_table
from hpo.trials.trial import Outcome, TaskLayout, Trial
from hpo.workers.training.tasks import Payload
from tests.hpo.cli.commands import printed, refused
from tests.hpo.commands.searched import found, note, noted, outcome_of, refuses


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


@pytest.mark.slow
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


def called(config):
    assert config["lr"] != 0.4
    return {"score": config["lr"], "other": 1.0}


def search(lanes=1, **more):
    given = {"space": {"lr": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]}, "trials": 4, "metric": "score", "name": "called"}
    return found(called, **(given | {"settings": {"study.lanes": lanes}} | more))


@pytest.mark.slow
def test_it_is_called_with_each_trial_once_and_what_it_adds_is_a_user_action():
    calls = []

    def add(study, trial):
        calls.append(trial.number)
        assert trial.point == {"lr": trial.config["lr"]}
        assert study.best.score >= (trial.score or 0)
        if trial.number == 0:
            study.add({"lr": 0.4})

    study = search(callbacks=[add])
    (added,) = json.loads((study.folder / "report.json").read_text())["added_points"]
    assert (calls, added["point"]) == ([0, 1, 2, 3], {"lr": 0.4})
    search(callbacks=[add])
    assert len(calls) == 4, "what is in the record is not called again"
    study.resume(6, callbacks=[add], progress=False)
    assert len(calls) == 6


@pytest.mark.nightly("stop")
@pytest.mark.parametrize("way", ["stop", "raise"])
def test_it_ends_the_search_whose_report_is_written(way):
    def end(study, trial):
        if trial.number == 1:
            if way == "raise":
                raise hpo.Stop
            study.stop()

    study = search(callbacks=[end])
    assert (len(study.trials), study.status.ended_by) == (2, "callback")
    assert "hpo resume called study.trials=6" in [step.command for step in study.status.next]
    assert "ended by a callback" in (study.folder / "report.md").read_text()
    if way == "stop":
        assert len(search(callbacks=[end]).trials) == 2, "the same call changes nothing"
        assert len(study.resume(5, progress=False).trials) == 5, "a larger budget goes on"


def test_a_fault_is_reported_once_and_ends_nothing(caplog):
    def faulty(study, trial):
        refuses("a callback can only end the whole search", study.stop, trial.number)
        refuses("this thread runs the search of runs/called", study.resume, 9)
        raise ValueError("no connection")

    with caplog.at_level(logging.WARNING):
        assert len(search(callbacks=[faulty]).trials) == 4
    (line,) = [record.getMessage() for record in caplog.records if "callback" in record.getMessage()]
    assert line.startswith("the callback faulty raised ValueError at trial 0: no connection; the search goes on")
    for given in (faulty, [1]):
        refuses(r"callbacks: must be a list of functions f\(study, trial\)", search, callbacks=given, name="other")
    assert not Path("runs/other").exists()


def test_a_command_runs_when_a_trial_ends_and_no_shell_reads_it(caplog):
    Path("write.py").write_text("import sys\nopen('lines', 'a').write(' '.join(sys.argv[1:]) + '\\n')\nsys.exit(3)\n")
    command = f"{sys.executable} write.py {{trial}} {{state}} {{study}} '$HOME; {{score}}'"
    with caplog.at_level(logging.WARNING):
        search(trials=2, settings={"study.on_trial": command})
    lines = Path("lines").read_text().splitlines()
    assert [line.partition(" called $HOME; ")[0] for line in lines] == ["0 complete", "1 failed"]
    (line,) = [record.getMessage() for record in caplog.records if "on_trial" in record.getMessage()]
    assert "RuntimeError at trial 0: the command ended with exit code 3; the search goes on" in line


@pytest.mark.parametrize(("command", "says"), [
    ('"tell {trail}"', "given {trail}; did you mean 'trial'?"),
    ('"tell \'x"', "must be a command that a shell can read"),
    # It needs no quotes inside of the shell's.
    ("no-such-program {trial} 'two words'", "installed program, given 'no-such-program'"),
])  # fmt: skip
def test_a_bad_command_is_refused(capsys, command, says):
    assert says in refused(capsys, "search", f"study.on_trial={command}", "dispatch=local", is_silent=True)


RATES = {"lr": [0.1, 0.2, 0.3]}


def noting(config, trial):
    with pytest.raises(TypeError, match="a note must be a finite number or a text, given x="):
        trial.note("x", [1])
    trial.note("checkpoint", f"s3://bucket/{trial.number}")
    trial.note("lr", 7)
    trial.note("lr", 8.5)
    (trial.dir / "plots").mkdir()
    (trial.dir / "plots" / "predictions.csv").write_text("1,2\n")
    for epoch in (1, 2):
        trial.report(epoch=epoch, score=config["lr"] * epoch, trial=3)
    return {"score": config["lr"], "f1": 0.5, "kind": "small", "names": ["x"]}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    with contextlib.chdir(folder):
        found(noting, space=RATES, trials=2, metric="score", name="notes")
    return folder


@pytest.fixture
def study(made):
    shutil.copytree(made / "runs", "runs")
    return hpo.load("notes")


def test_it_is_a_column_and_is_in_the_report_and_of_a_shown_trial(study, capsys):
    trials = study.trials
    assert list(trials.checkpoint) == ["s3://bucket/0", "s3://bucket/1"]
    assert list(trials["note.lr"]) == [8.5, 8.5], "a note called as a hyperparameter has a column of its own"
    assert (list(trials.f1), list(trials.kind)) == ([0.5, 0.5], ["small", "small"])
    winner = json.loads((study.folder / "report.json").read_text())["winner"]
    assert winner["returned"] == {"f1": 0.5}
    assert winner["notes"] == {"checkpoint": f"s3://bucket/{winner['number']}", "lr": 8.5, "kind": "small"}
    task = printed(capsys, "show", "notes", "--trial", "1")[0]["tasks"][0]
    assert task["notes"] == {"checkpoint": "s3://bucket/1", "lr": 8.5, "kind": "small"}
    assert [Path(file).name for file in task["files"]] == ["predictions.csv"]


def test_curves_are_a_table(study):
    curves = study.curves
    assert list(curves.columns) == ["trial", "fold", "epoch", "score", "metric.trial"]
    assert curves[["trial", "epoch"]].to_numpy().tolist() == [[0, 1], [0, 2], [1, 1], [1, 2]]
    assert (study.folder / "curves.csv").read_text().startswith("trial,fold,epoch,score,metric.trial\n0,0,1,")
    uneven = Trial(0, 0, {}, {0: Outcome(curve=[{"epoch": 1, "loss": 0.5}, {"epoch": 2}])})
    assert curves_table([uneven], TaskLayout()).to_numpy().tolist() == [[0, 0, 1, 0.5], [0, 0, 2, None]]


def test_its_files_are_removed_by_clean(study):
    assert "files" not in study.clean().freed
    assert study.clean(files=True).freed["files"] > 0
    assert not any((study.folder / "files").iterdir())


def test_too_many_bytes_are_left_out_with_a_warning(caplog, capsys):
    def large(config, trial):
        (trial.dir / "x.bin").write_bytes(b"0" * 2000)
        trial.note("long", "x" * 1200)
        return config["lr"]

    study = found(large, space=RATES, trials=1, settings={"study.trial_files_bytes": 1000}, progress="auto")
    text = "".join(capsys.readouterr())
    assert "the files in trial.dir must take at most 1,000 bytes, given 2,000;" in text
    assert "cut to 1,000 characters" in text
    assert not list((study.folder / "files").rglob("*.bin"))
    assert len(outcome_of(study).notes["long"]) == 1000


def test_trainings_after_the_search_have_files_of_their_own(tmp_path):
    def writes(config, trial):
        (trial.dir / "seed").write_text(str(trial.seed))
        return config["lr"]

    study = found(writes, space=RATES, trials=2, data=30, settings={"study.finalists": 1})
    study.test(with_default=False)
    files = [*(study.folder / "files").rglob("seed")]
    assert len(files) > 2, "the winner is trained again on fresh seeds"
    assert len({path.read_text() for path in files}) == len(files), "no training has overwritten another one's"


def test_texts_of_set_user_attr_are_notes():
    def objective(trial):
        lr = trial.suggest_categorical("lr", [0.1, 0.2])
        trial.set_user_attr("checkpoint", "here")
        trial.set_user_attr("size", 3)
        return lr

    study = found(objective, space=None, trials=1)
    assert (study.trials.checkpoint[0], study.trials["size"][0]) == ("here", 3)
    assert Path(study.folder, "trials.csv").exists()
