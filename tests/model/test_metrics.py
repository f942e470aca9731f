"""Metrics: those of scikit-learn and sacrebleu, the bits of a text, and what each is counted in."""

import math

import pytest
import sacrebleu
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from sklearn.metrics import accuracy_score, f1_score

from hpo.study.basis.units import Units
from model import objective
from model.config.whole import parse
from model.data.batches import Ragged
from model.data.tokens.vocabulary import UNKNOWN
from model.tasks.language_modelling import LanguageModelling
from model.tasks.metrics import MeasuredLabels, accuracy, label_sums, macro_f1
from model.tasks.sequence_metrics import exact_match, token_error_rate
from model.tasks.sequence_to_sequence import MeasuredPairs, Pairs, SequenceToSequence
from tests.model.conftest import compose, of, small


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=30))
def test_accuracy_and_macro_f1_are_scikit_learns(pairs):
    predicted, target = zip(*pairs, strict=True)
    ours = torch.tensor(predicted), torch.tensor(target)
    assert accuracy(*ours) == pytest.approx(accuracy_score(target, predicted))
    expected = f1_score(target, predicted, average="macro", zero_division=0)
    assert macro_f1(*ours, num_classes=5) == pytest.approx(expected)


def test_a_sample_without_a_rare_class_is_a_mean_over_the_same_classes():
    """A model that predicts the frequent class only is not perfect in a sample that has only this class."""
    measured = [MeasuredLabels(torch.zeros(20, dtype=torch.long), torch.tensor([0] * 19 + [1]), 0.0, 20)]
    sums, score = label_sums(measured, torch.arange(20), 20, num_classes=3)["macro_f1"]
    assert score(sums.sum(axis=0)) == pytest.approx(macro_f1(measured[0].predicted, measured[0].target, 3))
    assert score(sums[:10].sum(axis=0)) == 0.5


def test_a_label_that_the_model_does_not_know_counts_as_wrong():
    predicted, target = torch.tensor([0, 1]), torch.tensor([0, 2])
    assert (accuracy(predicted, target), macro_f1(predicted, target, num_classes=2)) == (0.5, pytest.approx(1 / 3))


def test_the_error_of_a_token_is_counted_once_also_of_an_unknown_word():
    assert token_error_rate([["a", "b"], ["c"]], [["a", "x"], ["c", "d"]]) == pytest.approx(2 / 4)
    assert exact_match(["a", "b"], ["a", "c"]) == 0.5
    assert scores(None, ["a x c"], texts=["a b c"], tokens="words")["token_error_rate"] == pytest.approx(1 / 3)


# White space of every kind, letters in NFD, signs and scripts whose lower case depends on what stands beside them, the
# mark of subwords, what tokenizers of BLEU take away, and the names of special tokens.
SIGNS = [*" \u00a0\u2003\t\n\u0301\u0130\u03a3\u03c2\u2581\u037e\u8c93\uac00\u00df\u01c5", "e\u0301"]
SIGNS += [*".,-&'\"<>a", "&amp;", "-\n", "<skipped>", "<end>"]
ANY = st.sampled_from(SIGNS) | st.characters(exclude_categories=["Cs", "Cn"], max_codepoint=0x1FFF)


def scores(predicted, references, metrics=None, texts=None, **data):
    """Return the metrics of predicted texts, or of the references read and given back, by the tokens of `texts`."""
    items = [{"source": text, "target": text} for text in texts or references]
    config = compose("translation", **of("data", data | {"min_count": 1})) | {"metrics": metrics or {}}
    task = SequenceToSequence.learn(parse(config), items, range(len(items)))
    if predicted is None:
        predicted = [task.target_tokens.decode(task.target_tokens.encode(text)) for text in references]
    measured = [MeasuredPairs({place: text}, 1.0, 1) for place, text in enumerate(predicted)]
    empty = Ragged.of([[UNKNOWN]] * len(references))
    return task.metrics(Pairs(empty, empty, references), measured)


@pytest.mark.parametrize("unit", ["words", "blanks", "characters", "subwords"])
@pytest.mark.parametrize(
    ("lowercase", "metrics"),
    [
        *((False, each) for each in ({}, {"lowercase": True}, {"bleu_tokenize": "zh"}, {"bleu_tokenize": "char"})),
        *((True, each) for each in ({}, {"lowercase": True, "bleu_tokenize": "intl"})),
    ],
)
@settings(max_examples=15)
@given(texts=st.lists(st.lists(ANY, min_size=1, max_size=12).map("".join).filter(str.strip), max_size=4))
def test_what_is_given_back_as_it_was_read_is_perfect_in_every_metric(unit, lowercase, metrics, texts):
    if unit == "words" and "bleu_tokenize" in metrics:
        metrics = metrics | {"bleu_tokenize": "auto"}  # another compares the file's text with decoded words
    found = scores(None, [*texts, "Four words at least."], metrics, tokens=unit, lowercase=lowercase)
    assert (found["exact_match"], found["token_error_rate"]) == (1, 0)
    assert (found["bleu"], found["chrf"]) == (pytest.approx(100), pytest.approx(100))


