"""Studies to and from other Optuna storages and journals, through the commands."""

from pathlib import Path

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

import hpo as toolkit
from hpo.errors import StudyError
from hpo.integrations.exchange.optuna_storage import read_optuna
from hpo.study.files.folder import StudyFolder
from hpo.study.files.imports import read_imports
from hpo.study.opening import read_study
from hpo.study.preparing.preparation import known_study
from hpo.trials.goal import Goal, Limit
from hpo.trials.record.storage import sqlite_url
from hpo.trials.space.reader import space_from_dict
from hpo.trials.trial import Proposal
from tests.hpo.cli.commands import prints, refused
from tests.hpo.commands.searched import found
from tests.studies import rows

TARGET = "sqlite:///other.db"
SPACE = {"lr": {"low": 0.0, "high": 1.0}}
LR = space_from_dict(SPACE)
BOTH = Goal({"accuracy": "maximize", "size": "minimize"})
pytestmark = pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")


@pytest.fixture
def toy():
    space = {"lr": [0.1, 0.2, 0.3], "act": ["relu", "gelu", "tanh"]}
    found(lambda at: {"relu": 1.0, "gelu": 2.0}[at["act"]] / at["lr"], space=space, trials=9, name="toy")
    return rows(Path("runs/toy/trials.csv"))


def original():
    return optuna.load_study(study_name="toy", storage=sqlite_url(StudyFolder(Path("runs/toy")).database_path))


def exported(capsys):
    out = prints(capsys, "export", "toy", "--optuna", TARGET, "--name", "there")
    return out, optuna.load_study(study_name="there", storage=TARGET)


def imported(capsys, url, *words):
    return prints(capsys, "import", "mine", "--optuna", url, *words)


@pytest.mark.slow
def test_an_exported_study_reads_there_as_it_does_here_and_comes_back(capsys, toy):
    assert {row["state"] for row in toy} == {"complete", "failed"}
    record = read_study(known_study("toy"))
    record.open_trial(9, Proposal(record.trials()[0].point))
    original().ask()
    out, there = exported(capsys)
    assert "9 trials (1 unfinished left out): study 'there'" in out
    here = original()
    assert there.metric_names == ["score"]
    for name in ("user_attrs", "direction", "best_params"):
        assert getattr(there, name) == getattr(here, name), name
    for ours, theirs in zip(here.trials[:-2], there.trials, strict=True):
        for name in ("number", "state", "values", "params", "distributions", "user_attrs"):
            assert getattr(ours, name) == getattr(theirs, name), name
        assert theirs.duration.total_seconds() == pytest.approx(ours.user_attrs["fold_0"]["seconds"], abs=1e-4)
    assert f"9 trials, {sum(row['state'] == 'failed' for row in toy)} failed" in imported(capsys, TARGET)
    for ours, back in zip(toy, rows(Path("runs/mine/trials.csv")), strict=True):
        for name in ("number", "state", "score", "lr", "act"):
            assert back[name] == ours[name]
        assert ours["error"] in back["error"]


@pytest.mark.usefixtures("toy")
def test_a_journal_is_a_storage_for_a_copy_too():
    toolkit.load("toy").export("journal://copy.log")
    there = optuna.load_study(study_name="toy", storage=JournalStorage(JournalFileBackend("copy.log")))
    assert [trial.values for trial in there.trials] == [trial.values for trial in original().trials]


@pytest.mark.slow
def test_bad_exports_are_one_line(capsys, toy):
    exported(capsys)
    for arguments, word in (
        (["toy", "--optuna", TARGET, "--name", "there"], "already has a study 'there'"),
        (["toy", "--optuna", "other.db"], "given other.db; write sqlite:///other.db\n"),
        (["toy", "--optuna", "sqlite:///missing/other.db"], "cannot open"),
        (["toy", "--optuna", "postgresql://me:secret@127.0.0.1:1/x"], "cannot open"),
    ):
        err = refused(capsys, "export", *arguments)
        assert word in err
        assert "secret" not in err


