"""Studies to and from other Optuna storages, through the command."""

import json
from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState

from hpo.commands.search import load, search
from hpo.errors import ConfigError, StudyError
from hpo.integrations.exchange.optuna_storage import export_study
from hpo.study.files.folder import StudyFolder
from hpo.study.files.imports import read_imports
from hpo.study.notes import imports_of
from hpo.study.opening import read_study
from hpo.trials.goal import Goal, Limit
from hpo.trials.record.storage import sqlite_url
from hpo.trials.space.reader import space_from_dict
from hpo.trials.trial import Proposal
from tests.hpo.cli.commands import hpo, refused
from tests.hpo.commands.searched import HERE
from tests.hpo.study.test_full_training import run, tree
from tests.studies import SPACES, prepared, rows, run_toy, toy_config

TARGET = "sqlite:///other.db"


@pytest.fixture
def toy():
    """A finished study with failures in it, in runs/toy."""
    run_toy(Path("runs/toy"), toy_config("random", SPACES["mixed"], trials=48))
    return rows(Path("runs/toy/trials.csv"))


def original():
    return optuna.load_study(study_name="toy", storage=sqlite_url(StudyFolder(Path("runs/toy")).database_path))


@pytest.mark.slow
def test_an_exported_study_reads_there_as_it_does_here(capsys, toy):
    assert {row["state"] for row in toy} == {"complete", "failed"}
    record = read_study(prepared(Path("runs/toy"), toy_config("random", SPACES["mixed"], trials=48)))
    record.open_trial(48, Proposal(record.trials()[0].point))
    original().ask()
    code, out, _ = hpo(capsys, "export", "toy", "--optuna", TARGET)
    assert (code, "48 trials (1 unfinished left out): study 'toy'" in out) == (0, True)
    here, there = original(), optuna.load_study(study_name="toy", storage=TARGET)
    assert there.user_attrs == here.user_attrs
    assert there.direction == here.direction
    assert there.best_params == here.best_params
    for ours, theirs in zip(here.trials[:-2], there.trials, strict=True):
        for name in ("number", "state", "values", "params", "distributions", "user_attrs", "datetime_complete"):
            assert getattr(ours, name) == getattr(theirs, name), name


@pytest.mark.slow
def test_trials_that_were_trained_further_after_the_search_are_exported_with_all_of_their_training(capsys):
    verdict = run(Path("runs/toy"), tree(5))[0].run
    code, out, _ = hpo(capsys, "export", "toy", "--optuna", TARGET)
    assert (code, f"{len(verdict.trials)} trials: study 'toy'" in out) == (0, True)
    here, there = original(), optuna.load_study(study_name="toy", storage=TARGET)
    assert verdict.further_trained
    assert [trial.value for trial in there.trials] == [trial.score for trial in verdict.trials]
    assert [trial.user_attrs["amount"] for trial in there.trials] == [trial.amount for trial in verdict.trials]
    folds = [trial.user_attrs["fold_0"] for trial in there.trials]
    assert folds == [trial.outcomes[0].to_dict() for trial in verdict.trials]
    assert there.best_trial.number == verdict.winner.number != here.best_trial.number
    assert there.trials[0].params == here.trials[0].params


@pytest.mark.slow
def test_an_export_that_fails_leaves_nothing(toy, monkeypatch):
    def fails(self, trials):
        self.add_trial(trials[0])
        raise KeyboardInterrupt

    monkeypatch.setattr(optuna.Study, "add_trials", fails)
    with pytest.raises(KeyboardInterrupt):
        export_study(sqlite_url(Path("runs/toy/study.db")), "toy", TARGET, "toy")
    assert optuna.get_all_study_names(TARGET) == []


@pytest.mark.nightly
def test_bad_exports_are_one_line(capsys, toy):
    assert hpo(capsys, "export", "toy", "--optuna", TARGET)[0] == 0
    for arguments, word in (
        (["toy", "--optuna", TARGET], "already has a study 'toy'"),
        (["tox", "--optuna", TARGET], "no 'tox'"),
        (["toy", "--optuna", "sqlite:///missing/other.db"], "cannot open"),
        (["toy", "--optuna", "postgresql://me:secret@127.0.0.1:1/x"], "cannot open"),
    ):
        err = refused(capsys, "export", *arguments)
        assert word in err
        assert "secret" not in err


@pytest.mark.slow
def test_an_exported_study_comes_back(capsys, toy):
    hpo(capsys, "export", "toy", "--optuna", TARGET)
    code, out, _ = hpo(capsys, "import", "back", "--optuna", TARGET)
    failed = sum(row["state"] == "failed" for row in toy)
    assert (code, f"48 trials, {failed} failed" in out) == (0, True)
    back = rows(Path("runs/back/trials.csv"))
    same = ("number", "state", "score", *(key for key in toy[0] if key.startswith("toy.")))
    assert [{key: row[key] for key in same} for row in back] == [{key: row[key] for key in same} for row in toy]
    assert list(back[0]) == ["number", "round", "state", "score", *same[3:], "fold_0", "num_parameters", "error"]


