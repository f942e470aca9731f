"""A study whose data moved: it is read without them, and trained or tested with what is the same elsewhere."""

import contextlib
import json
import shutil
from pathlib import Path

import pytest
import yaml

import hpo as toolkit
from hpo.cli.main import main
from hpo.place import Place
from hpo.study.basis.changes import Basis
from hpo.study.files.folder import StudyFolder
from hpo.study.storage.copy import copy_study
from hpo.study.storage.mirror import Manifest
from tests.hpo.cli.commands import hpo, refused
from tests.studies import refuses, rows, shipped, toy_config

LINES = [f"text {number},{'good' if number % 2 else 'bad'}" for number in range(60)]


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    folder = tmp_path_factory.mktemp("started")
    with contextlib.chdir(folder):
        Path("lines.csv").write_text("\n".join(LINES) + "\n")
        report, objective = shipped("default", "report") | {"figures": False}, "toy_file:run_fold"
        tree = toy_config(trials=3, objective=objective, data={"path": "lines.csv"}, report=report)
        Path("toy.yaml").write_text(yaml.safe_dump(tree))
        assert main(["search", "--config", "toy.yaml"]) == 0
    return folder


@pytest.fixture
def moved(started):
    """A study in runs/toy whose lines.csv was moved to there.csv; other.csv has one line changed."""
    shutil.copytree(started / "runs", "runs")
    shutil.copy(started / "lines.csv", "there.csv")
    Path("other.csv").write_text("\n".join(["another text,bad", *LINES[1:]]) + "\n")
    return Path("runs/toy")


def read(folder):
    return json.loads((folder / "report.json").read_text())


@pytest.mark.slow
def test_a_study_is_reported_drawn_compared_and_loaded_without_its_data(moved, capsys):
    before = read(moved)
    assert hpo(capsys, "report", "toy", "--checklist", "--latex")[0] == 0
    assert all(read(moved)[key] == before[key] for key in ("winner", "metric", "counts", "importance", "data"))
    study = toolkit.load("toy")
    assert study.plot("best_so_far") is not None
    assert study.export("sqlite:///shared.db").trials == 3
    copy_study(StudyFolder(moved), "second")
    assert hpo(capsys, "compare", "toy", "second")[0] == 0


def test_a_command_takes_the_new_place_once(moved, capsys):
    assert "data.path=PATH" in refused(capsys, "test", "toy")
    assert hpo(capsys, "test", "toy", "data.path=there.csv")[0] == 0
    assert StudyFolder(moved).config().objective_config["data"]["path"] == "there.csv"
    code, out, err = hpo(capsys, "resume", "toy", "study.trials=4")
    assert code == 0, out + err
    report = read(moved)
    assert (len(rows(moved / "trials.csv")), report["study"]["allowed_changes"]) == (4, [])
    assert report["data"]["files"][0]["path"] == "there.csv"
    assert hpo(capsys, "reproduce", "toy", "--trial", "all")[0] == 0


@pytest.mark.slow
def test_resume_and_extend_and_the_methods_take_the_new_place_too(moved, capsys):
    assert hpo(capsys, "extend", "toy", "toy.momentum=0.25", "data.path=there.csv", "--best", "1")[0] == 0
    assert StudyFolder(Path("runs/toy-extended")).config().objective_config["data"]["path"] == "there.csv"
    assert hpo(capsys, "resume", "toy", "study.trials=4", "data.path=there.csv")[0] == 0
    shutil.move("there.csv", "third.csv")
    study = toolkit.load("toy")
    study.resume(5, data={"data.path": "third.csv"}, progress=False)
    assert read(moved)["study"]["allowed_changes"] == []
    assert study.test(data={"data.path": "third.csv"})["score"] <= 60
    with pytest.raises(toolkit.HpoError, match=r"data\.train: is not a data source .* data sources are data\.path"):
        study.test(data={"data.train": "third.csv"})
    refuses(toolkit.HpoError, r"toy\.lr: is not a data source", study.reproduce, data={"toy.lr": "0.1"})


def test_other_content_is_refused_by_name_and_nothing_is_kept(moved, capsys):
    before = (moved / "config.yaml").read_bytes()
    for command in (["test", "toy"], ["resume", "toy", "study.trials=4"], ["extend", "toy", "toy.momentum=0.25"]):
        err = refused(capsys, *command, "data.path=other.csv")
        assert "data.path=other.csv does not have the data that the study was started with (" in err
    assert (moved / "config.yaml").read_bytes() == before
    assert not (moved / "test.json").exists()
    # The same lines in another order are other data, since the order decides the batches.
    Path("order.csv").write_text("\n".join(reversed(LINES)) + "\n")
    assert "does not have the data" in refused(capsys, "resume", "toy", "study.trials=4", "data.path=order.csv")


