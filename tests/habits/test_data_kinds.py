"""Habits of people with their own data: a kind and a path, and the rest is that kind's own; CSV with any header."""

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
REVIEWS = [(f"a {w} film number {i}", label) for i in range(20) for w, label in (("warm", "good"), ("dull", "bad"))]
ROWS = "".join(f"{text},{label}\n" for text, label in REVIEWS)
HEADED = "review,sentiment\n" + ROWS
TAKEN = "data.path: the first line ('review,sentiment') is read as a header; "
TAKEN += "if this line is an example, set data.header=false"
INDEXED = ",review,sentiment\n" + "".join(f"{i},{row}" for i, row in enumerate(ROWS.splitlines(True)))


@pytest.fixture(autouse=True)
def files():
    for name, content in FILES.items():
        Path(name).write_text(content)


def chosen_for(*overrides):
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
    (f"{PAIRS} study.metric=loss", ("encoder_decoder", "loss", "minimize")),
    (f"{PAIRS} study.metric=loss study.direction=maximize", ("encoder_decoder", "loss", "maximize")),
])  # fmt: skip
def test_a_kind_brings_its_networks_shape_its_metric_and_which_way_is_better(words, expected):
    assert chosen_for(*words.split()) == expected


@pytest.mark.parametrize(("words", "says"), [
    ([], f"must be in separate keys; write {ALIGNED}\n"),
    (["data.source_ending=.de"], f"aligned files need both file endings (as in {ALIGNED}); "),
])  # fmt: skip
def test_one_of_two_aligned_files_is_answered_with_what_to_type(capsys, words, says):
    typed = ("data=translation", "data.path=train", *words, "dispatch=local", "track=none")
    assert says in refused(capsys, "search", *typed)
    assert not Path("runs").exists()


def prepared(content, *overrides, **files):
    for name, text in {"reviews": content, **files}.items():
        Path(f"{name}.csv").write_text(text)
    given = [] if files else ["data.path=reviews.csv"]
    return composed("data=text_classification", *given, "track=none", "split.stratify=false", *overrides)


def test_a_first_line_whose_values_occur_nowhere_else_is_a_header_and_said_so():
    study = prepared(HEADED)
    assert study.examples.digests == prepared(ROWS).examples.digests
    assert (study.examples.size, set(study.examples.labels), study.own.notes) == (40, {"good", "bad"}, (TAKEN,))


def test_labels_may_be_first():
    study = prepared("Category,Message\n" + "".join(f"{label},{text}\n" for text, label in REVIEWS))
    assert study.examples.digests == prepared(ROWS).examples.digests
    assert "('Category,Message') is read as a header, and the column 'Category' as the labels; " in study.own.notes[0]


@pytest.mark.parametrize(("content", "overrides", "size"), [
    (INDEXED, ("data.text_column=1", "data.label_column=2"), 40), ("review,label\n" + ROWS, (), 40),
    ("review,stars\n" + "".join(f"text {i},{i}\n" for i in range(4)), (), 4),
    ("a film of its own,good\n" + ROWS, (), 41), ("".join(f"text {letter},{letter}\n" for letter in "abcdef"), (), 6),
    (HEADED, ("data.header=false",), 41),
], ids=["an index", "one known name", "numbers", "a new text", "labels never recur", "no"])  # fmt: skip
def test_a_header_in_any_words_is_no_example_and_an_example_is_no_header(content, overrides, size):
    assert prepared(content, *overrides).examples.size == size


def test_separate_files_have_the_header_of_the_first():
    words = ("data.train=train.csv", "data.test=test.csv")
    headed = prepared("", *words, train=HEADED, test="review,sentiment\na new film,good\n")
    assert headed.examples.parts == {"train": 40, "test": 1}
    without = prepared("", *words, train=ROWS + "an odd film,rare\n", test="one,rare\nb,good\nc,good\nd,good\n")
    assert without.examples.parts == {"train": 41, "test": 4}
