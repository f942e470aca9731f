"""Logits over a large vocabulary never exist all at once, and the loss and its gradients are the same."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from model.networks.roles import LinearHead
from model.tasks import cross_entropy
from model.training.compiled import CompiledForward
from tests.model.test_every_shape import CPU, build, loss_and_gradients, updating

TOKENS = pytest.mark.parametrize("data", ["language_modelling", "translation"])
EVERY_FAMILY = pytest.mark.parametrize("family", ["transformer", "recurrent", "convolutional"])


@TOKENS
@EVERY_FAMILY
def test_chunks_have_the_loss_and_gradients_of_the_whole(data, family, monkeypatch):
    _, task, encoded, network = build(data, family, model__tied_embeddings=family == "transformer")
    network.double()
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
    whole = loss_and_gradients(task, encoded, network, torch.arange(len(encoded)))
    for limit in (1, 30, 100):
        monkeypatch.setattr(cross_entropy, "LARGEST_LOGITS", limit)
        torch.testing.assert_close(
            loss_and_gradients(task, encoded, network, torch.arange(len(encoded))), whole, rtol=1e-10, atol=1e-10
        )


class LargestWithClasses(TorchDispatchMode):
    """The largest number of rows of a tensor whose last size is that of the vocabulary, whatever made it."""

    def __init__(self, classes):
        super().__init__()
        self.classes, self.rows = classes, 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor) and tensor.ndim > 1 and tensor.shape[-1] == self.classes:
                self.rows = max(self.rows, tensor.numel() // self.classes)
        return result


@TOKENS
def test_no_more_logits_than_the_limit_exist_at_once(data, monkeypatch):
    # Narrow, since the head's transposed weights have as many rows as the network is wide.
    _, task, encoded, network = build(data, model__d_model=2, model__num_heads=1)
    classes, rows = network.head.own.out_features, []
    for limit in (2**26, 3 * classes):
        monkeypatch.setattr(cross_entropy, "LARGEST_LOGITS", limit)
        with LargestWithClasses(classes) as largest:
            loss_and_gradients(task, encoded, network, torch.arange(len(encoded)))
        rows.append(largest.rows)
    assert rows[0] > rows[1] == 3


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, as it compiles
@TOKENS
def test_a_compiled_network_takes_chunks_too(data, monkeypatch):
    compile_with = torch.compile
    monkeypatch.setattr(torch, "compile", lambda network: compile_with(network, backend="aot_eager", fullgraph=True))
    losses = []
    for limit, compiles in ((2**26, False), (100, True)):
        monkeypatch.setattr(cross_entropy, "LARGEST_LOGITS", limit)
        config, task, encoded, network = build(data, training__compile=compiles)
        step = updating(config, task, encoded, network)
        losses.append([step() for _ in range(3)])
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)


def test_many_predictions_have_finite_gradients_in_float16(monkeypatch):
    """20,000 times 8 is more than float16 has, and no smaller factor of the loss would mend it."""
    monkeypatch.setattr(cross_entropy, "LARGEST_LOGITS", 40_000)
    head, decoded = LinearHead(2, 2, bias=False), torch.full((1, 20_000, 2), 8.0, requires_grad=True)
    losses = cross_entropy.ChunkedCrossEntropy(torch.zeros(20_000, dtype=torch.long), 2, 0.0, 0.0)
    with torch.no_grad():
        head.weight.copy_(torch.tensor([[-1.0, -1.0], [1.0, 1.0]]))
    with torch.autocast("cpu", torch.float16):
        loss = losses(decoded, head)
    (loss.objective / 20_000).backward()
    # Every prediction is wrong, and sure of it: the softmax less the target is (-1, 1).
    torch.testing.assert_close(head.weight.grad, torch.tensor([[-8.0, -8.0], [8.0, 8.0]]), rtol=1e-3, atol=0)
    torch.testing.assert_close(decoded.grad, torch.full((1, 20_000, 2), 2 / 20_000), rtol=1e-3, atol=0)


@TOKENS
def test_an_evaluation_in_half_precision_takes_chunks_too(data, monkeypatch):
    """Also of a network whose forward pass is compiled."""
    monkeypatch.setattr(torch, "compile", lambda forward, **_: forward)
    config, task, encoded, network = build(data, training__compile=True)
    batch, losses = task.batch(encoded, torch.arange(len(encoded)), CPU), []
    for limit in (2**26, 100):
        monkeypatch.setattr(cross_entropy, "LARGEST_LOGITS", limit)
        forward = CompiledForward(network, config.training)
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16), forward.in_use():
            losses.append(float(task.loss(network.eval(), batch, 0.0).cross_entropy))
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
