import dataclasses
from pathlib import Path

import pytest

from model.data.encoded_cache import cache_folder
from model.data.store import write_store
from model.training import fold as fold_module
from tests.model.conftest import run, small


@pytest.mark.parametrize(
    ("data", "model", "overrides"),
    [
        ("digits", "encoder", {}),
        ("text_classification", "encoder", {}),
        ("generated", "encoder_decoder", {"data__num_examples": 60, "data__max_length": 5}),
    ],
)
def test_data_are_encoded_once_and_from_disk_training_is_the_same_to_the_bit(
    fold, reviews, monkeypatch, data, model, overrides
):
    path = {"data__path": str(reviews)} if data == "text_classification" else {}
    task = fold(small(data, model, **(overrides | path)))
    first = run(task)
    monkeypatch.setattr(fold_module, "read_store", lambda _: pytest.fail("was read and encoded again"))
    assert run(task) == first


def test_other_settings_or_folds_are_encoded_anew(fold, reviews):
    config = small("text_classification", data__path=str(reviews))
    task = fold(config)
    run(task)
    run(task | {"train": task["train"][:-1]})
    run(task | {"config": task["config"] | {"data": task["config"]["data"] | {"min_count": 3}}})
    assert len(list((Path(task["data_dir"]) / "encoded").iterdir())) == 3


def test_a_folder_that_cannot_be_written_only_costs_time(fold, monkeypatch):
    task = fold(small())
    expected = run(task)
    task = fold(small())  # prepared anew: nothing is cached

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("model.data.encoded_cache.tempfile.mkdtemp", full)
    assert run(task) == expected


@dataclasses.dataclass(frozen=True)
class Few:
    texts: list[str]


@dataclasses.dataclass(frozen=True)
class More:
    texts: list[str]
    unknown_bits: float


def test_what_was_encoded_with_other_fields_is_not_read(tmp_path):
    write_store([{"text": "a"}], str(tmp_path))
    folders = {cache_folder(str(tmp_path), {}, encoded_type) for encoded_type in (Few, More, Few)}
    assert len(folders) == 2
