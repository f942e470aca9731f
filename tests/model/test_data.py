"""What is read, from files of every format, and its tokens."""

import functools
import gzip
import json
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model import objective
from model.config.whole import parse
from model.data.readers.source import read_examples
from model.data.tokens.subwords import RESERVED, ByteSubwords
from model.data.tokens.tokens import learn_tokens, tokens_from_dict
from model.data.tokens.vocabulary import END, PADDING, SPECIAL, START, UNKNOWN, Vocabulary
from model.errors import DataError
from model.tasks.sequence_to_sequence import SequenceToSequence
from model.tasks.tagging import Tagging
from tests.model.conftest import compose, of, small
from tests.studies import refuses


def describe(path, data="text_classification", **overrides):
    return objective.describe_data(compose(data, data__path=str(path), **of("data", overrides)))


def write(path, content):
    path.write_bytes(gzip.compress(content.encode()) if path.suffix == ".gz" else content.encode())
    return path


@pytest.mark.parametrize(("name", "content"), [
    ("a.csv", '"one, two",x\nthree,y\n'),
    ("a.csv", "text;label\none, two;x\nthree;y\n"),
    ("a.csv", '"one, two";x\nthree;y\n'),
    ("a.csv", "one, two;x\nthree;y\n"),
    ("a.csv", "text\tlabel\none, two\tx\nthree\ty\n"),
    ("a.csv", '\ufefftext,label\r\n"one, two",x\r\nthree,y\r\n'),
    ("a.csv.gz", 'id,label,sentence\n1,x,"one, two"\n2,y,three\n'),
    ("a.tsv", "one, two\tx\nthree\ty\n"),
    ("a.tsv.gz", "Label\tText\nx\tone, two\ny\tthree"),
    ("a.jsonl", '{"text": "one, two", "label": "x"}\n\n{"label": "y", "text": "three"}\n'),
    ("a.ndjson.gz", '{"sentence": "one, two", "class": "x "}\n{"class": "y", "sentence": "three"}\n'),
])  # fmt: skip
def test_the_same_examples_come_out_of_every_format(tmp_path, name, content):
    described = describe(write(tmp_path / name, content))
    assert (described["labels"], described["parts"]) == (["x", "y"], None)
    assert described["digests"] == describe(write(tmp_path / "b.tsv", "one, two\tx\nthree\ty\n"))["digests"]


def test_separate_files_are_numbered_train_validation_test(tmp_path):
    paths = {}
    for part, size in (("train", 3), ("validation", 2), ("test", 1)):
        text = "".join(f"{part} {number}\t{number % 2}\n" for number in range(size))
        paths[f"data__{part}"] = str(write(tmp_path / f"{part}.tsv", text))
    described = objective.describe_data(compose("text_classification", **paths))
    assert described["parts"] == {"train": 3, "validation": 2, "test": 1}
    assert (described["labels"], [file["bytes"] for file in described["files"]]) == ([*"010010"], [30, 30, 9])