def elsewhere(url="sqlite:///old.db", name="old"):
    """A study made without us: one trial of each kind."""
    sampler = optuna.samplers.RandomSampler(seed=1)
    study = optuna.create_study(storage=url, study_name=name, direction="maximize", sampler=sampler)
    for number in range(6):
        trial = study.ask()
        trial.suggest_float("lr", 0.01, 0.1, log=True)
        if trial.suggest_categorical("optimizer", ["adam", None, True]) == "adam":
            trial.suggest_int("warmup", 1, 9)
        trial.report(0.5, number)
        state = {1: TrialState.FAIL, 2: TrialState.PRUNED}.get(number, TrialState.COMPLETE)
        if number != 5:
            study.tell(
                trial, {3: float("inf")}.get(number, number / 10) if state == TrialState.COMPLETE else None, state
            )
    return study


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_a_study_made_elsewhere_is_taken_over_and_learnt_from(capsys):
    study = elsewhere()
    assert {trial.params["optimizer"] for trial in study.trials[:5]} >= {"adam", None}
    code, out, _ = hpo(capsys, "import", "mine", "--optuna", "sqlite:///old.db", "--study", "old")
    assert (code, "5 trials, 3 failed, 1 unfinished left out" in out) == (0, True)
    table = rows(Path("runs/mine/trials.csv"))
    assert [row["state"] for row in table] == ["complete", "failed", "failed", "failed", "complete"]
    assert "pruned at step 2" in table[2]["error"]
    assert "inf" in table[3]["error"]
    space = space_from_dict(
        {
            "lr": {"low": 0.01, "high": 0.1, "log": True},
            "optimizer": {"choices": ["adam", None, True]},
            "warmup": {"low": 1, "high": 9, "integer": True, "when": {"optimizer": "adam"}},
        }
    )
    trials = read_imports(["mine"], space, Goal({"value": "maximize"})).trials
    assert [dict(trial.point) for trial in trials] == [trial.params for trial in study.trials[:5]]
    assert [trial.score for trial in trials] == [0.0, None, None, None, 0.4]


def test_bad_imports_are_one_line_and_create_nothing(capsys):
    elsewhere()
    elsewhere(name="older")
    optuna.create_study(storage="sqlite:///empty.db")
    Path("text.db").write_text("this is no database")
    before = {path.name for path in Path().iterdir()}
    for arguments, word in (
        (["x", "--optuna", "sqlite:///old.db"], "must name one of the 2 studies"),
        (["x", "--optuna", "sqlite:///old.db", "--study", "odl"], "did you mean 'old'?"),
        (["x", "--optuna", "sqlite:///text.db"], "cannot open"),
        (["x", "--optuna", "sqlite:///empty.db"], "no finished trial"),
        (["a/b", "--optuna", "sqlite:///old.db"], "name: must be"),
        (["x", "--optuna", "sqlite:///old.db", "--metric", "loss"], "metric: has no effect with optuna"),
        (["x", "--ray", "missing"], "metric: is missing"),
    ):
        assert word in refused(capsys, "import", *arguments)
        assert {path.name for path in Path().iterdir()} == before


def test_a_file_that_is_no_address_is_told_with_its_address(capsys):
    elsewhere()
    Path("j.log").write_text("")
    for given, written in (
        ("old.db", "write sqlite:///old.db\n"),
        ("j.log", "write journal://j.log\n"),
        ("none.db", "write sqlite:///none.db, or journal://none.db for a journal\n"),
    ):
        said = refused(capsys, "import", "x", "--optuna", given)
        assert said.endswith(f"optuna: must be the address of a storage, given {given}; {written}")


LR = space_from_dict({"lr": {"low": 0.0, "high": 1.0}})
BOTH = Goal({"accuracy": "maximize", "size": "minimize"})


