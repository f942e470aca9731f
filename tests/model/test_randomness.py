"""Random numbers of one training: on a CPU no GPU is touched, and a state goes from one machine to another."""

import pytest
import torch

from model.training.randomness import Randomness

CPU = torch.device("cpu")


def draws(randomness):
    with randomness.use():
        return torch.rand(3).tolist()


def test_on_a_cpu_no_gpu_is_touched(monkeypatch):
    """A GPU that is there, and whose every use is an error."""

    def touched(*_, **__):
        raise AssertionError("a GPU was touched")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    for name in ("get_rng_state", "get_rng_state_all", "set_rng_state", "set_rng_state_all", "manual_seed_all"):
        monkeypatch.setattr(torch.cuda, name, touched)
    randomness = Randomness(3, CPU)
    first = draws(randomness)
    randomness.restore(randomness.state())
    assert draws(randomness) != first


def test_the_processs_own_random_numbers_go_on_as_if_nothing_had_been():
    torch.manual_seed(5)
    expected = torch.rand(2).tolist()
    torch.manual_seed(5)
    draws(Randomness(3, CPU))
    assert torch.rand(2).tolist() == expected


@pytest.mark.parametrize("num_gpus", [0, 1, 2])
def test_a_state_saved_beside_gpus_continues_without_one(num_gpus):
    saved = Randomness(3, CPU)
    state = saved.state() | {f"cuda{place}": torch.zeros(16, dtype=torch.uint8) for place in range(num_gpus)}
    restored = Randomness(4, CPU)
    restored.restore(state)
    assert draws(restored) == draws(saved)
