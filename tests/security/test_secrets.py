"""Values of the environment and what looks like a secret work in trainings, and are in no file and no output."""

import json
import sqlite3
import sys
import time
from pathlib import Path

import pytest
import yaml

from hpo.config.composing.references import refuse_secrets
from hpo.config.keys import flatten
from hpo.config.secrets import excerpt, hide_secrets, hide_secrets_in, looks_secret, redact, reveal_secrets
from hpo.errors import ConfigError
from hpo.study.opening import open_study
from hpo.workers.training.tasks import Payload
from hpo.workers.training.worker import run_task
from tests.faults.driver import hpo as process
from tests.hpo.cli.commands import hpo, refused
from tests.studies import REPOSITORY, prepared, run_toy, toy_config

CONFIG = """# @package _global_
defaults:
  - default@study
  - override /model: none
  - override /data: none
  - override /training: none
  - override /space: none
objective: toy_secrets:run_fold
x: 1
service:
  api_key: null
  url: ${oc.env:PLANTED_URL}/path
  port: ${oc.decode:${oc.env:PLANTED_PORT}}
  database: postgresql://me:PLANTED-PASSWORD@host/db
space: {x: [1, 2, 3, 4]}
study: {name: own, trials: 4, metric: score}
split: {folds: 1}
report: {figures: false}
"""
OWN = ("--config-dir", "my", "study=own", "service.api_key=PLANTED-KEY", "+service.more=[{token: PLANTED-NESTED}]")
HALVES = ["PLANTED${oc.env:X}", "http://a:PLANTED${oc.env:B}@h", "http://h?token=${oc.env:A}b"]
ODD = ["two\nPLANTED lines", 'PLAN"TED\\', "PLÄNTED☃", "PLAN TED/&?%", " PLANTED  key ", "\\\\PLANTED"]
KEY = {"my": {"api_key": "${oc.env:HPO_KEY}"}}


@pytest.fixture
def planted(monkeypatch):
    for name, value in {"URL": "PLANTED-ADDRESS", "PORT": "4711"}.items():
        monkeypatch.setenv(f"PLANTED_{name}", value)
    monkeypatch.setenv("SOME_TOKEN", "PLANTED-TOKEN")
    monkeypatch.syspath_prepend(str(REPOSITORY))
    Path("my/study").mkdir(parents=True)
    Path("my/study/own.yaml").write_text(CONFIG)


def run(capsys, *command):
    code, out, err = hpo(capsys, *command)
    assert code == 0, err
    assert "PLANTED-" not in out + err


def refuse_planted():
    files = [path for path in Path().rglob("*") if path.is_file() and path.parts[0] != "my"]
    assert files
    assert [str(path) for path in files if b"PLANTED-" in path.read_bytes()] == []


def test_no_file_and_no_output_of_a_study_holds_a_secret(capsys, monkeypatch, planted):
    monkeypatch.setattr(sys, "argv", ["hpo", "search", *OWN])
    run(capsys, "search", "dispatch=local", "track=none", *OWN)
    with sqlite3.connect("runs/own/study.db") as database:
        texts = [text for (text,) in database.execute("SELECT value_json FROM trial_user_attributes")]
    # The failed trial's own words, with names in place of values.
    assert any("${oc.env:HPO_SERVICE_API_KEY} at ${oc.env:PLANTED_URL}/path, ${oc.env:SOME_TOKEN}" in t for t in texts)
    assert "service.api_key=***" in Path("runs/own/environment.json").read_text()
    # A study stores names alone: the user gives the values again.
    err = refused(capsys, "resume", "own")
    assert "service.api_key: the environment variable HPO_SERVICE_API_KEY is not set" in err
    refuse_planted()


@pytest.mark.slow
def test_no_command_on_a_study_shows_or_stores_a_secret(capsys, monkeypatch, planted):
    run(capsys, "search", "dispatch=local", "track=none", *OWN)
    for name in ("API_KEY=KEY", "MORE_0_TOKEN=NESTED", "DATABASE_PASSWORD=PASSWORD"):
        monkeypatch.setenv(f"HPO_SERVICE_{name.partition('=')[0]}", f"PLANTED-{name.partition('=')[2]}")
    for command in (["resume", "own"], ["test", "own"], ["report", "own", "--publish"], ["reproduce", "own"]):
        run(capsys, *command)
    run(capsys, "train", "--config", "runs/own/best.yaml")
    monkeypatch.setenv("PLANTED_URL", "PLANTED-BAD")
    assert "service.url: ${oc.env:PLANTED_URL}/path is no address" in refused(capsys, "resume", "own")
    refuse_planted()


