import json

import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from model import objective
from model.config.whole import parse
from model.data.batches import Ragged
from model.data.readers.source import read_examples
from model.data.tokens.subwords import Subwords
from model.data.tokens.tokens import learn_tokens, tokens_from_dict
from model.data.tokens.vocabulary import END, PADDING, SPECIAL, START, UNKNOWN, Vocabulary
from model.errors import DataError
from model.tasks.sequence_metrics import bleu, chrf, edit_distance, exact_match, signatures, token_error_rate
from model.tasks.sequence_to_sequence import MeasuredPairs, Pairs, SequenceToSequence
from tests.model.conftest import compose, run, small

SHORT = {"data__max_length": 6, "data__num_symbols": 7, "data__num_examples": 300}


def describe(**overrides):
    return objective.describe_data(compose("translation", "encoder_decoder", **overrides))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tsv", "ein Hund\ta dog\ndie Katze\tthe cat\n"),
        ("a.csv", "target,source\na dog,ein Hund\nthe cat,die Katze\n"),
        ("a.jsonl", '{"source": "ein Hund", "target": "a dog"}\n{"source": "die Katze", "target": "the cat"}\n'),
    ],
)
def test_pairs_come_alike_from_tables_and_from_aligned_files(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    (tmp_path / "pairs.de").write_text("ein Hund\ndie Katze\n")
    (tmp_path / "pairs.en").write_text("a dog\nthe cat\n")
    aligned = describe(
        data__path=f"{tmp_path}/pairs", data__format="aligned", data__source_ending=".de", data__target_ending=".en"
    )
    assert describe(data__path=str(tmp_path / name))["digests"] == aligned["digests"]


@pytest.mark.parametrize("unit", ["words", "blanks", "characters", "subwords"])
@pytest.mark.parametrize("lowercase", [True, False])
def test_the_sources_and_targets_that_a_training_cuts_are_counted_before(tmp_path, unit, lowercase):
    """By the tokens that the training itself learns, and without the test part."""
    texts = ["a", *(" ".join(["\u0130stanbul"] * length) for length in (1, 2, 2, 3, 5))]
    for part, rows in (("train", texts), ("validation", texts[2:5]), ("test", ["a b c d e f g h"])):
        lines = (f"{text}, {place}\t{text} {place}\n" for place, text in enumerate(rows))
        (tmp_path / f"{part}.tsv").write_text("".join(lines))
    paths = {f"data__{part}": str(tmp_path / f"{part}.tsv") for part in ("train", "validation", "test")}
    settings = {"data__tokens": unit, "data__lowercase": lowercase, "data__min_count": 1, "data__max_length": 5}
    config = compose("translation", "encoder_decoder", **paths, **settings)
    items = read_examples(parse(config).data).items[:-1]
    task = SequenceToSequence.learn(parse(config), items, range(6))
    said = []
    for side, tokens in (("source", task.source_tokens), ("target", task.target_tokens)):
        lengths = [len(tokens.encode(item[side])) for item in items]
        cut = sum(length > 5 for length in lengths)
        said += [f"{cut} of 9 {side}s ({cut / 9:.2%})"] if cut else []
        assert not cut or f"(the longest has {max(lengths)})" in str(objective.describe_data(config)["notes"])
    notes = objective.describe_data(config)["notes"]
    assert [note.partition(" are cut to data.max_length=5 tokens")[0] for note in notes] == said != []
    with pytest.raises(DataError, match=r"^data\.max_cut_share: \d of 9 sources"):
        objective.describe_data(config | {"data": config["data"] | {"max_cut_share": 0.0}})


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ("reverse", lambda source: source[::-1]),
        ("copy", lambda source: source),
        ("sort", lambda source: sorted(source, key=int)),
        ("modular_addition", lambda source: [str(sum(map(int, source)) % 7)]),
    ],
)
def test_generated_targets_are_what_the_task_says(tmp_path, task, expected):
    config = compose("generated", "encoder_decoder", data__task=task, **SHORT)
    items = read_examples(parse(config).data).items
    assert len({item["source"] for item in items}) == 300
    assert all(item["target"].split() == expected(item["source"].split()) for item in items)
    assert objective.describe_data(config)["digests"] == objective.describe_data(config)["digests"]


@pytest.mark.slow
def test_copying_is_learned_and_the_checkpoint_decodes_as_well(fold, tmp_path):
    config = small(
        "generated", "encoder_decoder", data__task="copy", data__max_length=3, data__num_symbols=5,
        data__num_examples=150, training__epochs=25, training__batch_size=8, model__d_model=32, training__lr=0.005,
        model__dropout=0.0, training__patience=None,
    )  # fmt: skip
    task = fold(config, metric="exact_match", direction="maximize", checkpoint_dir=str(tmp_path / "checkpoint"))
    points, result = run(task)
    assert set(points[0]) >= {"loss", "exact_match", "token_error_rate", "bleu", "chrf"}
    assert result["exact_match"] > 0.7
    task = {"config": config, "checkpoint_dir": task["checkpoint_dir"], "test": list(range(150)), "threads": 1}
    assert objective.run_test(task)["exact_match"] > 0.7


