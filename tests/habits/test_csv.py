"""Habits of people with CSV files: a header that names the columns in the file's own words, blanks around names."""

from pathlib import Path

import pytest

from tests.studies import composed

REVIEWS = [(f"a {w} film number {i}", label) for i in range(20) for w, label in (("warm", "good"), ("dull", "bad"))]
ROWS = "".join(f"{text},{label}\n" for text, label in REVIEWS)
HEADED = "review,sentiment\n" + ROWS
TAKEN = "data.path: the first line ('review,sentiment') is read as a header; "
TAKEN += "if this line is an example, set data.header=false"
INDEXED = ",review,sentiment\n" + "".join(f"{i},{row}" for i, row in enumerate(ROWS.splitlines(True)))


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
