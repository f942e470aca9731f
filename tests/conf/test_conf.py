"""Every configuration file composes, every strategy and data set is accepted, and the public keys stay."""

import re

import pytest

from hpo.config.composing.compose import compose_config
from hpo.config.keys import flatten
from hpo.config.study_config import config_from_dict
from hpo.engine.strategies import STRATEGIES
from tests.studies import REPOSITORY, composed

CONF = REPOSITORY / "conf"
# Those of the strategies are composed below.
CHOICES = [f"{path.parent.name}={path.stem}" for path in sorted(CONF.glob("*/*.yaml")) if path.stem not in STRATEGIES]

# Keys that users, scripts and published studies rely on; one that goes or changes its name breaks them.
PUBLIC_KEYS = {
    *("study.name", "study.seed", "study.trials", "study.metric", "study.direction", "objective", "strategy.name"),
    *("split.folds", "split.seed", "dispatch.name", "dispatch.workers", "dispatch.cpus_per_worker"),
    *("dispatch.gpus_per_worker", "dispatch.retries", "dispatch.address", "track.name", "track.uri"),
    *("model.num_layers", "model.num_heads", "model.d_model", "model.dropout", "data.name"),
    *("training.lr", "training.epochs", "training.batch_size", "training.optimizer"),
}


@pytest.mark.quick("*table", "*digits", "*translation", "*ray", "*decoder", "*transformer", "*=one_epoch")
@pytest.mark.slow
@pytest.mark.parametrize("choice", CHOICES)
def test_every_file_composes(choice):
    config_from_dict(compose_config("search", [choice]))


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_has_a_file_that_it_accepts_with_the_default_space(name):
    scales = "study.scales=[{model.feed_forward_width: 64}, {model.feed_forward_width: 256}]"
    words = [f"strategy={name}", "dispatch=local", *([scales] if name == "ladder" else [])]
    assert composed(*words).strategy.announcement


def test_the_public_keys_are_there():
    assert set(flatten(compose_config("search", []))) >= PUBLIC_KEYS
    assert "strategy.window" in flatten(compose_config("search", ["strategy=shifting_window"]))
    text = flatten(compose_config("search", ["data=text_classification"]))
    assert {"data.path", "data.train", "data.validation", "data.test"} <= set(text)
    assert "training.seed" in flatten(compose_config("train", []))


@pytest.mark.parametrize("path", sorted(CONF.rglob("*.yaml")), ids=lambda p: str(p.relative_to(CONF)))
def test_every_value_has_a_comment(path):
    """A key of a configuration file says what it means on its own line; a space is explained at its top."""
    if path.parent.name == "space":
        assert path.read_text().startswith("#")
        return
    for line in path.read_text().splitlines():
        if re.match(r"\s*[a-z_0-9]+: \S", line) and not re.match(r"\s*(name|# @package)", line):
            assert "#" in line, f"{path.name}: {line}"


def test_a_space_override_replaces_a_dimension_or_changes_a_bound_alone():
    space = compose_config("search", ["space.training.lr.low=1e-5", "space.model.num_heads=[2,4]"])["space"]
    assert (space["training"]["lr"]["low"], space["training"]["lr"]["points"]) == (1e-5, 7)
    assert space["model"]["num_heads"] == [2, 4]
    space = compose_config("search", ["space.training.lr={values: [0.1, 0.2]}"])["space"]
    assert space["training"]["lr"] == {"values": [0.1, 0.2]}


def test_search_and_train_share_one_tree():
    search, train = compose_config("search", ["model.num_layers=3"]), compose_config("train", ["model.num_layers=3"])
    assert (search["model"], search["data"]) == (train["model"], train["data"])
    assert {k: v for k, v in train["training"].items() if k != "seed"} == search["training"]
