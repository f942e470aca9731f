import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score

from model.tasks.metrics import accuracy, macro_f1


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=30))
def test_accuracy_and_macro_f1_are_scikit_learns(pairs):
    predicted, target = zip(*pairs, strict=True)
    ours = torch.tensor(predicted), torch.tensor(target)
    assert accuracy(*ours) == pytest.approx(accuracy_score(target, predicted))
    assert macro_f1(*ours, num_classes=5) == pytest.approx(
        f1_score(target, predicted, average="macro", zero_division=0)
    )


def test_a_label_that_the_model_does_not_know_counts_as_wrong():
    predicted, target = torch.tensor([0, 1]), torch.tensor([0, 2])
    assert accuracy(predicted, target) == 0.5
    assert macro_f1(predicted, target, num_classes=2) == pytest.approx(1 / 3)
