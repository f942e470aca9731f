import pytest
import torch

from model import objective
from model.config.whole import parse
from model.data.tokens.vocabulary import SPECIAL, UNKNOWN
from model.errors import DataError
from model.tasks.tagging import Tagging
from tests.model.conftest import compose, run, small

SENTENCES = "# a comment\nThe\tDET\tx\ndog\tNOUN\tx\nruns\tVERB\tx\n\n\nA\tDET\tx\ncat\tNOUN\tx\n\n"


@pytest.fixture
def tagged(tmp_path):
    path = tmp_path / "tagged.tsv"
    path.write_text(SENTENCES * 30)
    return path


def test_sentences_are_divided_by_blank_lines_and_comments_left_out(tagged):
    described = objective.describe_data(compose("tagging", data__path=str(tagged)))
    assert described["size"] == 60
    assert described["labels"] is None
    assert len(set(described["digests"])) == 2


def test_tags_are_learned_and_scored_again_from_the_checkpoint(fold, tagged, tmp_path):
    config = small("tagging", data__path=str(tagged), training__epochs=15, training__batch_size=8)
    task = fold(config, metric="accuracy", direction="maximize", checkpoint_dir=str(tmp_path / "checkpoint"))
    _, result = run(task)
    assert result["accuracy"] == 1
    test = {"config": config, "checkpoint_dir": task["checkpoint_dir"], "test": list(range(60)), "threads": 1}
    assert objective.run_test(test)["macro_f1"] == 1


def learned(**overrides):
    config = parse(small("tagging", data__min_count=1, model__dropout=0.0, **overrides))
    items = [{"words": ["The", "dog", "runs"], "tags": ["D", "N", "V"]}, {"words": ["cats"], "tags": ["N"]}]
    return config, items, Tagging.learn(config, items, [0, 1])


def test_a_word_is_known_by_itself_its_ending_and_its_capital():
    _, _, task = learned(data__ending_length=2)
    assert set(task.words[4:]) == {"the", "dog", "runs", "cats"}
    assert set(task.endings[4:]) == {"^he", "og", "ns", "ts"}


def test_a_word_that_is_called_like_a_special_token_is_a_word():
    config = parse(small("tagging", data__min_count=1, data__ending_length=20))
    items = [{"words": [*SPECIAL, "dog"], "tags": ["X", "X", "X", "X", "N"]}]
    known, unknown = Tagging.learn(config, items, [0]), Tagging.learn(config, [{"words": ["a"], "tags": ["X"]}], [0])
    assert known.encode(items).inputs.flat.min() >= len(SPECIAL)
    assert known.encode(items).inputs.flat.unique(dim=0).shape == (5, 2)
    assert (unknown.encode(items).inputs.flat == UNKNOWN).all()


def test_long_sentences_are_taken_in_pieces_without_losing_a_word():
    _, items, task = learned(data__max_length=2)
    data = task.encode(items)
    assert data.lengths.tolist() == [2, 1, 1]
    assert task.count(data, torch.arange(3)) == 4


def test_a_min_count_that_leaves_no_word_is_refused():
    config, items, _ = learned()
    assert "dog" in Tagging.learn(config, items, [0, 1]).words
    rare = parse(small("tagging", data__min_count=2))
    with pytest.raises(
        DataError,
        match=r"data\.min_count: must be lower, because no word occurs so often in the training split, given 2",
    ):
        Tagging.learn(rare, items, [0, 1])
