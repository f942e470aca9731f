"""A study to its end, and what is left of it where the end fails."""

import json

import pytest

from hpo.errors import StudyError
from hpo.session.session import run_study
from hpo.study.opening import open_study
from hpo.workers.dispatch.local import LocalDispatcher
from tests.studies import REPOSITORY, prepared, toy_config


def test_what_was_searched_is_reported_although_the_final_training_fails(tmp_path, monkeypatch):
    def fail(*_):
        raise StudyError("final training of trial 3 failed: no memory")

    monkeypatch.setattr("hpo.session.session.make_final_model", fail)
    study = prepared(tmp_path / "toy", toy_config(trials=5))
    record = open_study(study)
    with pytest.raises(StudyError, match="no memory"):
        run_study(study, record, LocalDispatcher(str(REPOSITORY)), None)
    record.close()
    report = json.loads((tmp_path / "toy" / "report.json").read_text())
    assert report["counts"]["proposed"] == 5
    assert (tmp_path / "toy" / "trials.csv").exists()
