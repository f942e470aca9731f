"""Values of the environment and what looks like a secret work in trainings, and stand in no file and no output."""

import sqlite3
import sys
from pathlib import Path

import pytest

from hpo.config.secrets import hide_secrets, looks_secret, redact, reveal_secrets
from hpo.errors import ConfigError
from hpo.study.opening import open_study
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
objective: tests.security.secret_objective:run_fold
x: 1
service:
  api_key: null
  url: ${oc.env:PLANTED_URL}/path
  port: ${oc.decode:${oc.env:PLANTED_PORT}}
  database: postgresql://me:PLANTED-PASSWORD@host/db
space: {x: [1, 2, 3, 4]}
study: {name: own, trials: 4, metric: score}
split: {folds: 1}
"""
OWN = ("--config-dir", "my", "study=own", "service.api_key=PLANTED-KEY", "+service.more=[{token: PLANTED-NESTED}]")


@pytest.fixture
def planted(monkeypatch):
    for name, value in {"URL": "PLANTED-ADDRESS", "PORT": "4711"}.items():
        monkeypatch.setenv(f"PLANTED_{name}", value)
    monkeypatch.setenv("SOME_TOKEN", "PLANTED-TOKEN")
    monkeypatch.syspath_prepend(str(REPOSITORY))
    Path("my/study").mkdir(parents=True)
    Path("my/study/own.yaml").write_text(CONFIG)


def refuse_planted():
    """Fail where a planted value stands in any file, the bytes of databases and their logs included."""
    files = [path for path in Path().rglob("*") if path.is_file() and path.parts[0] != "my"]
    assert files
    assert [str(path) for path in files if b"PLANTED-" in path.read_bytes()] == []


def test_no_file_and_no_output_of_a_study_holds_a_secret(capsys, monkeypatch, planted):
    monkeypatch.setattr(sys, "argv", ["hpo", "search", *OWN])
    code, out, err = hpo(capsys, "search", "dispatch=local", "track=none", *OWN)
    assert code == 0, err
    assert "PLANTED-" not in out + err
    with sqlite3.connect("runs/own/study.db") as database:
        errors = [
            text for (text,) in database.execute("SELECT value_json FROM trial_user_attributes") if "Error" in text
        ]
    # The failed trial's own words, with names in place of values.
    assert any("${oc.env:HPO_SERVICE_API_KEY} at ${oc.env:PLANTED_URL}/path, ${oc.env:SOME_TOKEN}" in e for e in errors)
    assert "service.api_key=***" in Path("runs/own/environment.json").read_text()
    refuse_planted()

    # A study keeps names alone: whoever goes on gives the values again.
    err = refused(capsys, "resume", "own")
    assert "service.api_key: the environment variable HPO_SERVICE_API_KEY is not set" in err
    monkeypatch.setenv("HPO_SERVICE_API_KEY", "PLANTED-KEY")
    monkeypatch.setenv("HPO_SERVICE_MORE_0_TOKEN", "PLANTED-NESTED")
    monkeypatch.setenv("HPO_SERVICE_DATABASE_PASSWORD", "PLANTED-PASSWORD")
    for command in (["resume", "own"], ["test", "own"], ["report", "own", "--publish"], ["reproduce", "own"]):
        code, out, err = hpo(capsys, *command)
        assert code == 0, err
        assert "PLANTED-" not in out + err
    code, out, err = hpo(capsys, "train", "--config", "runs/own/best.yaml")
    assert code == 0, err
    monkeypatch.setenv("PLANTED_URL", "PLANTED-BAD")
    assert "service.url: ${oc.env:PLANTED_URL}/path is no address" in refused(capsys, "resume", "own")
    refuse_planted()


@pytest.mark.slow
def test_neither_ray_nor_mlflow_keeps_a_secret(planted):
    code, out, err = process("search", *OWN, "dispatch=ray", "dispatch.workers=1", "track.uri=sqlite:///mlflow.db")
    assert code == 0, err
    assert "PLANTED-" not in out + err
    assert Path("mlflow.db").exists()
    refuse_planted()


def test_the_composed_configuration_is_shown_with_names(capsys, planted):
    code, out, _ = hpo(capsys, "search", *OWN, "--cfg", "job")
    assert code == 0
    assert "${oc.env:PLANTED_URL}/path" in out
    assert "${oc.decode:${oc.env:PLANTED_PORT}}" in out
    assert "PLANTED-" not in out


@pytest.mark.parametrize("override", ["study.name=x${oc.env:SOME_TOKEN}", "strategy.name=${oc.env:SOME_TOKEN}"])
def test_what_decides_a_study_is_not_taken_from_the_environment(capsys, planted, override):
    err = refused(capsys, "search", *OWN, override)
    assert "may refer to the environment" in err
    assert "PLANTED-TOKEN" not in err


def test_which_keys_look_like_secrets():
    secret = "my.api_key my.apiKey hub.token token db.password secrets.first aws_secret_access_key my.credentials.user"
    secret += " my.github_token my.openai_key db_auth wandbKey"
    plain = "data.tokens data.target_tokens training.batch_tokens model.key_width data.text_key data.sortKey"
    plain += " data.pad_token monkey keys study.name"
    assert [key for key in secret.split() if not looks_secret(key)] == []
    assert [key for key in plain.split() if looks_secret(key)] == []


def test_no_shipped_key_looks_like_a_secret():
    import yaml

    from hpo.config.keys import flatten

    files = sorted((REPOSITORY / "conf").rglob("*.yaml"))
    assert not [key for path in files for key in flatten(yaml.safe_load(path.read_text())) if looks_secret(key)]


@pytest.mark.parametrize(
    ("address", "password"),
    [
        ("postgresql://me:PLANTED@host/db", "PLANTED"),
        ("postgresql+driver://me:PLAN/TED@host/db", "PLAN/TED"),
        ("postgresql://me:PLAN@TED@host/db", "PLAN@TED"),
        ("redis://:PLANTED@host", "PLANTED"),
        ("postgresql://me@server:PLANTED@host/db", "PLANTED"),
        ("http://host:8080/path@5", None),
        ("http://host:8080?at=a@b", None),
        ("http://[::1]:8080/a@b", None),
        ("http://host/?sort_key=name&monkey=1", None),
        ("http://me@host/path", None),
    ],
)
def test_a_password_in_an_address_is_known_whatever_it_holds(address, password):
    sealed, secrets = redact({"url": address})
    assert list(secrets.values()) == ([password] if password else [])
    assert reveal_secrets(sealed, secrets) == {"url": address}
    assert hide_secrets(address, {}) == (address.replace(password, "***") if password else address)


def test_every_secret_is_kept_by_name_and_comes_back_as_what_it_was():
    tree = {
        "a": {"api_key": 98765432, "pwd": "PLANTED", "key": 64},
        "headers": {"Authorization": "Bearer PLANTED"},
        "urls": "http://a:PLANTED1@h http://b:PLANTED2@h/x?v=1&access_token=PLANTED3",
        "half": "http://a:${oc.env:THERE}@h,http://b:PLANTED@h",
        "list": [{"token": "PLANTED"}, None],
    }
    sealed, secrets = redact(tree)
    assert "PLANTED" not in str(sealed)
    assert "98765432" not in str(sealed)
    assert sealed["a"]["key"] == 64
    assert reveal_secrets(sealed, secrets) == tree
    assert redact(sealed) == (sealed, {})


@pytest.mark.parametrize(
    "value", ["PLANTED${oc.env:X}", "http://a:PLANTED${oc.env:B}@h", "http://h?token=${oc.env:A}b"]
)
def test_a_secret_that_comes_half_from_the_environment_is_refused(value):
    with pytest.raises(ConfigError, match=r"a\.\w+: looks like a secret, but only a part"):
        redact({"a": {"password" if "//" not in value else "url": value}})


def test_secrets_of_keys_that_look_alike_stay_apart():
    tree = {"api_key": "first", "api-key": "second", "url": "http://a:third@h", "url.password": "fourth"}
    sealed, secrets = redact(tree)
    assert sorted(secrets.values()) == ["first", "fourth", "second", "third"]
    assert reveal_secrets(sealed, secrets) == tree


def test_a_missing_variable_stops_a_resume_before_anything_is_touched(monkeypatch, tmp_path):
    """The toy has no function that is given the configuration before its first task."""
    monkeypatch.setenv("PLANTED_URL", "PLANTED-ADDRESS")
    run_toy(tmp_path / "study", toy_config(trials=2, service={"url": "${oc.env:PLANTED_URL}"}))
    frozen = (tmp_path / "study/config.yaml").read_text()
    monkeypatch.delenv("PLANTED_URL")
    with pytest.raises(ConfigError, match=r"service\.url: the environment variable PLANTED_URL is not set"):
        open_study(prepared(tmp_path / "study", toy_config(trials=3, service={"url": "${oc.env:PLANTED_URL}"})))
    assert (tmp_path / "study/config.yaml").read_text() == frozen
