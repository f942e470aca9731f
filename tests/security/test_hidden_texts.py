"""What people read of a user's code: texts in which no secret stands, in whatever form it was written."""

import json
import pprint
import re
import textwrap
import time
from urllib.parse import quote, quote_plus

import pytest

from hpo.config.sealing import hidden, hidden_tree, told
from hpo.engine.training.payload import Payload
from hpo.engine.training.worker import run_task


def test_the_working_directory_is_no_secret(monkeypatch):
    monkeypatch.setenv("PWD", "/home/me/project")
    assert hidden("/home/me/project/data.csv", {}) == "/home/me/project/data.csv"


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
        assert hidden(text, {"KEY": "s\\s s%s"}) == text
        assert time.monotonic() - began < 5.0


FORMS = {
    "itself": str,
    "repr": repr,
    "ascii": ascii,
    "JSON": json.dumps,
    "JSON with slashes escaped": lambda secret: json.dumps(secret).replace("/", "\\/"),
    "JSON of JSON of JSON": lambda secret: json.dumps(json.dumps(json.dumps(secret))),
    "repr of repr": lambda secret: repr(KeyError(repr(secret))),
    "bytes": lambda secret: repr(secret.encode()),
    "address": quote,
    "address of a form": quote_plus,
    "address by JavaScript": lambda secret: quote(secret, safe="!'()*~"),
    "address in an address": lambda secret: quote(quote(secret, safe=""), safe=""),
    "address in small letters": lambda secret: re.sub("%..", lambda found: found[0].lower(), quote(secret, safe="")),
    "lines": lambda secret: textwrap.fill(secret, 4),
    "lines of pprint": lambda secret: pprint.pformat([secret], width=4),
    "lines of bytes": lambda secret: pprint.pformat([secret.encode()], width=9),
}


@pytest.mark.parametrize(
    "secret",
    ["two\nPLANTED lines", 'PLAN"TED\\', "PLAN'TED", "PLÄNTED☃", "PLAN TED/&?%", " PLANTED  key ", "\\\\PLANTED"],
)
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_secret_is_hidden_in_every_form_and_before_the_text_is_cut(secret, form):
    kept = {"HPO_MY_KEY": secret}
    for before in ("", "x" * 190, "x" * 180):
        shown = told(f"{before} {form(secret)} and more", kept, 200)
        assert not any(part in shown for part in ("PLAN", "TED", "NTED"))
    assert "PLAN" not in told(f"a\n{form(secret)}\nb", kept, 20, has_lines=True)


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
    assert "PLANTED" not in json.dumps(messages)
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
    assert messages[-1]["outcome"]["metrics"] == {"score": 0.5, "test_score": 1.0}


def test_the_names_in_what_an_objective_describes_stay():
    assert hidden_tree({"path": "the path"}, {"HPO_KEY": "path"}) == {"path": "the ${oc.env:HPO_KEY}"}


def test_values_of_the_environment_that_look_like_secrets_are_hidden(monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "very-secret")
    assert hidden("no access with very-secret", {}) == "no access with ${oc.env:SOME_API_KEY}"
    assert hidden("at http://me:word@host", {}) == "at http://me:***@host"
