"""What people read of a user's code: texts in which no secret stands."""

import json
import time

import pytest

from hpo.config.secrets import excerpt, hide_secrets, hide_secrets_in
from hpo.workers.training.tasks import Payload
from hpo.workers.training.worker import run_task


def test_the_working_directory_is_no_secret(monkeypatch):
    monkeypatch.setenv("PWD", "/home/me/project")
    assert hide_secrets("/home/me/project/data.csv", {}) == "/home/me/project/data.csv"


def test_long_texts_are_looked_through_in_no_time():
    for text in (
        "s\\" * 100_000,
        "\\" * 200_000,
        "s\n" * 100_000,
        "s%25" * 50_000,
        "://" * 50_000,
        "://a:" * 20_000,
        "?a" * 50_000,
        "://" + "a" * 100_000 + ":",
    ):
        began = time.monotonic()
        assert hide_secrets(text, {"KEY": "s\\s s%s"}) == text
        assert time.monotonic() - began < 5.0


@pytest.mark.parametrize(
    "secret", ["two\nPLANTED lines", 'PLAN"TED\\', "PLÄNTED☃", "PLAN TED/&?%", " PLANTED  key ", "\\\\PLANTED"]
)
def test_a_secret_is_hidden_before_the_text_is_cut(secret):
    kept = {"HPO_MY_KEY": secret}
    for before in ("", "x" * 190, "x" * 180):
        shown = excerpt(f"{before} {secret} and more", kept, 200)
        assert not any(part in shown for part in ("PLAN", "TED", "NTED"))
    assert "PLAN" not in excerpt(f"a\n{secret}\nb", kept, 20, has_lines=True)


def quotes_its_secret(task):
    key = task["config"]["my"]["api_key"]
    yield {"warning": f"no luck with {key!r}"}
    yield {"epoch": 1, "loss": 1.0}
    raise KeyError(f"{'x' * 490}{key}")


def test_whatever_a_training_sends_has_its_secrets_hidden():
    secret = "two\nPLANTED lines"
    config = {"my": {"api_key": "${oc.env:HPO_MY_API_KEY}"}}
    secrets = {"HPO_MY_API_KEY": secret}
    messages = list(run_task(Payload(f"{__name__}:quotes_its_secret", config, "score", secrets=secrets)))
    assert len(messages) == 3
    assert "PLANTED" not in json.dumps(messages, default=vars)
    assert "${oc.env:HPO_MY_API_KEY}" in messages[0]["warning"]


def has_short_names(task):
    yield {"epoch": 1, "score": 0.25}
    return {"score": 0.5, "test_score": 1.0}


@pytest.mark.parametrize("secret", ["score", "epoch"])
@pytest.mark.parametrize("place", ["configuration", "environment"])
def test_a_name_of_a_metric_stays_though_it_is_the_value_of_a_secret(monkeypatch, secret, place):
    config, secrets = {"key": "${oc.env:HPO_KEY}"}, {"HPO_KEY": secret}
    if place == "environment":
        monkeypatch.setenv("SOME_API_KEY", secret)
        config, secrets = {}, {}
    messages = list(run_task(Payload(f"{__name__}:has_short_names", config, "score", secrets=secrets)))
    assert messages[0]["point"] == {"epoch": 1, "score": 0.25}
    assert messages[-1]["outcome"].metrics == {"score": 0.5, "test_score": 1.0}


def test_the_names_in_what_an_objective_describes_stay():
    assert hide_secrets_in({"path": "the path"}, {"HPO_KEY": "path"}) == {"path": "the ${oc.env:HPO_KEY}"}


def test_values_of_the_environment_that_look_like_secrets_are_hidden(monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "very-secret")
    assert hide_secrets("no access with very-secret", {}) == "no access with ${oc.env:SOME_API_KEY}"
    assert hide_secrets("at http://me:word@host", {}) == "at http://me:***@host"
