"""A study whose folder is moved or copied, `hpo resume --as`, which makes the copy a separate study, and `hpo sync`."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from mlflow import MlflowClient

import hpo as toolkit
from hpo.errors import TrackError
from hpo.study.files.status import read_status
from hpo.study.test_log import all_evaluations, write_evaluation
from hpo.track.addresses import TrackedStudy, pages_of_several, pages_of_study
from hpo.track.store import download_study
from tests.hpo.cli.commands import hpo, printed, prints, refused, searched
from tests.studies import StudyFolder, refuses, rows, run_toy, toy_config
from tests.tracked import new_store

STORE = "sqlite:///mlflow.db"
# Of libraries that MLflow imports.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.mark.slow
@pytest.mark.parametrize("transfer", [shutil.move, shutil.copytree])
def test_a_moved_or_copied_study_goes_on_and_its_test_evaluations_count_once(tmp_path, transfer):
    run_toy(tmp_path / "runs/toy", toy_config(trials=2))
    evaluation = {"time": "once", "study": "toy", "study_id": "1", "trial": 0, "fingerprint": "f"}
    write_evaluation(StudyFolder(Path("runs/toy")), evaluation)
    Path("elsewhere").mkdir()
    transfer("runs/toy", "elsewhere/toy")
    for place in ("runs/other", "elsewhere/other", "elsewhere/toy"):
        assert len(all_evaluations(StudyFolder(Path(place)), "f")) == 1
    there = run_toy(Path("elsewhere/toy").absolute(), toy_config(trials=4))
    assert there == run_toy(tmp_path / "whole", toy_config(trials=4))


@pytest.mark.slow
def test_a_copy_of_its_own_has_the_same_trials_and_another_identity(capsys):
    searched(capsys, toy_config("evolutionary", trials=4))
    said = prints(capsys, "resume", "toy", "--as", "deeper", "study.trials=7")
    assert ("study deeper: 7 trials" in said, "4/7" in said) == (True, False), "the four are not trained again"
    assert rows(Path("runs/deeper/trials.csv"))[:4] == rows(Path("runs/toy/trials.csv"))
    assert read_status(StudyFolder(Path("runs/toy"))).study_id != read_status(StudyFolder(Path("runs/deeper"))).study_id
    searched(capsys, toy_config("evolutionary", trials=7))
    assert rows(Path("runs/toy/trials.csv")) == rows(Path("runs/deeper/trials.csv"))
    assert hpo(capsys, "resume", "deeper")[0] == hpo(capsys, "reproduce", "deeper")[0] == 0


def test_a_bad_name_for_a_copy_is_refused_and_nothing_is_created(capsys):
    searched(capsys, toy_config("evolutionary", trials=1))
    before = sorted(Path("runs").iterdir())
    for name, words in (("toy", "runs/toy already exists"), ("../x", "name of the copy: ")):
        assert words in refused(capsys, "resume", "toy", "--as", name)
    for change in ("study.trails=9", "study.seed=5"):
        refused(capsys, "resume", "toy", "--as", "other", change)
    assert sorted(Path("runs").iterdir()) == before


@pytest.mark.slow
def test_each_working_directory_is_asked_for_its_own_file(monkeypatch, tmp_path):
    """MLflow keeps one connection for an address, wherever that leads from a second working directory."""
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        client = MlflowClient(new_store(tmp_path / name))
        experiments = ("0", client.create_experiment("b"))
        tags = [{"hpo.study_id": place, "hpo.kind": "study"} for place in experiments]
        runs = [client.create_run(*each).info for each in zip(experiments, (None, None), tags, strict=True)]
        here, there = (TrackedStudy(name, place, "score", "maximize") for place in experiments)
        assert runs[0].run_id in pages_of_study(STORE, here)[-1].address
        for says, call, *given in (
            (r"the study of this run has no config\.yaml", download_study, runs[1].run_id, STORE, tmp_path),
            (f"'{name}' and '{name}' are in different experiments", pages_of_several, STORE, [here, there]),
            (f"'{name}' .*`hpo sync {name}", pages_of_study, STORE, replace(here, id="gone")),
        ):
            refuses(TrackError, says, call, *given)


@pytest.mark.nightly
def test_mlflow_has_what_sync_sends_and_loses_the_runs_of_a_removed_study(capsys, monkeypatch, tmp_path):
    new_store(tmp_path)
    searched(capsys, toy_config(trials=3))
    hpo(capsys, "note", "toy", "odd", "--tag", "phase=final")
    assert f"3 trials are in {STORE}" in prints(capsys, "sync", "toy")
    client = MlflowClient(f"sqlite:///{Path('mlflow.db').absolute()}")
    (experiment,) = client.search_experiments(filter_string="name = 'tests'")

    def runs(kind):
        return client.search_runs([experiment.experiment_id], f"tags.`hpo.kind` = '{kind}'")

    (parent,) = runs("study")
    assert "reproduced: " in prints(capsys, "reproduce", f"runs:/{parent.info.run_id}")
    assert (parent.data.tags["phase"], "odd" in parent.data.tags["mlflow.note.content"]) == ("final", True)
    for run in list(runs("trial"))[:2]:
        client.delete_run(run.info.run_id)
    assert (hpo(capsys, "sync", "toy")[:2], len(runs("trial"))) == ((0, f"3 trials are in {STORE}\n"), 3)
    shutil.copytree("runs/toy", "runs/copy")
    out = prints(capsys, "resume", "copy", "study.trials=4", "track=mlflow")
    assert ("runs/copy is a copy of study 'toy'" in out, "hpo resume runs/copy --as NEW" in out) == (True, True)
    assert f"{STORE} has 4 trials of this study" in prints(capsys, "sync", "toy", code=1)
    shutil.rmtree("runs/copy")
    monkeypatch.setattr("hpo.track.projection.send_study", lambda *_: False)
    with pytest.raises(TrackError, match="study 'toy': could not send all 3 trials and the report to"):
        toolkit.load("toy").sync()
    assert "the study's runs in MLflow" in prints(capsys, "remove", "toy", code=2)
    assert printed(capsys, "remove", "toy", "--yes")[0]["removed"][0]["runs"] == 5
    assert [*runs("trial"), *runs("study")] == []