def test_subwords_are_learned_alike_each_time_and_give_the_text_back():
    texts = ["der große Hund", "die große Katze", "der kleine Hund läuft"] * 5
    settings = {"lowercase": False, "min_count": 2, "max_size": 60}
    one, other = (Subwords.learn(texts, **settings) for _ in range(2))
    assert one.definition == other.definition
    kept = tokens_from_dict(one.to_dict())
    for text in texts:
        assert kept.decode(one.encode(text)) == text
    assert len(one.encode("der große Hund")) < len("der große Hund")
    assert UNKNOWN in one.encode("€")


@pytest.mark.parametrize("unit", ["blanks", "characters", "subwords"])
@pytest.mark.parametrize("is_known", [True, False])
def test_the_name_of_a_special_token_in_a_text_is_text(unit, is_known):
    text = f"a {' x'.join(SPECIAL)} b"
    learned = [text] * 3 if is_known else ["a b", "".join(sorted({*"".join(SPECIAL)}))] * 3
    tokens = learn_tokens(learned, unit=unit, lowercase=False, min_count=1, max_size=500)
    tokens = tokens_from_dict(json.loads(json.dumps(tokens.to_dict())))
    numbers = tokens.encode(text)
    if is_known:
        assert min(numbers) >= len(SPECIAL)
        assert tokens.decode(numbers) == text
    else:
        assert {number for number in numbers if number < len(SPECIAL)} <= {UNKNOWN}
    assert tokens.names(range(len(SPECIAL))) == list(SPECIAL)
    assert tokens.decode([START, *numbers, END, PADDING]) == tokens.decode(numbers)


def test_a_vocabulary_keeps_the_most_frequent_and_breaks_ties_by_code_point():
    tokens = Vocabulary.learn(["b a c b d"], unit="words", lowercase=True, min_count=1, max_size=3)
    assert tokens.tokens[4:] == ("b", "a", "c")
    assert tokens.encode("B d") == [4, UNKNOWN]


def test_a_vocabulary_without_a_token_is_refused():
    with pytest.raises(DataError, match=r"data\.min_count: must be lower, because no token occurs 2 times"):
        Vocabulary.learn(["a b"], unit="words", lowercase=True, min_count=2, max_size=None)


@given(*[st.lists(st.sampled_from("ab"), max_size=6)] * 3)
def test_edit_distance_is_a_metric(one, other, third):
    distance = edit_distance(one, other)
    assert (distance == 0) == (one == other)
    assert distance == edit_distance(other, one) <= max(len(one), len(other))
    assert distance <= edit_distance(one, third) + edit_distance(third, other)


def test_the_error_of_a_token_is_counted_once():
    assert token_error_rate([["a", "b"], ["c"]], [["a", "x"], ["c", "d"]]) == pytest.approx(2 / 4)
    assert exact_match(["a", "b"], ["a", "c"]) == 0.5


# White space of every kind, letters in NFD, signs and scripts whose lower case depends on what stands beside them, the
# mark of subwords, what tokenizers of BLEU take away, and the names of special tokens.
NASTY = (
    st.lists(
        st.one_of(
            st.sampled_from(
                [*" \u00a0\u2003\t\n\u0301\u0130\u03a3\u03c2\u2581\u037e\u8c93\uac00\u00df\u01c5", "e\u0301"]
            ),
            st.sampled_from([*".,-&'\"<>a", "&amp;", "-\n", "<skipped>", "<end>"]),
            st.characters(exclude_categories=["Cs", "Cn"], max_codepoint=0x1FFF),
        ),
        min_size=1,
        max_size=12,
    )
    .map("".join)
    .filter(str.strip)
)


def task_of(texts, metrics, **data):
    config = compose("translation", "encoder_decoder", **{f"data__{key}": value for key, value in data.items()})
    items = [{"source": text, "target": text} for text in texts]
    return SequenceToSequence.learn(parse(config | {"metrics": metrics}), items, range(len(items)))


def scores(task, predicted, references):
    measured = [MeasuredPairs({place: text}, 1.0, 1) for place, text in enumerate(predicted)]
    empty = Ragged.of([[UNKNOWN]] * len(references))
    return task.metrics(Pairs(empty, empty, references), measured)


