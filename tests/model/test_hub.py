"""Data sets as Hugging Face's library keeps them give the same examples as files do; no network is used."""

import sys

import pytest

from model import objective
from model.errors import DataError
from tests.model.conftest import small

datasets = pytest.importorskip("datasets", reason="the extra [hub] is not installed")

TEXTS = [("a good film", "good"), ("a bad film", "bad"), ("very bad", "bad"), ("good good", "good")]
SENTENCES = [(["The", "dog", "runs"], ["DET", "NOUN", "VERB"]), (["Dogs", "run"], ["NOUN", "VERB"])]
OTHERS = [(["A", "cat"], ["DET", "NOUN"])]
PAIRS = [("ein Haus", "a house"), ("der Hund", "the dog"), ("eine Katze", "a cat")]
LINES = ["to be or not", "", "to be", "that is", "the question"] * 4


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    """A test that would ask the hub fails at once instead."""
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


@pytest.fixture
def save(tmp_path):
    """Writes splits (each: column -> values) as a folder of the library, with these features of columns."""

    def save(features=None, **splits):
        folder = str(tmp_path / "saved")
        made = {
            name: datasets.Dataset.from_dict(
                columns, features=None if features is None else datasets.Features(features)
            )
            for name, columns in splits.items()
        }
        whole = made["whole"] if "whole" in made else datasets.DatasetDict(made)
        datasets.disable_progress_bars()
        whole.save_to_disk(folder)
        return folder

    return save


def columns(rows, *names):
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


def described(data, model="encoder", **settings):
    return objective.describe_data(small(data, model, **{f"data__{key}": value for key, value in settings.items()}))


def same(one, other):
    """Whether both hold the same examples, in the same parts and with the same labels."""
    assert one["digests"] == other["digests"]
    assert (one["labels"], one["parts"], one["size"]) == (other["labels"], other["parts"], other["size"])


def test_labelled_texts_are_those_of_a_file(save, tmp_path):
    labels = datasets.ClassLabel(names=["bad", "good"])
    folder = save({"sentence": datasets.Value("string"), "label": labels}, whole=columns(TEXTS, "sentence", "label"))
    file = tmp_path / "texts.tsv"
    file.write_text("".join(f"{text}\t{label}\n" for text, label in TEXTS))
    same(described("text_classification", format="hub", path=folder), described("text_classification", path=str(file)))


def test_tagged_sentences_are_those_of_a_column_file(save, tmp_path):
    tags = datasets.List(datasets.ClassLabel(names=["DET", "NOUN", "VERB"]))
    folder = save(
        {"tokens": datasets.List(datasets.Value("string")), "upos": tags},
        train=columns(SENTENCES, "tokens", "upos"), dev=columns(OTHERS, "tokens", "upos"),
    )  # fmt: skip
    files = {}
    for part, sentences in (("train", SENTENCES), ("validation", OTHERS)):
        files[part] = tmp_path / f"{part}.tsv"
        words = ("\n".join(map("\t".join, zip(*sentence, strict=True))) for sentence in sentences)
        files[part].write_text("\n\n".join(words) + "\n")
    hub = described("tagging", format="hub", path=folder, word_column="tokens", tag_column="upos")
    same(hub, described("tagging", **{part: str(path) for part, path in files.items()}))
    assert hub["parts"] == {"train": 2, "validation": 1}


def test_pairs_inside_one_column_are_those_of_a_file(save, tmp_path):
    rows = [{"de": source, "en": target} for source, target in PAIRS]
    folder = save(
        {"translation": datasets.Translation(["de", "en"])},
        train={"translation": rows[:2]}, test={"translation": rows[2:]}, extra={"translation": rows},
    )  # fmt: skip
    files = {"train": tmp_path / "train.tsv", "test": tmp_path / "test.tsv"}
    for path, pairs in zip(files.values(), (PAIRS[:2], PAIRS[2:]), strict=True):
        path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    sides = {"source_column": "translation.de", "target_column": "translation.en"}
    expected = described("translation", "encoder_decoder", **{part: str(path) for part, path in files.items()})
    same(described("translation", "encoder_decoder", format="hub", path=folder, **sides), expected)
    named = {"train": f"{folder}:train", "test": f"{folder}:test"}
    same(described("translation", "encoder_decoder", format="hub", **named, **sides), expected)