@pytest.mark.parametrize(("name", "content", "message"), [
    ("a.csv", 'text,label\n"one\ntwo",x\nthree\n', r"a.csv:4: .*1 field; must .* 2"),
    ("a.csv", "text,label\none,x\ntwo,\n", r"a.csv:3: the label is empty"),
    ("a.csv", "text,label\none,x\na\0b,x\n", r"a.csv:3: holds a NUL"),
    ("a.csv", "text,label\n", r"a.csv: has no example below the header"),
    ("a.csv", "text,text,label\na,b,c\n", r"a.csv:1: two columns are called 'text'"),
    ("a.csv", ",\n,\n", r"a.csv: every field is empty"),
    ("a.csv", " \n", r"a.csv: the file is empty"),
    ("a.csv", 'a;b\nc;d\n"e"x;f\n', r"a.csv:3: .*';' expected"),
    ("a.csv", "a, b;c\nd;e\nf;g;h\n", r"a.csv:3: has 3 fields; must have 2"),
    ("a.csv", "text|label\none|x\n", r"a.csv:1: has 1 column, 'text\|label'; .* by commas, semicolons or tabs"),
    ("a.tsv", "\none,x\n", r"a.tsv:2: has no tab, but commas; if commas .* set data\.format=csv"),
    ("a.tsv", "one\n", r"a.tsv:1: has 1 column, 'one'; separate the columns by tabs"),
    ("a.dat", "one,x\0\n", r"a.dat: the name has no ending of a known format"),
    ("a.tsv", "a\tb\tc\n", "has 3 columns"), ("a.csv", 'text,label\na,b\n"c,d\n', "a.csv:3: is not valid CSV"),
    ("a.jsonl", '{"text": null, "label": "x"}\n', r"a.jsonl:1: .*null"),
    ("a.jsonl", "[1]\n", r"a.jsonl:1: is a JSON list"),
    ("a.jsonl", '{"text": "a", "label": "x"}\n{"text": "b"}\n', r"a.jsonl:2: .*no column .* 'text'"),
    ("a.jsonl", '{"text": "a", "label": "x\\ude00"}\n', r"a.jsonl:1: 'label': contains a lone surrogate"),
    ("a.jsonl", '{"text": "a", "label": 0.5}\n', r"a.jsonl:1: 'label' .*0\.5"),
])  # fmt: skip
def test_a_bad_file_gives_one_line_that_names_the_place(tmp_path, name, content, message):
    refuses(DataError, message, describe, write(tmp_path / name, content))


def test_a_file_that_cannot_be_read_is_named_with_its_key(monkeypatch):
    monkeypatch.setattr(Path, "read_bytes", Mock(side_effect=OSError(5, "Input/output error")))
    says = r"^a.tsv: cannot be read \(Input/output error\); data.path must name a readable"
    refuses(DataError, says, describe, "a.tsv")


def test_texts_that_are_cut_are_counted_and_refused_above_the_share(tmp_path):
    path = write(tmp_path / "a.tsv", "one two\tx\none two three four\ty\none\tx\nONE TWO, three\ty\n")
    assert describe(path)["notes"] == ()
    (note,) = describe(path, max_length=3)["notes"]
    assert note.startswith("2 of 4 texts (50.00%) are cut to data.max_length=3 tokens (the longest has 4)")
    assert describe(path, max_length=3, max_cut_share=0.5)["notes"] == (note,)
    refuses(DataError, r"^data\.max_cut_share: 2 of 4 texts .*0\.4", describe, path, max_length=3, max_cut_share=0.4)


@pytest.mark.parametrize("unit", ["words", "blanks", "characters", "subwords"])
def test_the_sources_and_targets_that_a_training_cuts_are_counted_before(tmp_path, unit):
    texts = ["a", *(" ".join(["\u0130stanbul"] * length) for length in (1, 2, 2, 3, 5))]
    splits = {"train": texts, "validation": texts[2:5], "test": ["a b c d e f g h"]}
    for part, rows in splits.items():
        write(tmp_path / f"{part}.tsv", "".join(f"{text}, {n}\t{text} {n}\n" for n, text in enumerate(rows)))
    given = {"tokens": unit, "lowercase": True, "min_count": 1, "max_length": 5}
    config = compose("translation", **of("data", given | {part: str(tmp_path / f"{part}.tsv") for part in splits}))
    items, notes = read_examples(parse(config).data).items[:-1], objective.describe_data(config)["notes"]
    task = SequenceToSequence.learn(parse(config), items, range(6))
    for side, tokens in (("source", task.source_tokens), ("target", task.target_tokens)):
        lengths = [len(tokens.encode(item[side])) for item in items]
        cut, longest = sum(length > 5 for length in lengths), f"(the longest has {max(lengths)}"
        found = [note for note in notes if note.startswith(f"{cut} of 9 {side}s") and longest in note]
        assert len(found) == (cut > 0)
    assert notes


def test_sentences_are_divided_by_blank_lines_and_comments_left_out(tmp_path):
    sentences = "# a comment\nThe\tDET\tx\ndog\tNOUN\tx\n\n\nA\tDET\tx\ncat\tNOUN\tx\n\n" * 30
    described = describe(write(tmp_path / "a.tsv", sentences), "tagging")
    assert (described["size"], described["labels"], len(set(described["digests"]))) == (60, None, 2)


