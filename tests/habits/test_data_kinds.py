"""Habits of people with their own data: a kind and a path, and the rest is that kind's own."""

from pathlib import Path

import pytest

from tests.hpo.cli.commands import refused
from tests.studies import composed

FILES = {
    "pairs.tsv": "".join(f"the {i} houses\tdie {i} Häuser\n" for i in range(30)),
    "train.de": "".join(f"die {i} Häuser\n" for i in range(30)),
    "train.en": "".join(f"the {i} houses\n" for i in range(30)),
    "plays.txt": "to be or not to be, that is the question\n" * 40,
    "tags.tsv": "".join("the\tDET\nhouse\tNOUN\n\n" + f"{i}\tNUM\n\n" for i in range(20)),
    "reviews.csv": "".join(f"a warm film {i},good\na dull film {i},bad\n" for i in range(20)),
    "table.csv": "lr,layers,accuracy\n0.1,1,0.5\n0.1,2,0.7\n0.2,1,0.6\n0.2,2,0.9\n",
}
PAIRS = "data=translation data.path=pairs.tsv"
ALIGNED = "data.path=train data.source_ending=.de data.target_ending=.en"


@pytest.fixture(autouse=True)
def files():
    for name, content in FILES.items():
        Path(name).write_text(content)


def prepared(*overrides):
    study = composed(*overrides)
    section = study.config.study
    return study.config.objective_config.get("model", {}).get("shape"), section.metric, section.direction


@pytest.mark.parametrize(("words", "expected"), [
    (PAIRS, ("encoder_decoder", "bleu", "maximize")),
    (f"data=translation {ALIGNED}", ("encoder_decoder", "bleu", "maximize")),
    ("data=generated", ("encoder_decoder", "exact_match", "maximize")),
    ("data=language_modelling data.path=plays.txt", ("decoder", "loss", "minimize")),
    ("data=tagging data.path=tags.tsv", ("encoder", "accuracy", "maximize")),
    ("data=text_classification data.path=reviews.csv", ("encoder", "accuracy", "maximize")),
    ("data=digits", ("encoder", "accuracy", "maximize")),
    ("data=table data.path=table.csv data.metric=accuracy", (None, "accuracy", "maximize")),
    # What is given counts before the kind's own.
    (f"{PAIRS} study.metric=loss", ("encoder_decoder", "loss", "minimize")),
    (f"{PAIRS} study.metric=loss study.direction=maximize", ("encoder_decoder", "loss", "maximize")),
])  # fmt: skip
def test_a_kind_brings_its_networks_shape_its_metric_and_which_way_is_better(words, expected):
    assert prepared(*words.split()) == expected


@pytest.mark.parametrize(("words", "says"), [
    ([], f"in two other keys; write {ALIGNED}\n"),
    (["data.source_ending=.de"], f"both file endings must be given for aligned files (as in {ALIGNED}); "),
])  # fmt: skip
def test_one_of_two_aligned_files_is_answered_with_what_to_type(capsys, words, says):
    typed = ("data=translation", "data.path=train", *words, "dispatch=local", "track=none")
    assert says in refused(capsys, "search", *typed)
    assert not Path("runs").exists()
