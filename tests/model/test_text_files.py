import gzip

import pytest

from model import objective
from model.errors import DataError
from tests.model.conftest import compose


def describe(path, **overrides):
    return objective.describe_data(compose("text_classification", data__path=str(path), **overrides))


def write(path, content):
    content = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", 'text,label\n"one, two",x\nthree,y\n'),
        ("a.csv", '"one, two",x\nthree,y\n'),
        ("a.csv", '\ufefftext,label\r\n"one, two",x\r\nthree,y\r\n'),
        ("a.csv.gz", 'id,label,sentence\n1,x,"one, two"\n2,y,three\n'),
        ("a.tsv", "one, two\tx\nthree\ty\n"),
        ("a.tsv.gz", "Label\tText\nx\tone, two\ny\tthree"),
        ("a.jsonl", '{"text": "one, two", "label": "x"}\n\n{"label": "y", "text": "three"}\n'),
        ("a.ndjson.gz", '{"sentence": "one, two", "class": "x"}\n{"class": "y", "sentence": "three"}\n'),
    ],
)
def test_the_same_examples_come_out_of_every_format(tmp_path, name, content):
    described = describe(write(tmp_path / name, content))
    assert described["labels"] == ["x", "y"]
    assert described["digests"] == describe(write(tmp_path / "b.tsv", "one, two\tx\nthree\ty\n"))["digests"]
    assert described["parts"] is None


def test_columns_are_chosen_by_name_or_by_number(tmp_path):
    path = write(tmp_path / "a.csv", "who,what,kind\nme,one,x\nyou,two,y\n")
    named = describe(path, data__text_column="what", data__label_column="kind")
    numbered = describe(path, data__text_column=1, data__label_column=2, data__header=True)
    assert named["digests"] == numbered["digests"]


def test_a_quoted_text_may_span_lines_and_errors_still_name_the_right_line(tmp_path):
    path = write(tmp_path / "a.csv", 'text,label\n"one\ntwo",x\nthree\n')
    with pytest.raises(DataError, match=r"a.csv:4: 1 field; must be 2"):
        describe(path)


def test_separate_files_are_numbered_train_validation_test(tmp_path):
    paths = {}
    for part, size in (("train", 3), ("validation", 2), ("test", 1)):
        path = write(tmp_path / f"{part}.tsv", "".join(f"{part} {i}\t{i % 2}\n" for i in range(size)))
        paths[f"data__{part}"] = str(path)
    described = objective.describe_data(compose("text_classification", **paths))
    assert described["parts"] == {"train": 3, "validation": 2, "test": 1}
    assert described["labels"] == ["0", "1", "0", "0", "1", "0"]
    assert [file["bytes"] for file in described["files"]] == [30, 30, 9]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "\n \n", r"a.csv: the file is empty"),
        ("a.csv", "text,label\none,x\ntwo,\n", r"a.csv:3: the label is empty"),
        ("a.csv", 'text,label\none,x\n"two"2,x\n', r"a.csv:3: is not valid CSV"),
        ("a.csv", "one,x,1\ntwo,y,2\n", r"has 3 columns and no header; must have 2"),
        ("a.jsonl", '{"text": "a", "label": "x"}\n{"text": "b"}\n', r"a.jsonl:2: no column .* columns are 'text'"),
        ("a.jsonl", '{"text": "a", "label": "x"}\n{"text": "b\\ud83d", "label": "y"}\n', r"a.jsonl:2: 'text': holds"),
        ("a.jsonl", '{"text": "a", "label": "x\\ude00"}\n', r"a.jsonl:1: 'label': holds half a character"),
        ("a.tsv", b"a\tx\nb \xed\xa0\x80\ty\n", r"a.tsv:2: byte 0xed is not UTF-8"),
        ("a.jsonl", '{"text": "a", "label": 0.5}\n', r"a.jsonl:1: 'label' is 0.5; must be a text or a whole number"),
    ],
)  # fmt: skip
def test_a_bad_file_gives_one_line_that_names_the_place(tmp_path, name, content, message):
    with pytest.raises(DataError, match=message) as caught:
        describe(write(tmp_path / name, content))
    assert "\n" not in str(caught.value)


def test_texts_that_are_cut_are_counted_and_refused_above_the_share(tmp_path):
    path = write(tmp_path / "a.tsv", "one two\tx\none two three four\ty\none\tx\nONE TWO, three\ty\n")
    assert describe(path)["notes"] == ()
    (note,) = describe(path, data__max_length=3)["notes"]
    assert note.startswith("2 of 4 texts (50.00%) are cut to data.max_length=3 tokens (the longest has 4)")
    assert describe(path, data__max_length=3, data__max_cut_share=0.5)["notes"] == (note,)
    with pytest.raises(
        DataError, match=r"^data\.max_cut_share: 2 of 4 texts .* or raise data.max_cut_share, given 0.4"
    ):
        describe(path, data__max_length=3, data__max_cut_share=0.4)
