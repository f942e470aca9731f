"""What people do who share machines and folders: who started what, what else runs here, and limits that come later."""

import json
from pathlib import Path

import pytest

import hpo
from hpo.workers.dispatch.other_searches import OtherSearch, Use
from tests.hpo.cli.commands import hpo as hpo_says
from tests.hpo.commands.searched import found

SPACE = {"width": [1, 2, 3, 4]}


def measured(config):
    return {"accuracy": 0.5 + config["width"] / 10, "latency_ms": 2.0 * config["width"]}


def searched(name, **options):
    return found(measured, space=SPACE, name=name, trials=4, metric="accuracy", direction="maximize", **options)


def test_who_started_a_study_is_listed_and_stays_who_goes_on_with_it(capsys, monkeypatch):
    monkeypatch.setattr("hpo.study.opening.user_name", lambda: "ada")
    study = searched("hers")
    monkeypatch.setattr("hpo.study.opening.user_name", lambda: "bob")
    searched("his")
    study.resume(trials=4, progress=False)
    assert [view.study for view in hpo.studies(where="user=ada").studies] == ["hers"]
    code, out, _ = hpo_says(capsys, "list", "--json")
    assert (code, {each["study"]: each["user"] for each in json.loads(out)["studies"]}) == (
        0,
        {"hers": "ada", "his": "bob"},
    )
    assert "ada" in hpo_says(capsys, "list")[1]
    assert hpo.load("hers").status.user == "ada"
    # Also where nothing but the record is left.
    Path("runs/hers/status.json").unlink()
    assert hpo.load("hers").status.user == "ada"


def test_a_published_study_does_not_say_who_started_it(monkeypatch):
    monkeypatch.setattr("hpo.study.opening.user_name", lambda: "ada-lovelace")
    searched("hers").report(publish=True)
    published = [path.read_text() for path in Path("studies/hers").iterdir()]
    assert published
    assert not any("ada-lovelace" in text for text in published)
    assert hpo.studies("studies").studies[0].user is None


def test_a_second_search_says_that_another_one_runs_here(capsys, monkeypatch):
    monkeypatch.setattr("hpo.session.session.other_searches", lambda: [OtherSearch(4242, "ada", Use(8.0, 2.0, (0, 1)))])
    searched("second", progress="none")
    assert "another search runs on this machine: process 4242 of ada with 8 cores and 2 GPUs" in capsys.readouterr().out


def test_what_is_measured_is_kept_of_every_trial_and_decides_nothing():
    plain, measuring = searched("plain"), searched("measuring", measured=["latency_ms"])
    points = [study.trials[["width", "score"]].to_dict("list") for study in (plain, measuring)]
    assert points[0] == points[1]
    assert list(measuring.trials.latency_ms) == [2.0 * width for width in measuring.trials.width]
    assert measuring.best.scores == {"accuracy": 0.9, "latency_ms": 8.0}
    assert measuring.best.point == plain.best.point


def test_a_training_that_does_not_return_what_is_measured_has_failed():
    with pytest.raises(hpo.HpoError, match=r"returned no 'memory'; it returned: accuracy, latency_ms"):
        searched("missing", measured=["memory"])


@pytest.mark.parametrize(
    ("measured", "says"),
    [
        (["accuracy"], "measured: must name other numbers than the study's metrics, given accuracy"),
        ([], r"measured: must have a name or more, such as \[latency_ms\], or be null"),
        (["a", "a"], "measured: must name each once, and has a twice"),
        ("latency_ms", "measured: must be a valid list, given 'latency_ms'"),
    ],
)
def test_what_cannot_be_measured_is_refused(measured, says):
    with pytest.raises(hpo.HpoError, match=says):
        searched("refused", measured=measured)
    assert not Path("runs").exists()