@pytest.mark.nightly
def test_neither_ray_nor_mlflow_keeps_a_secret(planted):
    code, out, err = process("search", *OWN, "dispatch=ray", "dispatch.workers=1", "track.uri=sqlite:///mlflow.db")
    assert code == 0, err
    assert "PLANTED-" not in out + err
    assert Path("mlflow.db").exists()
    refuse_planted()


def test_the_composed_configuration_is_shown_with_names(capsys, planted):
    out = hpo(capsys, "search", *OWN, "--cfg", "job")[1]
    assert "${oc.env:PLANTED_URL}/path" in out
    assert "${oc.decode:${oc.env:PLANTED_PORT}}" in out
    assert "PLANTED-" not in out


@pytest.mark.parametrize("override", ["study.name=x${oc.env:SOME_TOKEN}", "strategy.name=${oc.env:SOME_TOKEN}"])
def test_what_decides_a_study_is_not_taken_from_the_environment(capsys, planted, override):
    err = refused(capsys, "search", *OWN, override)
    assert "may refer to it" in err
    assert "PLANTED-TOKEN" not in err


def test_which_keys_look_like_secrets():
    secret = "my.api_key my.apiKey hub.token token db.password secrets.first aws_secret_access_key my.credentials.user"
    secret += " my.github_token my.openai_key db_auth wandbKey"
    plain = "data.tokens data.target_tokens training.batch_tokens model.key_width data.text_key data.sortKey"
    plain += " data.pad_token monkey keys study.name"
    assert [key for key in secret.split() if not looks_secret(key)] == []
    assert [key for key in plain.split() if looks_secret(key)] == []
    files = sorted((REPOSITORY / "conf").rglob("*.yaml"))
    assert not [key for path in files for key in flatten(yaml.safe_load(path.read_text())) if looks_secret(key)]


@pytest.mark.parametrize(("address", "password"), [
    ("postgresql://me:PLANTED@host/db", "PLANTED"), ("postgresql+driver://me:PLAN/TED@host/db", "PLAN/TED"),
    ("postgresql://me:PLAN@TED@host/db", "PLAN@TED"), ("postgresql+driver://me:PLAN/T@ED@host/db", "PLAN/T@ED"),
    ("redis://:PLANTED@host", "PLANTED"), ("postgresql://me@server:PLANTED@host/db", "PLANTED"),
    ("http://host:8080/path@5", None), ("http://[::1]:8080/a@b", None), ("http://host:8080?at=a@b", None),
    ("http://host/?sort_key=name&monkey=1", None), ("http://me@host/path", None)
])  # fmt: skip
def test_a_password_in_an_address_is_known_whatever_it_holds(address, password):
    redacted, secrets = redact({"url": address})
    assert list(secrets.values()) == ([password] if password else [])
    assert reveal_secrets(redacted, secrets) == {"url": address}
    assert hide_secrets(address, {}) == (address.replace(password, "***") if password else address)


def test_every_secret_is_kept_by_name_and_comes_back_as_what_it_was():
    tree = {
        "a": {"api_key": 98765432, "pwd": "PLANTED", "key": 64},
        "headers": {"Authorization": "Bearer PLANTED"},
        "urls": "http://a:PLANTED1@h http://b:PLANTED2@h/x?v=1&access_token=PLANTED3",
        "half": "http://a:${oc.env:THERE}@h,http://b:PLANTED@h",
        "list": [{"token": "PLANTED"}, None],
        "alike": {"api_key": "PLANTED4", "api-key": "PLANTED5"},
        "half alike": {"url": "http://a:PLANTED6@h", "url.password": "PLANTED7"},
    }
    redacted, secrets = redact(tree)
    assert "PLANTED" not in str(redacted)
    assert "98765432" not in str(redacted)
    assert (redacted["a"]["key"], reveal_secrets(redacted, secrets), redact(redacted)) == (64, tree, (redacted, {}))