@pytest.mark.slow
def test_a_search_by_amounts_is_exported_as_a_pruner_of_optuna_would_have_left_it(capsys):
    @toolkit.objective(continues=True)
    def late(config, trial):
        trial.note("memory", 10.0 * config["layers"])
        for epoch in range(trial.trained + 1, (trial.amount or 8) + 1):
            trial.report(epoch=epoch, score=config["layers"] * (epoch - 3.0))

    asha = {"name": "asha", "min_amount": 1, "max_amount": 8, "eta": 3}
    space = {"layers": list(range(1, 31))}
    study = found(late, space=space, strategy=asha, trials=5, name="toy", settings={"study.lanes": 2})
    here, there = original(), exported(capsys)[1]
    assert [trial.value for trial in there.trials] == study.trials["score"].tolist()
    amounts = [trial.user_attrs["amount"] for trial in there.trials]
    # The best were trained further after the search.
    assert amounts == study.trials["amount"].tolist() != [trial.user_attrs["amount"] for trial in here.trials]
    assert [trial.state.name for trial in there.trials] == ["COMPLETE" if each == 8 else "PRUNED" for each in amounts]
    assert there.best_trial.number == study.best.number != here.best_trial.number
    for trial in there.trials:
        scores = {epoch: trial.params["layers"] * (epoch - 3.0) for epoch in range(1, trial.user_attrs["amount"] + 1)}
        assert trial.intermediate_values == scores
        assert trial.user_attrs["memory"] == 10.0 * trial.params["layers"]


def test_a_study_made_elsewhere_is_imported_and_learned_from(capsys):
    sampler = optuna.samplers.RandomSampler(seed=1)
    study = optuna.create_study(storage="sqlite:///old.db", study_name="old", direction="maximize", sampler=sampler)
    for number in range(6):
        trial = study.ask()
        trial.suggest_float("lr", 0.01, 0.1, log=True)
        if trial.suggest_categorical("optimizer", ["adam", None, True]) == "adam":
            trial.suggest_int("warmup", 1, 9)
        trial.report(0.5, number)
        trial.set_user_attr("memory", 10.0 + number)
        state = {1: TrialState.FAIL, 2: TrialState.PRUNED}.get(number, TrialState.COMPLETE)
        value = {3: float("inf")}.get(number, number / 10) if state == TrialState.COMPLETE else None
        if number != 5:
            study.tell(trial, value, state)
    assert {trial.params["optimizer"] for trial in study.trials[:5]} >= {"adam", None}
    with pytest.raises(StudyError, match="study 'old' has 6 trials, but at most 5 can be read"):
        read_optuna("sqlite:///old.db", "old", 5)
    out = imported(capsys, "sqlite:///old.db", "--study", "old")
    assert "4 trials, 2 failed, 1 unfinished left out, 1 pruned left out" in out
    table = rows(Path("runs/mine/trials.csv"))
    assert [row["state"] for row in table] == ["complete", "failed", "failed", "complete"]
    assert "inf" in table[2]["error"]
    space = {"lr": {"low": 0.01, "high": 0.1, "log": True}, "optimizer": {"choices": ["adam", None, True]}}
    space |= {"warmup": {"low": 1, "high": 9, "integer": True, "when": {"optimizer": "adam"}}}
    trials = read_imports(["mine"], space_from_dict(space), Goal({"value": "maximize"})).trials
    assert [dict(trial.point) for trial in trials] == [study.trials[number].params for number in (0, 1, 3, 4)]
    assert [trial.score for trial in trials] == [0.0, None, None, 0.4]
    limited = Goal({"value": "maximize"}, (Limit("memory", 12.0),))
    trials = read_imports(["mine"], space_from_dict(space), limited).trials
    assert [trial.excess > 0 for trial in trials] == [False, False, False, True]


def test_bad_imports_are_one_line_and_create_nothing(capsys):
    for name in ("old", "older"):
        optuna.create_study(storage="sqlite:///old.db", study_name=name)
    for name in ("text.log", "text.db"):
        Path(name).write_text("no journal\n{}\n")
    before = {path.name: path.read_bytes() for path in Path().iterdir()}
    for arguments, word in (
        (["x", "--optuna", "sqlite:///old.db"], "must name one of the 2 studies"),
        (["x", "--optuna", "sqlite:///old.db", "--study", "odl"], "did you mean 'old'?"),
        (["x", "--optuna", "sqlite:///old.db", "--study", "old"], "no complete or failed trial"),
        (["x", "--optuna", "sqlite:///old.db", "--metric", "loss"], "metric: has no effect with optuna"),
        (["x", "--optuna", "none.db"], "write sqlite:///none.db, or journal://none.db for a journal\n"),
        (["x", "--optuna", "text.log"], "given text.log; write journal://text.log\n"),
        (["x", "--optuna", "sqlite:///text.db"], "cannot open"),
        (["a/b", "--optuna", "sqlite:///old.db"], "name: must have 1 to 100"),
        (["x", "--ray", "missing"], "metric: is missing"),
        (["x", "--optuna", "old.db"], "must be the address of a storage, given old.db; write sqlite:///old.db\n"),
        (["x", "--optuna", "journal://none.log"], "there is no file none.log"),
        (["x", "--optuna", "journal://text.log"], "text.log is not an Optuna journal"),
    ):
        assert word in refused(capsys, "import", *arguments)
        assert {path.name: path.read_bytes() for path in Path().iterdir()} == before


