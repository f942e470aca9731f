import json

import pytest
import torch

from model import objective
from model.attention_maps import store_weights
from model.checkpoint import load_checkpoint
from model.data.tokens.vocabulary import END, PADDING, SPECIAL, UNKNOWN
from model.decoding.beam_search import Decoded
from model.decoding.sample import draw_token
from model.decoding.sampling import Sampling
from model.errors import CheckpointError
from model.networks.transformer.attention import MultiHeadAttention
from model.networks.transformer.positions import Rotation
from model.predict import BATCH_SIZE
from model.tasks import sequence_to_sequence
from tests.model.conftest import run, small

TAGGED = "The\tDET\ndog\tNOUN\nruns\tVERB\n\nA\tDET\ncat\tNOUN\n\n"
PUZZLE = {"data__num_symbols": 6, "data__max_length": 5, "data__num_examples": 200}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folders of what the tests of this file have trained, by configuration."""
    return {}


@pytest.fixture
def train(fold, tmp_path, tmp_path_factory, trained):
    """Trains a small network, once a file, and gives the folder of its checkpoint."""

    def make(config, **task):
        key = json.dumps([config, task]).replace(str(tmp_path), "")
        if key not in trained:
            trained[key] = str(tmp_path_factory.mktemp("checkpoint"))
            run(fold(config, checkpoint_dir=trained[key], **task))
        return trained[key]

    return make


@pytest.fixture
def sentiment(train, reviews):
    return train(small("text_classification", data__path=str(reviews), training__epochs=15, training__batch_size=8))


@pytest.fixture
def tagger(train, tmp_path):
    (tmp_path / "tagged.tsv").write_text(TAGGED * 30)
    path = str(tmp_path / "tagged.tsv")
    return train(small("tagging", data__path=path, data__max_length=4, training__epochs=15, training__batch_size=8))


@pytest.fixture
def poet(train, tmp_path):
    def make(positions="learned"):
        (tmp_path / "poem.txt").write_text("the cat sat on the mat\n" * 30)
        values = {"data__path": str(tmp_path / "poem.txt"), "data__context": 8, "model__positions": positions}
        return train(small("language_modelling", "decoder", **values))

    return make


@pytest.fixture
def reverser(train):
    def make(**values):
        return train(small("generated", "encoder_decoder", **(PUZZLE | values)))

    return make


def test_texts_get_their_labels_in_the_order_of_the_inputs(sentiment):
    inputs = ["the film was good", "bad", "a very bad film was a very bad film"] * BATCH_SIZE
    assert objective.predict(sentiment, inputs, {}) == ["1", "0", "0"] * BATCH_SIZE


def test_inputs_that_are_cut_are_said_once_with_numbers(train, reviews, reverser, caplog):
    labels = train(small("text_classification", data__path=str(reviews), data__max_length=4))
    for folder, longest in ((labels, "the film was a good bad film"), (reverser(), "1 2 3 4 5 1 2 3 4")):
        limit = load_checkpoint(folder).task.max_length
        inputs = [" ".join(longest.split()[:limit]), longest, longest[:-2]]
        objective.predict(folder, inputs, {})
        objective.attention(folder, longest, None)
        of_three, of_one = (
            f"{cut} inputs are cut to the first data.max_length={limit} " for cut in ("2 of 3", "1 of 1")
        )
        assert [message[: len(of_three)] for message in caplog.messages] == [of_three, of_one]
        assert all(message.endswith(f"has {len(longest.split())} tokens)") for message in caplog.messages)
        caplog.clear()
        objective.predict(folder, inputs[:1], {})
        assert not caplog.messages


def test_half_a_character_is_refused_in_one_line(sentiment):
    for given in (lambda text: objective.predict(sentiment, ["good", text], {}),
                  lambda text: objective.attention(sentiment, text, None)):  # fmt: skip
        with pytest.raises(ValueError, match=r"^input( 2)?: holds half a character \('\\ud83d', place 1\)"):
            given("a\ud83d")


def test_every_word_gets_a_tag_in_long_sentences_too(tagger):
    predicted = objective.predict(tagger, ["The dog runs", "A cat", "A cat " * 5], {})
    assert predicted == ["DET NOUN VERB", "DET NOUN", " ".join(["DET NOUN"] * 5)]


def test_rows_of_numbers_get_their_labels_nested_or_flat(train):
    from sklearn.datasets import load_digits

    folder = train(small("digits", training__epochs=15, training__batch_size=16))
    digits = load_digits()
    predicted = objective.predict(folder, digits.images[:200].tolist(), {})
    assert objective.predict(folder, digits.data[:200].tolist(), {}) == predicted
    right = sum(label == str(target) for label, target in zip(predicted, digits.target[:200], strict=True))
    assert right > 60, "far more than the 20 that chance gives"


def test_what_is_no_image_is_refused(train):
    folder = train(small("digits", training__epochs=1))
    for given in ([1.0, 2.0], [[0.0] * 7] * 8, "digit", ["a"] * 64, 3.0):
        with pytest.raises(ValueError, match=r"must be 64 numbers|only text can be given"):
            objective.predict(folder, [given], {})
    with pytest.raises(ValueError, match="a model of 'digits' reads rows of numbers"):
        objective.attention(folder, "7", None)


def test_what_a_model_reads_is_told_by_its_configuration():
    described = {
        name: objective.describe_prediction(small(name, shape))
        for name, shape in (("digits", "encoder"), ("language_modelling", "decoder"), ("tagging", "encoder"))
    }
    assert {name: values["inputs"] for name, values in described.items()} == {
        "digits": "rows",
        "language_modelling": "text",
        "tagging": "text",
    }
    assert described["language_modelling"]["options"]["top_k"] == {"type": "integer", "default": None}
    assert described["tagging"]["options"] == {}


@pytest.mark.parametrize(
    ("made", "given", "options"),
    [
        ("sentiment", "the film was good", {}),
        ("tagger", "A dog runs", {}),
        ("poet", "the cat", {"max_tokens": 20, "top_k": 3, "top_p": 0.9}),
        ("reverser", "a b c", {}),
    ],
)
def test_predictions_and_maps_are_computed_on_the_chosen_device(request, monkeypatch, made, given, options):
    """Shown on torch's device without numbers, where reading one before the end would fail; they are read as zeros."""
    folder, chosen = request.getfixturevalue(made), []
    folder = folder if isinstance(folder, str) else folder()
    monkeypatch.setattr("model.predict.choose_device", lambda name: chosen.append(name) or torch.device("meta"))
    read = torch.Tensor.tolist
    monkeypatch.setattr(
        torch.Tensor, "tolist", lambda x: read(torch.zeros_like(x, device="cpu") if x.device.type == "meta" else x)
    )
    monkeypatch.setattr(torch.Tensor, "nonzero", lambda tensor: tensor.new_zeros((0, tensor.ndim), dtype=torch.long))
    assert len(objective.predict(folder, [given], options)) == 1
    assert objective.attention(folder, given, None)["maps"]
    assert chosen == ["auto", "auto"]


