"""What people do who share machines and folders: who started what, what else runs here, and limits that come later."""

import json
from pathlib import Path

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
