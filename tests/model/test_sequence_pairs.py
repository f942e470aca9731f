import json

import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from model import objective
from model.data.tokens.subwords import Subwords
from model.data.tokens.tokens import learn_tokens, tokens_from_dict
from model.data.tokens.vocabulary import END, PADDING, SPECIAL, START, UNKNOWN, Vocabulary
from model.errors import DataError
from model.tasks.sequence_metrics import bleu, chrf, edit_distance, exact_match, signatures, token_error_rate
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


@pytest.mark.parametrize(
    ("overrides", "keys"),
    [
        ({"data__format": "aligned"}, "data.source_ending"),
        ({"data__max_size": None}, "data.max_size"),
        ({"data__shared_vocabulary": True, "data__target_tokens": "words"}, "data.shared_vocabulary"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(overrides, keys):
    with pytest.raises(ValidationError) as caught:
        objective.check(compose("translation", "encoder_decoder", data__path="a.tsv", **overrides))
    assert caught.value.errors()[0]["ctx"]["keys"][0] == keys


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
    from model.config.whole import parse
    from model.data.readers.source import read_examples

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


@given(st.text(alphabet="abc ", min_size=1))
def test_characters_give_the_text_back(text):
    tokens = Vocabulary.learn([text], unit="characters", lowercase=False, min_count=1, max_size=None)
    assert tokens.decode(tokens.encode(text)) == text


def test_a_vocabulary_keeps_the_most_frequent_and_breaks_ties_by_code_point():
    tokens = Vocabulary.learn(["b a c b d"], unit="words", lowercase=True, min_count=1, max_size=3)
    assert tokens.tokens[4:] == ("b", "a", "c")
    assert tokens.encode("B d") == [4, UNKNOWN]


def test_a_vocabulary_without_a_token_is_refused():
    with pytest.raises(DataError, match=r"data\.min_count: no token occurs 2 times"):
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


def test_a_perfect_translation_has_the_highest_bleu_and_chrf():
    text = ["the cat sat on the mat .", "a dog runs through the park ."]
    assert bleu(text, text) == pytest.approx(100)
    assert chrf(text, text) == pytest.approx(100)
    assert bleu(["a", "b"], text) < 1


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