@pytest.mark.parametrize("beam_size", [1, 3])
def test_targets_are_what_the_evaluation_decodes(reverser, beam_size):
    checkpoint = load_checkpoint(folder := reverser(data__beam_size=beam_size))
    task, sources = checkpoint.task, ["1 2 3", "5", "4 4 0 1 2"]
    encoded = task.encode([{"source": source, "target": ""} for source in sources])
    batch = task.batch(encoded, torch.arange(3), torch.device("cpu"))
    assert objective.predict(folder, sources, {}) == task.predict(checkpoint.network, batch)


@pytest.mark.parametrize("positions", ["learned", "rotary", "alibi"])
def test_the_likeliest_continuation_is_the_one_of_the_plain_forward_pass(poet, positions):
    """Prompts of different length, shorter and longer than the context, side by side and past the context."""
    checkpoint = load_checkpoint(folder := poet(positions))
    vocabulary, prompts = checkpoint.task.vocabulary, ["t", "the cat", "on the mat and the cat"]
    expected = []
    for prompt in prompts:
        numbers = vocabulary.encode(prompt)
        for _ in range(12):
            logits = checkpoint.network(torch.tensor([numbers[-8:]]))[0, -1]
            numbers.append(len(SPECIAL) + int(logits[len(SPECIAL) :].argmax()))
        expected.append(vocabulary.decode(numbers[-12:]))
    assert objective.predict(folder, prompts, {"temperature": 0.0, "max_tokens": 12}) == expected


def test_a_continuation_depends_on_the_seed_and_on_nothing_beside_its_input(poet):
    folder, options = poet(), {"max_tokens": 20, "seed": 3}
    both = objective.predict(folder, ["the cat", "on"], options)
    assert both == objective.predict(folder, ["the cat", "on"], options)
    assert both[:1] == objective.predict(folder, ["the cat"], options)
    assert both != objective.predict(folder, ["the cat", "on"], options | {"seed": 4})
    longer = objective.predict(folder, ["the cat", "on"], options | {"max_tokens": 30})
    assert [text[:20] for text in longer] == both


def drawn(settings, chances, count=4000):
    """The share of each token among many draws."""
    logits = torch.cat([torch.zeros(len(SPECIAL)), torch.tensor(chances).log()]).expand(count, -1)
    tokens = draw_token(logits, torch.linspace(0, 1, count, dtype=torch.float64), settings)
    return (torch.bincount(tokens, minlength=logits.shape[1]) / count)[len(SPECIAL) :].tolist()


