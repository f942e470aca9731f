"""What is measured besides the score, limits that are set after the search, and who started a study."""

import json
from contextlib import closing
from pathlib import Path

import pytest

import hpo
from hpo.study.preparing.preparation import known_study
from hpo.study.test_log import write_evaluation
from hpo.workers.dispatch.other_searches import OtherSearch, Use
from tests.hpo.cli.commands import printed, prints, refused
from tests.hpo.commands.searched import found
from tests.studies import Notes, StudyFolder, read_study, refuses

pytestmark = pytest.mark.slow


def measured(config):
    return {"accuracy": 0.5 + config["width"] / 10, "latency_ms": 2.0 * config["width"]}


def searched(name, **options):
    options = {"space": {"width": [1, 2, 3, 4]}, "trials": 4, "metric": "accuracy", "direction": "maximize"} | options
    return found(measured, name=name, **options)


def test_who_started_a_study_is_listed_stays_who_continues_it_and_is_not_published(capsys, monkeypatch):
    monkeypatch.setattr("hpo.study.opening.user_name", lambda: "ada-lovelace")
    others = [OtherSearch(4242, "bob", Use(8.0, 2.0, (0, 1)))]
    monkeypatch.setattr("hpo.session.session.other_searches", lambda: others)
    study = searched("hers", trials=1, progress="none")
    assert "another search runs on this machine: process 4242 of bob with 8 cores and 2 GPUs" in capsys.readouterr().out
    monkeypatch.setattr("hpo.study.opening.user_name", lambda: "bob")
    searched("his", trials=1)
    study.resume(trials=2, progress=False)
    assert [view.study for view in hpo.studies(where="user=ada-lovelace").studies] == ["hers"]
    users = {each["study"]: each["user"] for each in printed(capsys, "list")[0]["studies"]}
    assert users == {"hers": "ada-lovelace", "his": "bob"}
    Path("runs/hers/status.json").unlink()
    assert hpo.load("hers").status.user == "ada-lovelace"
    study.report(publish=True)
    assert {"ada-lovelace" in path.read_text() for path in Path("studies/hers").iterdir()} == {False}


def test_what_is_measured_is_kept_of_every_trial_and_decides_nothing():
    plain, measuring = searched("plain"), searched("measuring", measured=["latency_ms"])
    points = [study.trials[["width", "score"]].to_dict("list") for study in (plain, measuring)]
    assert points[0] == points[1]
    assert list(measuring.trials.latency_ms) == [2.0 * width for width in measuring.trials.width]
    assert (measuring.best.scores, measuring.best.point) == ({"accuracy": 0.9, "latency_ms": 8.0}, plain.best.point)
    report = json.loads((measuring.folder / "report.json").read_text())
    assert report["winner"]["scores"]["latency_ms"]["mean"] == report["top"][0]["scores"]["latency_ms"] == 8.0
    assert "returns no `parameters`" in report["num_parameters"]["missing"]
    with pytest.raises(hpo.HpoError, match=r"returned no 'memory'; it returned: accuracy, latency_ms"):
        searched("missing", measured=["memory"])


@pytest.mark.parametrize(("measured", "says"), [
    ("latency_ms", "measured: must be a valid list, given 'latency_ms'"),
    (["a", "a"], "measured: must have each name once, given a twice"),
    (["accuracy"], "measured: must not name metrics of the study, given accuracy"),
    ([], r"measured: must have at least one name, such as \[latency_ms\], or be null"),
])  # fmt: skip
def test_what_cannot_be_measured_is_refused(measured, says):
    refuses(hpo.HpoError, says, searched, "refused", measured=measured)
    assert not Path("runs").exists()


def choices_of(study):
    with closing(read_study(known_study(study.name))) as record:
        changes = Notes(record).changed_choices
    return [(each.key, each.before, each.after, each.trials, each.is_test_open) for each in changes]


def test_limits_after_a_search_choose_again_and_train_nothing(capsys):
    study = searched("limited", strategy="evolutionary")
    before = study.trials
    assert study.best.point == {"width": 4}
    said = prints(capsys, "resume", "limited", "study.limits={latency_ms: 5}")
    assert ("limits: latency_ms <= 5, set after the search" in said, study.best.point) == (True, {"width": 2})
    assert study.trials[before.columns].equals(before)
    assert (study.status.limits, study.status.within_limits) == (["latency_ms <= 5"], 2)
    text = (study.folder / "report.md").read_text()
    assert "after 4 trials and before the test: from none to {'latency_ms': 5.0}" in text
    write_evaluation(StudyFolder(study.folder), {"study": "limited", "time": "2026-11-27", "fingerprint": "a"})
    for limits, width in (({"latency_ms": {"max": 7, "min": 5}}, 3), (None, 4)):
        study.resume(settings={"study.limits": limits}, progress=False)
        assert study.best.point == {"width": width}
    five, seven = {"latency_ms": 5.0}, {"latency_ms": {"max": 7.0, "min": 5.0}}
    changes = [(None, five, 4, False), (five, seven, 4, True), (seven, None, 4, True)]
    assert choices_of(study) == [("study.limits", *change) for change in changes]


def test_other_limits_than_those_of_the_search_leave_its_trials_what_they_are():
    options = {"strategy": {"name": "evolutionary", "population": 4}, "limits": {"latency_ms": 6}}
    options |= {"space": {"width": [1, 2, 3, 4, 5, 6, 7, 8], "depth": [1, 2, 3]}}
    study, same = searched("own", trials=14, **options), searched("same", trials=18, **options)
    study.resume(settings={"study.limits": {"latency_ms": 3}}, progress=False)
    assert study.best.point["width"] == 1
    assert study.reproduce(trial=study.best.number).is_reproduced
    assert len(hpo.replay("own", "study.name=again", "dispatch=local", "track=none", progress=False)) == 0
    assert hpo.load("again").best.point == study.best.point
    study.resume(settings={"study.limits": {"latency_ms": 6}}, progress=False)
    assert study.resume(trials=18, progress=False).trials[["width", "depth"]].equals(same.trials[["width", "depth"]])


def test_limits_are_refused_before_a_search_is_over_and_on_what_trials_did_not_return(capsys):
    study = searched("short", trials=2)
    says = refused(capsys, "resume", "short", "study.limits={latency_ms: 5}", "study.trials=4")
    assert "the search of 'short' is over (2 of 4 trials)" in says
    assert "study.name=NEW study.imports=short" in says
    says = refused(capsys, "resume", "short", "study.limits={latency: 5}")
    assert "given latency; trial 0 returned accuracy, latency_ms; did you mean 'latency_ms'?" in says
    assert (choices_of(study), study.status.limits) == ([], [])
    # Nor does a search go on while it has limits that it does not know.
    study.resume(settings={"study.limits": {"latency_ms": 5}}, progress=False)
    assert "hpo resume short 'study.limits=null'" in refused(capsys, "resume", "short", "study.trials=4")