@pytest.mark.parametrize(("header", "name"), [("form\tupos\txpos\n", "form upos"), ("# Word\tTag\n\n", "# Word Tag")])
def test_a_first_line_of_column_names_is_no_word(tmp_path, header, name):
    sentences = "form\tNOUN\tx\n\nthe\tDET\tx\n\n"
    extra = f"a\t{name.split()[-1]}\n"
    texts = (sentences, header + sentences, header + sentences + extra)
    plain, headed, kept = (describe(write(tmp_path / "a.tsv", text), "tagging") for text in texts)
    tags = "data.tag_column=1: the words have 2 tags; shares of the most common tags: NOUN 50%, DET 50%"
    assert (headed["digests"], plain["notes"], len(kept["notes"])) == (plain["digests"], (tags,), 1)
    assert headed["notes"] == (f"data.path: the first line ({name!r}) is read as a header", tags)


def test_the_words_of_conllu_are_neither_its_numbers_nor_multiword_tokens_nor_empty_nodes(tmp_path):
    rows = ("1-2\tzum\t_\t_", "1\tzu\tzu\tADP", "2\tdem\tder\tDET", "2.1\tx\tx\tVERB")
    path = write(tmp_path / "a.conllu", ("".join(row + "\t_" * 6 + "\n" for row in rows) + "\n") * 2)
    config = parse(compose("tagging", data__path=str(path), data__word_column=1, data__tag_column=3))
    assert read_examples(config.data).items == [{"words": ["zu", "dem"], "tags": ["ADP", "DET"]}] * 2
    refuses(DataError, "for CoNLL-U, set data.word_column=1 data.tag_column=3", describe, path, "tagging", tag_column=3)


def test_a_file_of_one_sentence_is_refused(tmp_path):
    lines = "the\tDET\ndog\tNOUN\n"
    path = write(tmp_path / "a.tsv", lines)
    says = r"a.tsv: has only one sentence, of 2 words; separate sentences by empty lines"
    refuses(DataError, says, describe, path, "tagging")
    splits = {"train": str(write(tmp_path / "b.tsv", "a\tDET\n\nb\tNOUN\n")), "test": str(path)}
    assert objective.describe_data(compose("tagging", **of("data", splits)))["size"] == 3
    refuses(DataError, says, objective.describe_data, compose("tagging", **of("data", splits | {"max_length": 1})))


def test_a_column_may_be_inside_an_object(tmp_path):
    row = '{"data": {"text": "one"}, "gold": {"by": {"me": "%s"}}}\n'
    path, columns = write(tmp_path / "a.jsonl", row % "x" + row % "y"), {"label_column": "gold.by.me"}
    assert describe(path, text_column="data.text", **columns)["labels"] == ["x", "y"]
    refuses(DataError, r"a.jsonl:1: .*the columns are 'data.text', 'gold.by.me'", describe, path, **columns)


def test_running_text_is_cut_into_splits_at_line_breaks(tmp_path):
    path = write(tmp_path / "a.txt", "the cats sat on the mat\n" * 60)
    described = describe(path, "language_modelling", context=8, test_fraction=0.2)
    assert (described["parts"], described["labels"]) == ({"train": 42, "validation": 6, "test": 12}, None)
    described = describe(path, "language_modelling", context=8, test_fraction=0.0)
    assert (described["parts"]["test"], described["is_ordered"]) == (0, True)


def test_a_training_text_ends_with_a_line_break_before_the_validation_text(tmp_path):
    files = {
        f"data__{part}": str(write(tmp_path / part, text)) for part, text in (("train", "a\nb"), ("validation", "c"))
    }
    config = parse(compose("language_modelling", **files), source_required=True)
    assert [item["text"] for item in read_examples(config.data).items] == ["a\n", "b\n", "c"]


