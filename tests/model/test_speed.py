import pytest
import torch

from model.config.whole import parse
from model.networks.language_model import LanguageModel
from model.training.speed import Speed, operations_per_token, peak_of
from tests.model.conftest import small


@pytest.mark.parametrize("tied", [False, True])
def test_the_operations_of_a_token_are_those_of_palm(tied):
    """6 N + 12 L H Q T, N being all parameters but the embedding, where that is no head."""
    sizes = {"num_layers": 3, "num_heads": 2, "d_model": 16, "feed_forward_width": 32, "positions": "rotary"}
    config = parse(small("language_modelling", "decoder", **{f"model__{name}": value for name, value in sizes.items()}))
    model = config.model.model_copy(update={"tied_embeddings": tied})
    network = LanguageModel(model, vocabulary_size=50, max_length=40)
    total = sum(parameter.numel() for parameter in network.parameters())
    counted = total if tied else total - 50 * 16
    assert operations_per_token(network, 40) == 6 * counted + 12 * 3 * 2 * 8 * 40


def test_a_share_of_the_peak_is_that_of_all_devices(monkeypatch):
    """Half of what two devices can do."""
    monkeypatch.setattr("model.training.speed.peak_of", lambda device: 1e6)
    monkeypatch.setattr("model.training.speed.time.perf_counter", iter([0.0, 2.0, 5.0, 7.0]).__next__)
    speed = Speed(torch.nn.Linear(100, 10, bias=False), torch.tensor([3, 7, 90]), torch.device("cpu"), 2)
    for _ in range(2):
        speed.begin()
        speed.add([torch.tensor([0]), torch.tensor([1, 1])])
        speed.end()
    assert speed.measured() == {"tokens_per_second": 34 / 4, "share_of_peak": 6 * 1000 * 34 / 4 / 2e6}
    assert speed.measured() == {}


@pytest.mark.parametrize(
    ("name", "peak"), [("NVIDIA H100 80GB HBM3", 989.4e12), ("NVIDIA H100 PCIe", 756e12), ("NVIDIA T4", None)]
)
def test_the_peak_of_a_device_goes_by_its_name(monkeypatch, name, peak):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: name)
    assert peak_of(torch.device("cuda", 0)) == peak
    assert peak_of(torch.device("cpu")) is None