@pytest.mark.parametrize(
    ("settings", "shares"),
    [
        (Sampling(), [0.2, 0.5, 0.3]),
        (Sampling(temperature=0.5), [4 / 38, 25 / 38, 9 / 38]),
        (Sampling(temperature=1e-9), [0, 1, 0]),
        (Sampling(temperature=0), [0, 1, 0]),
        (Sampling(top_k=1), [0, 1, 0]),
        (Sampling(top_k=2), [0, 5 / 8, 3 / 8]),
        (Sampling(top_k=99), [0.2, 0.5, 0.3]),
        (Sampling(top_p=0.4), [0, 1, 0]),
        (Sampling(top_p=0.6), [0, 5 / 8, 3 / 8]),
        (Sampling(top_p=1.0), [0.2, 0.5, 0.3]),
        (Sampling(top_k=2, top_p=0.6), [0, 1, 0]),
    ],
)
def test_tokens_are_drawn_as_often_as_they_are_likely(settings, shares):
    assert drawn(settings, [0.2, 0.5, 0.3]) == pytest.approx(shares, abs=0.002)


BAD_OPTIONS = [
    ({"temperature": -1.0}, "temperature: must be 0 or more, given -1.0"),
    ({"temperature": float("nan")}, "temperature: must be"),
    ({"top_k": 0}, "top_k: must be 1 or more, given 0"),
    ({"top_p": 1.5}, "top_p: must be above 0 and at most 1, given 1.5"),
    ({"max_tokens": 0}, "max_tokens: must be 1 or more, given 0"),
    ({"seed": -1}, "seed: must be 0 or more, given -1"),
    ({"temperature": 0.0, "top_k": 3}, "have no effect"),
    ({"heat": 1}, "heat: has no effect on a model of 'language_modelling'; allowed: max_tokens, seed"),
]


def test_bad_options_are_refused(poet):
    folder = poet()
    for options, message in BAD_OPTIONS:
        with pytest.raises(ValueError, match=message):
            objective.predict(folder, ["the"], options)


def test_bad_inputs_are_refused(sentiment, tmp_path):
    with pytest.raises(ValueError, match="must be texts"):
        objective.predict(sentiment, [[1.0, 2.0]], {})
    with pytest.raises(ValueError, match="must hold at least one text"):
        objective.predict(sentiment, [], {})
    with pytest.raises(CheckpointError, match="not a usable checkpoint"):
        objective.predict(str(tmp_path), ["good"], {})


@pytest.mark.parametrize("rotary", [False, True])
@pytest.mark.parametrize("kind", ["none", "causal", "boolean", "float", "cross"])
def test_kept_weights_times_values_are_what_the_attention_gives(kind, rotary):
    torch.manual_seed(0)
    module, x, memory = MultiHeadAttention(12, 3, 4, 5, 0.0, True).eval(), torch.randn(2, 6, 12), torch.randn(2, 7, 12)
    rotation = Rotation.of(6, 4, x.device) if rotary else None
    masks = {
        "boolean": torch.tensor([[True] * 6, [True] * 4 + [False] * 2])[:, None, None, :],
        "float": torch.randn(1, 3, 6, 6).masked_fill(torch.ones(6, 6).triu(1) > 0, -torch.inf),
        "cross": torch.tensor([[True] * 7, [True] * 5 + [False] * 2])[:, None, None, :],
    }
    with store_weights([module]):
        if kind == "cross":
            output = module.cross(x, module.project_source(memory), masks[kind])
        else:
            output = module(x, masks.get(kind), causal=kind == "causal", rotation=rotation)
        (weights,) = module.stored_weights
    assert module.stored_weights is None
    value = module.projection(memory if kind == "cross" else x)[..., -15:].unflatten(-1, (3, 5)).transpose(1, 2)
    mixed = module.output((weights @ value).transpose(1, 2).flatten(2))
    torch.testing.assert_close(mixed, output)
    torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))


def check_maps(maps, heads=2):
    for one in maps:
        assert len(one["heads"]) == heads
        for head in one["heads"]:
            assert len(head) == len(one["rows"])
            assert all(len(row) == len(one["columns"]) and sum(row) == pytest.approx(1) for row in head)


def test_an_encoders_maps_stand_on_the_tokens_it_reads(sentiment):
    (encoder,) = maps = objective.attention(sentiment, "The film was GOOD zebra", None)["maps"]
    check_maps(maps)
    assert encoder["name"] == "encoder layer 0"
    assert encoder["rows"] == encoder["columns"] == ["the", "film", "was", "good", "<unknown>"]