def test_pairs_come_alike_from_a_table_and_from_aligned_files(tmp_path):
    table = write(tmp_path / "a.csv", "target,source\na dog,ein Hund\nthe cat,die Katze\n")
    write(tmp_path / "pairs.de", "ein Hund\ndie Katze\n")
    write(tmp_path / "pairs.en", "a dog\nthe cat\n")
    endings = {"source_ending": ".de", "target_ending": ".en"}
    aligned = describe(tmp_path / "pairs", "translation", format="aligned", **endings)
    assert describe(table, "translation")["digests"] == aligned["digests"]


@pytest.mark.parametrize(("task", "expected"), [
    ("reverse", lambda source: source[::-1]),
    ("copy", lambda source: source),
    ("sort", lambda source: sorted(source, key=int)),
    ("modular_addition", lambda source: [str(sum(map(int, source)) % 7)]),
])  # fmt: skip
def test_generated_targets_are_what_the_task_says(task, expected):
    config = compose("generated", **of("data", {"task": task, "max_length": 6, "num_symbols": 7, "num_examples": 300}))
    items = read_examples(parse(config).data).items
    assert all(item["target"].split() == expected(item["source"].split()) for item in items)
    assert objective.describe_data(config)["digests"] == objective.describe_data(config)["digests"]


def stored(tokens):
    return tokens_from_dict(json.loads(json.dumps(tokens.to_dict())))


def test_a_vocabulary_keeps_the_most_frequent_and_breaks_ties_by_code_point():
    tokens = Vocabulary.learn(["b a c b d"], unit="words", lowercase=True, min_count=1, max_size=3)
    assert (tokens.tokens[4:], tokens.encode("B d")) == (("b", "a", "c"), [4, UNKNOWN])


def test_a_vocabulary_without_a_token_is_refused():
    with pytest.raises(DataError, match=r"data\.min_count: .*no token occurs"):
        Vocabulary.learn(["a b"], unit="words", lowercase=True, min_count=2, max_size=None)
    with pytest.raises(DataError, match=r"data\.min_count: .*no word occurs"):
        Tagging.learn(parse(small("tagging", data__min_count=2)), [{"words": ["a", "b"], "tags": ["X", "Y"]}], [0])


@pytest.mark.parametrize("unit", ["blanks", "characters", "subwords"])
def test_the_name_of_a_special_token_in_a_text_is_text(unit):
    text = f"a {' x'.join(SPECIAL)} b"
    known, unknown = (
        stored(learn_tokens(texts * 3, unit=unit, lowercase=False, min_count=1, max_size=500))
        for texts in ([text], ["a b", "".join(sorted({*"".join(SPECIAL)}))])
    )
    numbers = known.encode(text)
    assert min(numbers) >= len(SPECIAL)
    assert known.decode([START, *numbers, END, PADDING]) == text
    assert {number for number in unknown.encode(text) if number < len(SPECIAL)} <= {UNKNOWN}


@functools.cache
def subwords(lowercase):
    return stored(ByteSubwords.learn(["the cat sat\n", "the mat\n"], lowercase=lowercase, min_count=2, max_size=300))


@pytest.mark.slow
@given(st.text() | st.sampled_from([*SPECIAL, *RESERVED]), st.booleans())
def test_byte_level_subwords_give_every_text_back(text, lowercase):
    tokens = subwords(lowercase)
    numbers = tokens.encode(text)
    assert tokens.decode([START, *numbers, END, PADDING]) == tokens.normalize(text)
    assert lowercase or tokens.normalize(text) == text
    assert all(number >= len(SPECIAL) for number in numbers)
    assert tokens.names(tokens.encode("the cat")) == ["the", "Ġ", "c", "at"]  # GPT-2's letter for a blank
    assert len(tokens) <= 300 + len(SPECIAL)


def test_a_word_to_tag_is_known_by_itself_its_ending_and_its_capital():
    items = [{"words": ["The", "dog", "runs"], "tags": ["D", "N", "V"]}, {"words": ["cats"], "tags": ["N"]}]
    task = Tagging.learn(parse(small("tagging", data__min_count=1, data__ending_length=2)), items, [0, 1])
    assert (set(task.words[4:]), set(task.endings[4:])) == ({"the", "dog", "runs", "cats"}, {"^he", "og", "ns", "ts"})