@pytest.mark.parametrize("value", HALVES)
def test_a_secret_that_comes_half_from_the_environment_is_refused(value):
    with pytest.raises(ConfigError, match=r"a\.\w+: looks like a secret, but only a part"):
        redact({"a": {"password" if "//" not in value else "url": value}})


def test_a_missing_variable_stops_a_resume_before_anything_is_touched(monkeypatch, tmp_path):
    monkeypatch.setenv("PLANTED_URL", "PLANTED-ADDRESS")
    run_toy(tmp_path / "study", toy_config(trials=2, service={"url": "${oc.env:PLANTED_URL}"}))
    frozen = (tmp_path / "study/config.yaml").read_text()
    monkeypatch.delenv("PLANTED_URL")
    with pytest.raises(ConfigError, match=r"service\.url: the environment variable PLANTED_URL is not set"):
        open_study(prepared(tmp_path / "study", toy_config(trials=3, service={"url": "${oc.env:PLANTED_URL}"})))
    assert (tmp_path / "study/config.yaml").read_text() == frozen


def test_a_secret_beside_a_reference_to_a_searched_key_is_refused_and_not_printed():
    with pytest.raises(ConfigError, match=r"my\.api_key: contains a secret and a reference") as refused:
        refuse_secrets({"my.api_key": "PLANTED${base}"})
    assert "PLANTED" not in str(refused.value)


def test_values_of_the_environment_that_look_like_secrets_are_hidden(monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "very-secret")
    monkeypatch.setenv("PWD", "/home/me/project")
    assert hide_secrets("no access with very-secret", {}) == "no access with ${oc.env:SOME_API_KEY}"
    assert hide_secrets("at http://me:word@host", {}) == "at http://me:***@host"
    assert hide_secrets("/home/me/project/data.csv", {}) == "/home/me/project/data.csv"


def test_long_texts_are_searched_in_no_time():
    for part in ("s\\", "\\", "s\n", "s%25", "://", "://a:", "?a", "://" + "a" * 100_000 + ":"):
        text, began = part * (200_000 // len(part)), time.monotonic()
        assert hide_secrets(text, {"KEY": "s\\s s%s"}) == text
        assert time.monotonic() - began < 5.0, part[:9]


@pytest.mark.parametrize("secret", ODD)
def test_a_secret_is_hidden_before_the_text_is_cut(secret):
    secrets = {"HPO_MY_KEY": secret}
    for before in ("", "x" * 190, "x" * 180):
        shown = excerpt(f"{before} {secret} and more", secrets, 200)
        assert not any(part in shown for part in ("PLAN", "TED", "NTED"))
    assert "PLAN" not in excerpt(f"a\n{secret}\nb", secrets, 20, has_lines=True)


def quotes_its_secret(task):
    key = task["config"]["my"]["api_key"]
    yield {"warning": f"no luck with {key!r}"}
    yield {"epoch": 1, "loss": 1.0}
    raise KeyError(f"{'x' * 490}{key}")


def test_secrets_are_hidden_in_whatever_a_training_sends():
    payload = Payload(f"{__name__}:quotes_its_secret", KEY, "score", secrets={"HPO_KEY": "two\nPLANTED lines"})
    messages = list(run_task(payload))
    assert len(messages) == 3
    assert "PLANTED" not in json.dumps(messages, default=vars)
    assert "${oc.env:HPO_KEY}" in messages[0]["warning"]


def has_short_names(task):
    yield {"epoch": 1, "score": 0.25}
    return {"score": 0.5, "test_score": 1.0}


@pytest.mark.parametrize(("of_environment", "of_configuration"), [("epoch", "score"), ("score", "epoch")])
def test_a_name_of_a_metric_stays_though_it_is_the_value_of_a_secret(monkeypatch, of_environment, of_configuration):
    monkeypatch.setenv("SOME_API_KEY", of_environment)
    secrets = {"HPO_KEY": of_configuration}
    messages = list(run_task(Payload(f"{__name__}:has_short_names", KEY, "score", secrets=secrets)))
    assert messages[0]["point"] == {"epoch": 1, "score": 0.25}
    assert messages[-1]["outcome"].metrics == {"score": 0.5, "test_score": 1.0}
    assert hide_secrets_in({"path": "the path"}, {"HPO_KEY": "path"}) == {"path": "the ${oc.env:HPO_KEY}"}
