"""What a file, an override or a value cannot be: said with its place or key, and as it was given."""

import os
from functools import partial
from pathlib import Path

import pytest
from hydra.errors import HydraException

from hpo.config.composing.compose import compose_config
from hpo.config.composing.overrides import parse_override, read_values
from hpo.config.documents import read_yaml
from hpo.config.keys import refuse_unknown
from hpo.config.study_config import refuse_unwritable
from hpo.errors import HpoError


def read_file(content):
    Path("x.yaml").write_bytes(content)
    return read_yaml(Path("x.yaml"))


def read_pipe(name):
    os.mkfifo(name)
    return read_yaml(Path(name))


@pytest.mark.parametrize(("read", "given", "says"), [
    (read_file, b"!!map x", "x.yaml:1:1: is not valid YAML: expected a mapping; correct it"),
    (read_file, b"#" * 2**25 + b"\n", "x.yaml: is larger than 32 MiB; give another file"),
    (read_pipe, "pipe", "pipe: is a pipe, which may never end; give a file"),
    (parse_override, "training.lr=glob(*)", "training.lr: takes one value, given glob(*); give one"),
    (read_values, ["+a=1"], "command line: must be key=value, given '+a=1'"),
    (read_values, ["a=1", "a=2"], "a: must occur only once, given a=1 and a=2"),
    (partial(compose_config, "search"), ["+training.lr=1"], "config: Could not append to config. An item is already"),
    (partial(refuse_unknown, tree={}, what="keys"), [1], "keys: must be a dict of values by dotted key, given [1]"),
    (refuse_unwritable, {"a": {"b": "\ud800"}}, r"a.b: must be valid Unicode, given '\ud800' with a lone surrogate"),
])  # fmt: skip
def test_it_is_refused_in_one_line(read, given, says):
    with pytest.raises(HpoError) as refused:
        read(given)
    assert str(refused.value).startswith(says)
    assert "\n" not in str(refused.value)


def test_an_interrupt_that_hydra_takes_for_an_error_is_one(monkeypatch):
    def interrupted(*_, **__):
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as error:
            raise HydraException("stopped") from error

    monkeypatch.setattr("hpo.config.composing.compose.compose", interrupted)
    with pytest.raises(KeyboardInterrupt):
        compose_config("search", [])