@pytest.mark.parametrize("unit", ["words", "blanks", "characters", "subwords"])
@pytest.mark.parametrize(
    ("lowercase", "metrics"),
    [
        (False, {}),
        (True, {}),
        (False, {"lowercase": True}),
        (True, {"lowercase": True, "bleu_tokenize": "intl"}),
        (False, {"bleu_tokenize": "zh"}),
        (False, {"bleu_tokenize": "char"}),
    ],
)
@settings(max_examples=15)
@given(texts=st.lists(NASTY, max_size=4))
def test_what_is_given_back_as_it_was_read_is_perfect_in_every_metric(unit, lowercase, metrics, texts):
    if unit == "words" and "bleu_tokenize" in metrics:
        metrics = metrics | {"bleu_tokenize": "auto"}  # another compares the file's text with decoded words
    texts = [*texts, "Four words at least."]
    task = task_of(texts, metrics, tokens=unit, lowercase=lowercase, min_count=1)
    found = scores(task, [task.target_tokens.decode(task.target_tokens.encode(text)) for text in texts], texts)
    assert (found["exact_match"], found["token_error_rate"]) == (1, 0)
    assert (found["bleu"], found["chrf"]) == (pytest.approx(100), pytest.approx(100))


@pytest.mark.parametrize("unit", ["blanks", "characters", "subwords"])
def test_bleu_and_chrf_are_sacrebleus_of_the_files_text(unit):
    references = ["The cat,  sat on\u00a0the mat.", "A dog (brown) runs home."]
    predicted = ["The cat sat on the mat.", "A dog, brown, runs home."]
    task = task_of([*references, *predicted], {}, tokens=unit, min_count=1)
    found = scores(task, predicted, references)
    assert found["bleu"] == pytest.approx(sacrebleu.corpus_bleu(predicted, [references]).score)
    assert found["chrf"] == pytest.approx(sacrebleu.corpus_chrf(predicted, [references]).score)


def test_letter_case_that_a_system_does_not_predict_counts_where_the_setting_says_so():
    texts = ["The Cat sat on the Mat", "A dog runs through the park"]
    read = [text.lower() for text in texts]
    ignored, counts = ({"lowercase": value} for value in (None, False))
    for unit in ("words", "subwords"):
        assert (
            scores(task_of(texts, ignored, tokens=unit, lowercase=True, min_count=1), read, texts)["exact_match"] == 1
        )
        found = scores(task_of(texts, counts, tokens=unit, lowercase=True, min_count=1), read, texts)
        assert found["exact_match"] == 0
        assert found["bleu"] == pytest.approx(sacrebleu.corpus_bleu(read, [texts]).score)


def test_an_unknown_word_is_one_wrong_token():
    task = task_of(["a b c"], {}, tokens="words", min_count=1)
    predicted = task.target_tokens.decode(task.target_tokens.encode("a x c"))
    assert scores(task, [predicted], ["a b c"])["token_error_rate"] == pytest.approx(1 / 3)


def test_the_report_has_the_signature_of_the_settings():
    def signed(metrics, **data):
        config = compose("translation", "encoder_decoder", data__path="a.tsv", **data) | {"metrics": metrics}
        return objective.describe_method(config)["metrics"]

    assert "|case:mixed|eff:no|tok:13a|" in signed({})["bleu"]
    assert "|case:lc|eff:no|tok:intl|" in signed({"bleu_tokenize": "intl"}, data__lowercase=True)["bleu"]
    assert "|case:lc|" in signed({"lowercase": True})["chrf"]
    own = signed({}, data__tokens="words")["bleu"]
    assert "|tok:none|" in own
    assert "no published BLEU" in own
    assert "|tok:13a|" in signed({"bleu_tokenize": "13a"}, data__tokens="words")["bleu"]


@pytest.mark.parametrize(
    ("data", "values", "message"),
    [
        ("translation", {"bleu_tokenize": "flores200"}, "'13a', 'intl', 'char'"),
        ("generated", {"lowercase": True}, "has an effect only with data=translation"),
    ],
)
def test_a_metric_that_cannot_be_had_is_refused(data, values, message):
    with pytest.raises(ValidationError, match=message):
        objective.check(compose(data, "encoder_decoder", data__path=None) | {"metrics": values})


def test_a_signature_is_that_of_the_score():
    """A score under its signature's settings, spelt out, is the score; and the version is the one installed."""
    predicted, reference = ["The cat sat.", "a dog runs"], ["the cat sat .", "a dog ran home"]
    spelt_out = sacrebleu.corpus_bleu(predicted, [reference], smooth_method="exp", tokenize="13a", lowercase=False)
    assert bleu(predicted, reference) == spelt_out.score
    letters = sacrebleu.corpus_chrf(predicted, [reference], char_order=6, word_order=0, remove_whitespace=True)
    assert chrf(predicted, reference) == letters.score
    version = f"version:{sacrebleu.__version__}"
    assert signatures() == {
        "bleu": f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|{version}",
        "chrf": f"nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|{version}",
    }