def elsewhere_with_two(names):
    """A study of two objectives made without us, with a failed and an unfinished trial."""
    study = optuna.create_study(storage="sqlite:///two.db", directions=["maximize", "minimize"])
    if names:
        study.set_metric_names(names)
    for number in range(4):
        trial = study.ask()
        trial.suggest_float("lr", 0.0, 1.0)
        if number == 1:
            study.tell(trial, state=TrialState.FAIL)
        elif number < 3:
            study.tell(trial, [number / 10, 10.0 + number])
    return study


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
@pytest.mark.parametrize("names", [["accuracy", "size"], None])
def test_a_study_of_several_objectives_is_learnt_from_by_all_of_them(capsys, names):
    """Without names there they are those of the new study, by their order."""
    study = elsewhere_with_two(names)
    assert hpo(capsys, "import", "mine", "--optuna", "sqlite:///two.db")[0] == 0
    trials = read_imports(["mine"], LR, BOTH).trials
    assert [trial.state for trial in trials] == ["complete", "failed", "complete"]
    assert [BOTH.scores(trial.losses) for trial in (trials[0], trials[2])] == [
        dict(zip(BOTH.metrics, study.trials[number].values, strict=True)) for number in (0, 2)
    ]
    limited = read_imports(["mine"], LR, Goal(BOTH.metrics, (Limit("size", 11.0),))).trials
    assert [trial.excess > 0 for trial in limited] == [False, False, True]
    other_order = Goal({"size": "minimize", "accuracy": "maximize"})
    if names:
        assert [trial.loss for trial in read_imports(["mine"], LR, other_order).trials[::2]] == [10.0, 12.0]
    for goal, word in (
        (Goal({"accuracy": "maximize"}), "has the metrics"),
        (Goal({"accuracy": "minimize", "size": "minimize"}), "has the metrics"),
        (Goal(BOTH.metrics, (Limit("memory", 1.0),)), "has no column 'memory'"),
    ):
        with pytest.raises((ConfigError, StudyError), match=word):
            read_imports(["mine"], LR, goal)


def two_metrics(config):
    if config["lr"] > 0.9:
        raise RuntimeError("diverged")
    return {"accuracy": 1 - (config["lr"] - 0.5) ** 2, "size": 10 * config["lr"]}


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_constraints_of_a_study_made_elsewhere_are_said_not_to_be_limits(capsys):
    study = elsewhere_with_two(["accuracy", "size"])
    assert hpo(capsys, "import", "free", "--optuna", "sqlite:///two.db")[1].count("constraints") == 0
    trial = study.ask()
    trial.suggest_float("lr", 0.0, 1.0)
    trial.set_constraint("memory", 2.0)
    study.tell(trial, [0.5, 9.0])
    code, out, _ = hpo(capsys, "import", "mine", "--optuna", "sqlite:///two.db")
    assert (code, "do not become limits: memory; " in out) == (0, True), out
    abouts = [json.loads(Path(f"runs/{name}/import.json").read_text()) for name in ("free", "mine")]
    assert [about.get("constraints_left_out") for about in abouts] == [None, ["memory"]]
    assert all(trial.excess == 0 for trial in read_imports(["mine"], LR, BOTH).trials)


@pytest.mark.slow
def test_an_export_has_the_limits_as_constraints(capsys):
    limits = {"size": 5.0, "accuracy": 0.8}
    settings = {"space": {"lr": {"low": 0.0, "high": 1.0}}, "metric": dict(BOTH.metrics), "settings": HERE}
    search(two_metrics, trials=12, name="toy", limits=limits, progress=False, **settings)
    front = set(load("toy").front.number)
    assert {trial.number for trial in original().best_trials} == front
    assert hpo(capsys, "export", "toy", "--optuna", TARGET, "--name", "whole")[0] == 0
    there = optuna.load_study(study_name="whole", storage=TARGET)
    assert {trial.number for trial in there.best_trials} == front
    assert [trial.constraints for trial in there.trials] == [trial.constraints for trial in original().trials]


@pytest.mark.slow
def test_several_metrics_go_to_optuna_come_back_and_are_learnt_from(capsys):
    common = {"space": {"lr": {"low": 0.0, "high": 1.0}}, "metric": dict(BOTH.metrics), "progress": False}
    search(two_metrics, trials=12, name="toy", settings=HERE, **common)
    here = original()
    assert here.metric_names == [*BOTH.metrics]
    assert hpo(capsys, "export", "toy", "--optuna", TARGET)[0] == 0
    there = optuna.load_study(study_name="toy", storage=TARGET)
    assert (there.directions, there.metric_names) == (here.directions, here.metric_names)
    assert [trial.values for trial in there.trials] == [trial.values for trial in here.trials]
    assert [trial.number for trial in there.best_trials] == [trial.number for trial in here.best_trials]
    assert hpo(capsys, "import", "back", "--optuna", TARGET)[0] == 0
    own, back = (read_imports([name], LR, BOTH).trials for name in ("toy", "back"))
    assert [(t.key, t.state, t.losses) for t in back] == [(t.key, t.state, t.losses) for t in own]
    assert sum(trial.state == "complete" for trial in own) > 5
    settings = HERE | {"study.imports": "back"}
    search(two_metrics, trials=3, name="later", limits={"size": 5.0}, settings=settings, **common)
    limited = Goal(BOTH.metrics, (Limit("size", 5.0),))
    learnt = [read_imports([at], LR, limited).trials for at in ("back", "runs/later/imports.csv")]
    folder = StudyFolder(Path("runs/later"))
    noted = optuna.load_study(study_name="later", storage=sqlite_url(folder.database_path)).user_attrs["imports"]
    assert learnt[0] == learnt[1] == imports_of(noted)
    assert {trial.excess > 0 for trial in learnt[0]} == {True, False}
