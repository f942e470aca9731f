"""Data sets as Hugging Face's library stores them give the same examples as files do; no network is used."""

import sys
from unittest.mock import Mock

import pytest

from model import objective
from model.errors import DataError
from tests.model.conftest import compose, of
from tests.studies import refuses

datasets = pytest.importorskip("datasets", reason="the extra [hub] is not installed")

TEXTS = [("a good film", "good"), ("a bad film", "bad"), ("very bad", "bad"), ("good good", "good")]
SENTENCES = [(["The", "dog", "runs"], ["DET", "NOUN", "VERB"]), (["Dogs", "run"], ["NOUN", "VERB"])]
OTHERS = [(["A", "cat"], ["DET", "NOUN"])]
PAIRS = [("ein Haus", "a house"), ("der Hund", "the dog"), ("eine Katze", "a cat")]
ROWS = [{"de": source, "en": target} for source, target in PAIRS]
STRING = datasets.Value("string")
LINES = ["to be or not", "", "to be", "that is", "the question"] * 4


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)


@pytest.fixture
def save(tmp_path):
    """Write splits (each: column -> values) as a folder of the library, with these features of columns."""

    def save(features=None, **splits):
        features = None if features is None else datasets.Features(features)
        made = {name: datasets.Dataset.from_dict(values, features=features) for name, values in splits.items()}
        datasets.disable_progress_bars()
        (made["whole"] if "whole" in made else datasets.DatasetDict(made)).save_to_disk(tmp_path / "saved")
        return str(tmp_path / "saved")

    return save


def columns(rows, *names):
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


def described(data, **settings):
    return objective.describe_data(compose(data, **of("data", settings)))


def hub(data="text_classification", **settings):
    return described(data, format="hub", **settings)


def lines_of(sentences):
    return ["\n".join(map("\t".join, zip(*sentence, strict=True))) + "\n" for sentence in sentences]


CASES = {
    "text_classification": (
        {"sentence": STRING, "label": datasets.ClassLabel(names=["bad", "good"])},
        {"whole": columns(TEXTS, "sentence", "label")},
        {"path": [*map("\t".join, TEXTS)]},
        {},
    ),
    "tagging": (
        {"tokens": datasets.List(STRING), "upos": datasets.List(datasets.ClassLabel(names=["DET", "NOUN", "VERB"]))},
        {"train": columns(SENTENCES, "tokens", "upos"), "dev": columns(OTHERS, "tokens", "upos")},
        {"train": lines_of(SENTENCES), "validation": lines_of(OTHERS)},
        {"word_column": "tokens", "tag_column": "upos"},
    ),
    "translation": (
        {"translation": datasets.Translation(["de", "en"])},
        {"train": {"translation": ROWS[:2]}, "test": {"translation": ROWS[2:]}, "extra": {"translation": ROWS}},
        {"train": [*map("\t".join, PAIRS[:2])], "test": [*map("\t".join, PAIRS[2:])]},
        {"source_column": "translation.de", "target_column": "translation.en"},
    ),
    "language_modelling": (None, {"whole": {"text": LINES}}, {"path": LINES}, {}),
}


@pytest.mark.parametrize("data", CASES)
def test_examples_splits_and_labels_are_those_of_files(save, tmp_path, data):
    features, splits, files, settings = CASES[data]
    folder = save(features, **splits)
    for part, lines in files.items():
        (tmp_path / f"{part}.tsv").write_text("".join(f"{line}\n" for line in lines))
    expected = described(data, **{part: str(tmp_path / f"{part}.tsv") for part in files})
    places = [{"path": folder}, {"train": f"{folder}:train", "test": f"{folder}:test"}]
    for place in places if data == "translation" else places[:1]:
        found = hub(data, **place, **settings)
        assert all(found[name] == expected[name] for name in ("digests", "labels", "parts", "size"))


def test_the_fingerprint_is_of_the_rows(save):
    def fingerprint(rows):
        (file,) = hub(path=save(whole=columns(rows, "text", "label")))["files"]
        return file["sha256"]

    assert fingerprint(TEXTS) == fingerprint(TEXTS) != fingerprint([*TEXTS[1:], TEXTS[0]])


LABELLED = {"text": ["one", "two"], "label": ["x", "y"]}
CLASSES = {"text": STRING, "label": datasets.ClassLabel(names=["x", "y"])}
TAGGED = {"data": "tagging", "path": "", "word_column": "tokens", "tag_column": "upos"}
RUNNING = {"data": "language_modelling", "path": ""}


@pytest.mark.parametrize(("splits", "settings", "message"), [
    ({"whole": LABELLED}, {"path": ":dev"}, "has no splits; leave :dev out of data.path"),
    ({"train": LABELLED}, {"path": "", "text_column": 1}, "data.text_column .*must be a name"),
    ({"train": {"tokens": [["a", "b"]], "upos": [["X"]]}}, TAGGED, "row 0: has 2 words, but 1 tags; must have one"),
    ({"train": {"tokens": ["a b"], "upos": [["X"]]}}, TAGGED, "row 0: 'tokens' is a b; must be a list with one"),
    ({"train": {"text": [7]}}, RUNNING, "row 0: 'text' is 7; must be a text"),
    ({"train": {"text": ["", " "]}}, RUNNING, "saved:train: every row is empty; at least one row must hold text"),
    ({"train": LABELLED}, {"path": ":dev"}, "has no split 'dev'; the splits are train"),
    ({"test": LABELLED}, {"path": ""}, "no split 'train'.*test.* as in data.path="),
    ({"train": LABELLED, "test": LABELLED}, {"train": "", "test": ":test"}, "as in data.train=.*:train"),
    ({"train": LABELLED}, {"path": "", "text_column": "words"}, "no column 'words'; the columns are 'text'"),
    ({"train": LABELLED | {"label": [0, -1]}, "features": CLASSES}, {"path": ""}, "row 1: 'label' is -1, which is"),
    ({"train": {"text": ["a", None], "label": ["x", "y"]}}, {"path": ""}, "row 1: 'text' .*null"),
    ({"train": {"text": [], "label": []}}, {"path": ""}, "not a folder .*`save_to_disk`"),
    ({"train": LABELLED}, {"path": "", "subset": "sst2"}, "data.subset: .* folder"),
])  # fmt: skip
def test_what_cannot_be_read_is_reported_in_one_line(save, splits, settings, message):
    folder = save(**splits)
    places = {key: folder + settings[key] for key in ("path", "train", "test") if key in settings}
    refuses(DataError, message, hub, **(settings | places))


@pytest.mark.parametrize("place", ["owner/name", "name", "owner/name:train"])
def test_a_name_that_cannot_be_reached_and_the_missing_extra_are_reported(monkeypatch, place):
    refuses(DataError, r"^data\.path: .*network", hub, path=place)
    monkeypatch.setitem(sys.modules, "datasets", None)
    refuses(DataError, r"pip install 'hpo-transformer\[hub\]'", hub, path=place)


def test_a_name_and_its_subset_are_requested_from_the_hub(monkeypatch):
    load = Mock(return_value=datasets.DatasetDict(train=datasets.Dataset.from_dict(columns(TEXTS, "text", "label"))))
    monkeypatch.setattr(datasets, "load_dataset", load)
    (file,) = hub(path="owner/name:train", subset="small")["files"]
    assert (load.call_args.args, file["path"]) == (("owner/name", "small"), "owner/name:train")
    load.return_value = datasets.DatasetDict(train=datasets.Dataset.from_dict({"text": [], "label": []}))
    refuses(DataError, r"^owner/name:train: has no row; must hold at least one example", hub, path="owner/name:train")