@pytest.mark.parametrize("unit", ["blanks", "characters", "subwords"])
def test_bleu_and_chrf_are_sacrebleus_of_the_files_text(unit):
    references = ["The cat,  sat on\u00a0the mat.", "A dog (brown) runs home."]
    predicted = ["The cat sat on the mat.", "A dog, brown, runs home."]
    found = scores(predicted, references, texts=references + predicted, tokens=unit)
    spelt_out = {"smooth_method": "exp", "tokenize": "13a", "lowercase": False}
    assert found["bleu"] == pytest.approx(sacrebleu.corpus_bleu(predicted, [references], **spelt_out).score)
    spelt_out = {"char_order": 6, "word_order": 0, "remove_whitespace": True}
    assert found["chrf"] == pytest.approx(sacrebleu.corpus_chrf(predicted, [references], **spelt_out).score)


@pytest.mark.parametrize("unit", ["words", "subwords"])
def test_letter_case_that_a_system_does_not_predict_counts_where_the_setting_says_so(unit):
    texts = ["The Cat sat on the Mat", "A dog runs through the park"]
    read = [text.lower() for text in texts]
    given = {"tokens": unit, "lowercase": True}
    ignored, counts = (scores(read, texts, {"lowercase": value}, **given) for value in (None, False))
    assert (ignored["exact_match"], counts["exact_match"]) == (1, 0)
    assert counts["bleu"] == pytest.approx(sacrebleu.corpus_bleu(read, [texts]).score)


def test_the_report_has_the_signature_of_the_settings():
    def signed(metrics=None, **data):
        config = compose("translation", data__path="a.tsv", **of("data", data)) | {"metrics": metrics or {}}
        return objective.describe_method(config)["metrics"]["bleu"]

    assert "|case:mixed|eff:no|tok:13a|" in signed()
    assert "|case:lc|eff:no|tok:intl|" in signed({"bleu_tokenize": "intl"}, lowercase=True)
    assert "|tok:none|" in signed(tokens="words")
    assert "not comparable with published BLEU" in signed(tokens="words")


def test_a_metric_that_cannot_be_computed_is_refused():
    with pytest.raises(ValidationError, match="'13a', 'intl', 'char'"):
        objective.check(compose("translation", data__path=None) | {"metrics": {"bleu_tokenize": "flores200"}})
    with pytest.raises(ValidationError, match="has an effect only with data=translation"):
        objective.check(compose("generated") | {"metrics": {"lowercase": True}})


def test_bits_are_those_of_all_tokens_and_of_what_the_unknown_are_over_characters_and_bytes():
    config = parse(small("language_modelling", data__min_count=2))
    task = LanguageModelling.from_dict(LanguageModelling.learn(config, [{"text": "aaabbbcd"}], [0]).to_dict())
    encoded = task.encode([{"text": "acdÄ"}])
    given = (lambda tokens: torch.zeros(*tokens.shape, 6)), encoded, torch.arange(len(encoded)), torch.device("cpu")
    metrics = task.metrics(encoded, [task.measure(*given)])
    expected = 3 * math.log2(6) + 2 + 2 + (1 + math.log2(0x110000 - 0x800))
    assert (metrics["loss"], metrics["perplexity"]) == pytest.approx((math.log(6), 6))
    assert metrics["bits_per_character"] == pytest.approx(expected / 3)
    assert metrics["bits_per_byte"] == pytest.approx(expected / 3 / (5 / 4))


BITS = ("bits_per_character", "bits_per_byte")


@pytest.mark.parametrize(
    ("data", "given", "names"),
    [
        ("language_modelling", {"data__min_count": 2}, {"loss", "perplexity"}),
        ("language_modelling", {"data__tokens": "words"}, {"loss", "perplexity", *BITS}),
        ("language_modelling", {"data__context": 9}, set()),
        ("tagging", {"data__min_count": 9}, set()),
        *(("translation", {f"data__{key}": 9}, {"loss"}) for key in ("max_size", "max_length")),
        ("translation", {"data__beam_size": 9, "metrics__lowercase": False}, set()),
        *(("translation", {"metrics__bleu_tokenize": value}, {"bleu"}) for value in ("13a", "none")),
        ("translation", {"metrics__lowercase": True}, {"bleu", "chrf", "exact_match", "token_error_rate"}),
    ],
)
def test_metrics_say_which_settings_change_what_they_are_counted_in(data, given, names):
    settings = {"data__path": "a.txt", **({"data__target_tokens": "words"} if data == "translation" else {})}
    ours, its = (Units.of(objective.describe_method(small(data, **each)), "") for each in (settings, settings | given))
    assert {*ours.metrics} - {*ours.same_as(its)} == names