def test_running_text_is_that_of_a_file_and_is_cut_alike(save, tmp_path):
    folder = save(whole={"text": LINES})
    file = tmp_path / "text.txt"
    file.write_text("".join(f"{line}\n" for line in LINES))
    hub = described("language_modelling", "decoder", format="hub", path=folder)
    same(hub, described("language_modelling", "decoder", path=str(file)))
    assert list(hub["parts"]) == ["train", "validation"]


def test_the_fingerprint_is_of_the_rows(save):
    def fingerprint(rows):
        folder = save(whole=columns(rows, "text", "label"))
        (file,) = described("text_classification", format="hub", path=folder)["files"]
        return file["sha256"]

    assert fingerprint(TEXTS) == fingerprint(TEXTS)
    assert fingerprint(TEXTS) != fingerprint([*TEXTS[1:], TEXTS[0]])


LABELLED = {"text": ["one", "two"], "label": ["x", "y"]}


@pytest.mark.parametrize(
    ("splits", "settings", "message"),
    [
        ({"train": LABELLED}, {"path": ":dev"}, "has no split 'dev'; the splits are train"),
        ({"whole": LABELLED}, {"path": ":dev"}, "has no splits; leave :dev out of data.path"),
        ({"test": LABELLED}, {"path": ""}, r"has no split 'train'; choose one of its splits \(test\), as in"),
        ({"train": LABELLED, "test": LABELLED}, {"train": "", "test": ":test"}, "as in data.train=.*:train"),
        ({"train": LABELLED}, {"path": "", "text_column": "words"}, "no column 'words'; the columns are 'text'"),
        ({"train": LABELLED}, {"path": "", "text_column": 1}, "data.text_column must be a name, given 1; the"),
        ({"train": {"text": ["a", None], "label": ["x", "y"]}}, {"path": ""}, "row 1: 'text' is null; must be a text"),
        ({"train": {"text": [], "label": []}}, {"path": ""}, "is not a folder with rows that `save_to_disk` wrote"),
        ({"train": LABELLED}, {"path": "", "subset": "sst2"}, "data.subset: must be null for a folder, given 'sst2'"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_said_in_one_line(save, splits, settings, message):
    folder = save(**splits)
    for key in ("path", "train", "test"):
        if key in settings:
            settings = settings | {key: folder + settings[key]}
    with pytest.raises(DataError, match=message) as caught:
        described("text_classification", format="hub", **settings)
    assert "\n" not in str(caught.value)


def test_a_class_that_is_kept_secret_is_refused(save):
    features = {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["x", "y"])}
    folder = save(features, train={"text": ["one", "two"], "label": [0, -1]})
    with pytest.raises(DataError, match="row 1: 'label' is -1, which is not the number of a class"):
        described("text_classification", format="hub", path=folder)


@pytest.mark.parametrize("place", ["owner/name", "name", "owner/name:train"])
def test_a_name_that_cannot_be_reached_is_said_in_one_line(place):
    with pytest.raises(DataError, match=r"check the name, data\.subset and the network") as caught:
        described("text_classification", format="hub", path=place)
    assert "\n" not in str(caught.value)


def test_a_name_and_its_subset_are_what_the_hub_is_asked_for(monkeypatch):
    asked = []

    def load(*given):
        asked.append(given)
        return datasets.DatasetDict(train=datasets.Dataset.from_dict(columns(TEXTS, "text", "label")))

    monkeypatch.setattr(datasets, "load_dataset", load)
    settings = {"format": "hub", "path": "owner/name:train", "subset": "small"}
    (file,) = described("text_classification", **settings)["files"]
    assert (asked, file["path"]) == ([("owner/name", "small")], "owner/name:train")


def test_without_the_extra_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DataError, match=r"pip install 'hpo-transformer\[hub\]'"):
        described("text_classification", format="hub", path="owner/name")