def test_a_taggers_maps_stand_on_the_words(tagger):
    (encoder,) = maps = objective.attention(tagger, "The zebra runs", None)["maps"]
    check_maps(maps)
    assert encoder["rows"] == ["The", "zebra", "runs"]


def test_a_long_sentences_maps_are_those_of_the_pieces_that_the_tagger_reads(tagger):
    maps = objective.attention(tagger, "The dog runs A cat", None)["maps"]
    check_maps(maps)
    assert [one["name"] for one in maps] == ["encoder layer 0, words 1 to 4", "encoder layer 0, words 5 to 5"]
    assert [one["rows"] for one in maps] == [["The", "dog", "runs", "A"], ["cat"]]
    alone = objective.attention(tagger, "The dog runs A", None)["maps"]
    assert [one["heads"] for one in alone] == [maps[0]["heads"]]


def test_of_a_long_text_a_language_model_reads_what_its_prediction_reads(poet):
    (decoder,) = objective.attention(poet(), "on the mat and the cat", None)["maps"]
    assert decoder["rows"] == list(" the cat")


@pytest.mark.parametrize("positions", ["rotary", "alibi"])
def test_a_decoder_attends_to_nothing_later(poet, positions):
    (decoder,) = maps = objective.attention(poet(positions), "the cat", None)["maps"]
    check_maps(maps)
    assert decoder["rows"] == list("the cat")
    for head in decoder["heads"]:
        assert torch.tensor(head).triu(1).eq(0).all()


def test_an_encoder_decoder_has_three_kinds_of_maps(reverser):
    folder = reverser(model__num_layers=2, model__num_decoder_layers=1)
    maps = objective.attention(folder, "1 2 3", "3 2")["maps"]
    check_maps(maps)
    names = ["encoder layer 0", "encoder layer 1", "decoder layer 0", "cross-attention layer 0"]
    assert [one["name"] for one in maps] == names
    assert (maps[2]["rows"], maps[2]["columns"]) == (["<start>", "3", "2"],) * 2
    assert (maps[3]["rows"], maps[3]["columns"]) == (["<start>", "3", "2"], ["1", "2", "3"])


@pytest.mark.parametrize(
    ("family", "settings", "count"),
    [
        ("recurrent", {"model__attend": "after"}, 1),
        ("recurrent", {"model__attend": "before"}, 1),
        ("convolutional", {}, 3),
    ],
)
def test_a_recurrent_decoder_has_one_map_and_a_convolutional_one_for_each_block(train, family, settings, count):
    folder = train(small("generated", f"{family}_encoder_decoder", **PUZZLE, **settings))
    maps = objective.attention(folder, "1 2 3", "3 2")["maps"]
    check_maps(maps, heads=1)
    assert [one["name"] for one in maps] == [f"cross-attention layer {place}" for place in range(count)]
    assert all((one["rows"], one["columns"]) == (["<start>", "3", "2"], ["1", "2", "3"]) for one in maps)


def test_without_attention_there_is_no_map(train):
    folder = train(small("generated", "recurrent_encoder_decoder", **PUZZLE, model__attention="none"))
    with pytest.raises(ValueError, match="this network has no attention"):
        objective.attention(folder, "1 2 3", "3 2")


def test_without_a_target_the_decoder_reads_what_it_predicts(reverser):
    folder = reverser()
    (predicted,) = objective.predict(folder, ["1 2 3"], {})
    rows = objective.attention(folder, "1 2 3", None)["maps"][1]["rows"]
    assert rows == ["<start>", *predicted.split()]


def test_without_a_target_the_decoder_reads_the_predicted_tokens_and_not_their_text(train, tmp_path, monkeypatch):
    """As a text `<unknown>` is nine characters, and a target without END has one token more than is ever read."""
    (tmp_path / "pairs.tsv").write_text("".join(f"{word}\t{word}\n" for word in ("ab", "ba", "aab", "bba")) * 10)
    values = {"data__path": str(tmp_path / "pairs.tsv"), "data__tokens": "characters", "data__max_length": 5}
    folder = train(small("translation", "encoder_decoder", **values), size=40)
    known = load_checkpoint(folder).task.target_tokens.encode("a")[0]
    predicted = torch.tensor([[known, UNKNOWN, known, known, known, known]])
    monkeypatch.setattr(sequence_to_sequence, "beam_search", lambda *_: Decoded(predicted, torch.zeros(1)))
    maps = objective.attention(folder, "ab", None)["maps"]
    assert maps[1]["rows"] == maps[2]["rows"] == ["<start>", "a", "<unknown>", "a", "a", "a"]
    predicted[0, 2] = END
    predicted[0, 3:] = PADDING
    assert objective.attention(folder, "ab", None)["maps"][1]["rows"] == ["<start>", "a", "<unknown>"]