@pytest.mark.parametrize("cut_off", ["", '{"op_code": 4, "wor'])
def test_a_journal_is_read_and_left_as_it_is_and_a_last_line_that_is_cut_off_loses_nothing_else(capsys, cut_off):
    study = optuna.create_study(storage=JournalStorage(JournalFileBackend("old.log")), direction="maximize")
    study.optimize(lambda trial: trial.suggest_float("lr", 0, 1), n_trials=2)
    expected = [({"lr": trial.params["lr"]}, trial.value) for trial in study.trials]
    with Path("old.log").open("a") as file:
        file.write(cut_off)
    before = {path.name: path.read_bytes() for path in Path().iterdir()}
    imported(capsys, f"journal://{Path.cwd()}/old.log" if cut_off else "journal://old.log")
    trials = read_imports(["mine"], space_from_dict({"lr": {"low": 0, "high": 1}}), Goal({"score": "maximize"})).trials
    assert [(dict(trial.point), trial.score) for trial in trials] == expected
    assert {path.name: path.read_bytes() for path in Path().iterdir() if path.is_file()} == before


@pytest.mark.parametrize("names", [["accuracy", "size"], None])
def test_a_study_of_several_objectives_is_learned_from_by_all_of_them(capsys, names):
    study = optuna.create_study(storage="sqlite:///two.db", directions=["maximize", "minimize"])
    if names:
        study.set_metric_names(names)

    def objective(trial):
        trial.set_constraint("memory", 2.0)
        return trial.suggest_float("lr", 0.0, 1.0), 10.0 + trial.number

    study.optimize(objective, n_trials=2)
    study.add_trial(optuna.trial.create_trial(state=TrialState.FAIL))
    assert "do not become limits: memory; " in imported(capsys, "sqlite:///two.db")
    trials = read_imports(["mine"], LR, BOTH).trials
    values = [dict(zip(BOTH.metrics, trial.values, strict=True)) for trial in study.trials[:2]]
    assert [(BOTH.scores(trial.losses), trial.excess) for trial in trials] == [(each, 0) for each in values]
    if names:
        other_order = Goal({"size": "minimize", "accuracy": "maximize"})
        assert [trial.loss for trial in read_imports(["mine"], LR, other_order).trials] == [10.0, 11.0]


@pytest.mark.slow
def test_several_metrics_are_objectives_limits_are_constraints_and_both_come_back(capsys):
    def two_metrics(config):
        if config["lr"] > 0.9:
            raise RuntimeError("diverged")
        return {"accuracy": 1 - (config["lr"] - 0.5) ** 2, "size": 10 * config["lr"]}

    given = {"space": SPACE, "metric": dict(BOTH.metrics), "direction": None}
    study = found(two_metrics, trials=12, name="toy", limits={"size": 5.0, "accuracy": 0.8}, **given)
    here, there = original(), exported(capsys)[1]
    assert (there.directions, there.metric_names) == (here.directions, [*BOTH.metrics])
    for name in ("values", "constraints"):
        assert [getattr(trial, name) for trial in there.trials] == [getattr(trial, name) for trial in here.trials]
    assert {trial.number for trial in there.best_trials} == set(study.front.number)
    imported(capsys, TARGET)
    own, back = (read_imports([name], LR, BOTH).trials for name in ("toy", "mine"))
    assert [(t.key, t.state, t.losses) for t in back] == [(t.key, t.state, t.losses) for t in own]
    assert sum(trial.state == "complete" for trial in own) > 5
    found(two_metrics, trials=3, name="later", limits={"size": 5.0}, settings={"study.imports": "mine"}, **given)
    limited = Goal(BOTH.metrics, (Limit("size", 5.0),))
    learned = [read_imports([at], LR, limited).trials for at in ("mine", "runs/later/imports.csv")]
    assert learned[0] == learned[1]
    assert {trial.excess > 0 for trial in learned[0]} == {True, False}


@pytest.mark.slow
@pytest.mark.usefixtures("toy")
def test_an_export_that_fails_leaves_nothing(monkeypatch):
    def fails(self, trials):
        self.add_trial(trials[0])
        raise KeyboardInterrupt

    monkeypatch.setattr(optuna.Study, "add_trials", fails)
    with pytest.raises(KeyboardInterrupt):
        toolkit.load("toy").export(TARGET)
    assert optuna.get_all_study_names(TARGET) == []