HERE = ("data.path=lines.csv", "study.name=new")
MADE = {
    "extension": ("extend", "toy", *HERE, "--best", "1", "toy.momentum=0.25"),
    "imports": ("search", "--config", "config.yaml", *HERE, "study.imports=toy"),
    "table": ("search", "--config", "config.yaml", *HERE, "study.imports=toy/trials.csv"),
    "replay": ("search", "--replay", "toy", "--trust", *HERE, "dispatch=local", "track=none"),
}


@pytest.mark.nightly("replay")
@pytest.mark.slow("replay of a publication")
@pytest.mark.parametrize("made", [*MADE, "replay of a publication"])
def test_a_study_that_is_made_from_a_tested_one_brings_its_test_evaluations(moved, capsys, made):
    assert hpo(capsys, "test", "toy", "data.path=there.csv")[0] == 0
    is_published = made not in MADE
    if is_published:
        assert hpo(capsys, "report", "toy", "--publish")[0] == 0
    Path("far").mkdir()
    shutil.copytree("studies/toy" if is_published else moved, "far/toy")
    shutil.copy("there.csv", "far/lines.csv")
    with contextlib.chdir("far"):
        Path("config.yaml").write_text(Path("toy/config.yaml").read_text().replace("name: toy", "name: new"))
        code, out, err = hpo(capsys, *MADE["replay" if is_published else made])
        assert code == 0, out + err
        assert "used before (1 time, last by study 'toy'" in refused(capsys, "test", "new")


def test_a_test_log_that_cannot_be_read_makes_no_study(moved, capsys):
    (moved / "test_evaluations.jsonl").write_text("{}\n")
    says = "runs/toy/test_evaluations.jsonl:1: must be a JSON object with the keys fingerprint, study and time"
    assert says in refused(capsys, *MADE["extension"], "data.path=there.csv")
    assert not Path("runs/new").exists()


@pytest.mark.slow
def test_a_test_evaluation_reaches_the_mirror(moved, capsys, tmp_path):
    config = Path("config.yaml")
    config.write_text((moved / "config.yaml").read_text().replace("mirror: null", f"mirror: file://{tmp_path}/mirror"))
    code, out, err = hpo(capsys, "search", "--config", "config.yaml", "study.name=mirrored", "data.path=there.csv")
    assert code == 0, out + err
    for again in ([], ["--again"]):
        assert hpo(capsys, "test", "mirrored", *again)[0] == 0
    files = Manifest.at(Place(f"file://{tmp_path}/mirror", "study.mirror")).files
    assert len((tmp_path / "mirror/files" / files["test_evaluations.jsonl"]).read_text().splitlines()) == 2
    assert "test.json" in files


def test_data_without_a_fingerprint_may_not_move():
    def basis(path, data):
        return Basis({"data": {"path": path}, "space": {}}, data, None)

    split, file = {"kind": "random", "parts": {"train": {"fingerprint": "a"}}}, {"fingerprint": "f"}
    line = {"data.path": "data.path was 'a' and is now 'b'"}
    for before, now, changed in (
        (None, None, line),
        ({"parts": {"a": file}}, {"parts": {"b": file}}, {}),
        ({"parts": {"curves": file}}, {"parts": {"curves": file, "b": file}}, line),
        ({"parts": {"a": file}}, {"parts": {"b": {"fingerprint": "g"}}}, line),
        (split, split | {"has_digests": False, "files": {}}, line),
        (split, split | {"has_digests": True, "files": {}}, {}),
        (split | {"files": {"a": file}}, split | {"files": {"b": file}}, {}),
        (split | {"files": {"a": file}}, split | {"has_digests": True, "files": {"b": {"fingerprint": "g"}}}, line),
    ):
        assert basis("a", before).changed_config(basis("b", now)) == changed


def test_described_json_that_somebody_changed_is_refused_in_a_line(moved, capsys):
    for text in ("[]", '{"folds": "many"}', '{"folds": 1, "split": {"parts": 3}}', "{"):
        (moved / "described.json").write_text(text)
        assert "described.json" in refused(capsys, "report", "toy")
