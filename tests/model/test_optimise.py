import itertools
import math

import pytest
import torch
from torch import nn

from model.config.whole import parse
from model.networks.classifier import Classifier
from model.networks.roles import Matrix, matrices_of
from model.training.optimise import add_l1_gradient, build_optimizers
from model.training.schedule import Plateau, learning_rate
from tests.model.conftest import compose, small


def training(**overrides):
    return parse(compose(**{f"training__{key}": value for key, value in overrides.items()})).training


@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine", "inverse_sqrt", "wsd", "plateau"])
def test_every_schedule_warms_up_in_a_straight_line_and_never_rises_again(schedule):
    config = training(schedule=schedule, warmup_fraction=0.25, lr=0.5)
    rates = [learning_rate(step, 100, config) for step in range(100)]
    assert rates[:25] == pytest.approx([0.5 * (step + 1) / 25 for step in range(25)])
    assert all(later <= earlier + 1e-12 for earlier, later in itertools.pairwise(rates[24:]))
    assert rates[-1] > 0


def test_the_inverse_square_root_is_the_papers_up_to_a_factor():
    """Vaswani et al. 2017, equation 3: min(step^-0.5, step * warmup^-1.5)."""
    config = training(schedule="inverse_sqrt", warmup_fraction=0.2, lr=1.0)
    paper = [min(step**-0.5, step * 20**-1.5) for step in range(1, 101)]
    ours = [learning_rate(step, 100, config) for step in range(100)]
    assert [a / b for a, b in zip(ours, paper, strict=True)] == pytest.approx([math.sqrt(20)] * 100)


def test_wsd_stays_and_then_falls_in_a_straight_line():
    config = training(schedule="wsd", warmup_fraction=0.1, decay_fraction=0.25, final_lr_fraction=0.2, lr=1.0)
    rates = [learning_rate(step, 100, config) for step in range(101)]
    assert rates[9:76] == [1.0] * 67
    assert rates[76:] == pytest.approx([1 - 0.8 * fallen / 25 for fallen in range(1, 26)])


def test_decay_spares_biases_and_norms_unless_told_otherwise():
    network = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4))
    for parameter in network.parameters():
        nn.init.ones_(parameter)
        parameter.grad = torch.zeros_like(parameter)
    build_optimizers(network, training(weight_decay=0.5, lr=0.1))[0].step()
    assert float(network[0].weight.detach().max()) == pytest.approx(0.95)
    assert float(network[0].bias.detach().min()) == float(network[1].weight.detach().min()) == 1
    build_optimizers(network, training(weight_decay=0.5, lr=0.1, decay_biases_and_norms=True))[0].step()
    assert float(network[0].bias.detach().max()) == pytest.approx(0.95)


def test_coupled_decay_is_the_gradient_of_half_the_squared_weights():
    layer = nn.Linear(2, 1, bias=False)
    before = layer.weight.detach().clone()
    layer.weight.grad = torch.zeros_like(layer.weight)
    build_optimizers(layer, training(optimizer="sgd", weight_decay=0.5, lr=0.1))[0].step()
    torch.testing.assert_close(layer.weight.detach(), before * 0.95)


def test_l1_adds_the_sign_of_each_weight():
    weight = nn.Parameter(torch.tensor([[2.0, -3.0, 0.0]]))
    weight.grad = torch.ones(1, 3)
    add_l1_gradient([weight], 0.1)
    torch.testing.assert_close(weight.grad, torch.tensor([[1.1, 0.9, 1.0]]))


class Inner(nn.Linear):
    """A linear layer that declares its matrix, as those inside a Transformer's layers are."""

    def matrices(self):
        return [Matrix(self.weight, (len(self.weight),))]


class Deep(nn.Module):
    """A linear layer in `layers`, as a Transformer has them, and one outside."""

    def __init__(self):
        super().__init__()
        self.stack = nn.Module()
        self.stack.layers = nn.ModuleList([Inner(3, 3)])
        self.head = nn.Linear(3, 1)

    def forward(self, x):
        return self.head(self.stack.layers[0](x))


@pytest.mark.quick("adamw", "sgd", "muon")
@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw", "adagrad", "rmsprop", "muon"])
def test_every_optimizer_finds_the_least_squares_solution(optimizer):
    torch.manual_seed(0)
    network, x = Deep(), torch.randn(64, 3)
    target = x @ torch.tensor([[1.0], [-2.0], [0.5]]) + 0.3
    lr = {"sgd": 0.02, "adagrad": 0.2, "muon": 0.1}.get(optimizer, 0.01)
    config = training(optimizer=optimizer, lr=lr, weight_decay=0.0, momentum=0.9 if optimizer == "sgd" else None)
    optimizers = build_optimizers(network, config)
    for step in range(400):
        loss = nn.functional.mse_loss(network(x), target)
        loss.backward()
        for each in optimizers:
            for group in each.param_groups:  # as the schedules do: to the exact minimum with smaller and smaller steps
                group["lr"] = learning_rate(step, 400, config)
            each.step()
            each.zero_grad()
    assert loss.item() < 1e-3


def test_muon_takes_the_matrices_inside_the_layers_and_adamw_all_others():
    config = parse(small(training__optimizer="muon"))
    network = Classifier(config.model, num_classes=3, max_length=8, vocabulary_size=11)
    muon, adamw = build_optimizers(network, config.training)
    taken = [[p.data_ptr() for group in each.param_groups for p in group["params"]] for each in (muon, adamw)]
    matrices = {p.data_ptr() for layer in network.encoder.layers for p in layer.parameters() if p.ndim == 2}
    assert matrices <= set(taken[0])
    assert set(taken[1]) == {p.data_ptr() for p in network.parameters()} - matrices


def orthogonal(network, config):
    """Whether each of queries, keys and values of the first layer moved by an orthogonal matrix of its own."""
    attention = network.encoder.layers[0].attention
    before = attention.projection.weight.detach().clone()
    torch.manual_seed(1)
    # Queries of gradients far larger than those of keys: as one matrix, the keys would hardly move.
    gradient = torch.randn_like(before)
    gradient[: attention.widths[0]] *= 1000
    attention.projection.weight.grad = gradient
    build_optimizers(network, config)[0].step()
    moved = (before - attention.projection.weight.detach()).split(attention.widths)
    return [torch.linalg.svdvals(part / part.square().mean().sqrt() / part.shape[1] ** 0.5) for part in moved]


def test_muon_takes_queries_keys_and_values_as_matrices_of_their_own():
    config = parse(small(training__optimizer="muon", training__weight_decay=0.0))
    network = Classifier(config.model, num_classes=3, max_length=8, vocabulary_size=11)
    for values in orthogonal(network, config.training):
        assert 0.5 < float(values.min()) <= float(values.max()) < 1.6


@pytest.mark.parametrize("weight_norm", [False, True])
def test_muon_takes_the_two_halves_of_a_gate_as_matrices_of_their_own(weight_norm):
    """A and B of A * sigmoid(B) have gradients of their own size, and one must not hide the other."""
    config = parse(small(model="convolutional_encoder", model__weight_norm=weight_norm, training__optimizer="muon"))
    network = Classifier(config.model, num_classes=3, max_length=8, vocabulary_size=11)
    gates = network.encoder.blocks[0].map
    weight = gates.parametrizations.weight.original1 if weight_norm else gates.weight
    before, weight.grad = weight.detach().clone(), torch.randn_like(weight)
    weight.grad[: len(weight) // 2] *= 1000
    muon, _ = build_optimizers(network, config.training)
    muon.param_groups[0]["weight_decay"] = 0.0
    muon.step()
    for half in (before - weight.detach()).chunk(2):
        values = torch.linalg.svdvals(half / half.square().mean().sqrt() / max(half.shape) ** 0.5)
        assert 0.5 < float(values.min()) <= float(values.max()) < 1.6
    assert [matrix.sizes for matrix in matrices_of(network) if matrix.weight is not weight][:1] == [(12,)]


def test_muons_step_is_orthogonal_and_as_large_as_adams():
    """Singular values near 1 before scaling (Jordan et al. 2024); root mean square 0.2 after it (Liu et al. 2025)."""
    torch.manual_seed(0)
    network = Deep()
    network.stack.layers[0] = Inner(16, 8)
    matrix = network.stack.layers[0].weight
    before, matrix.grad = matrix.detach().clone(), torch.randn(8, 16)
    build_optimizers(network, training(optimizer="muon", lr=0.1, weight_decay=0.0))[0].step()
    moved = (before - matrix.detach()) / 0.1
    values = torch.linalg.svdvals(moved / (0.2 * 16**0.5))
    assert 0.6 < float(values.min()) <= float(values.max()) < 1.3
    assert float(moved.square().mean().sqrt()) == pytest.approx(0.2, rel=0.2)


def test_decoupled_decay_shrinks_by_rate_times_decay_alike_in_adamw_and_muon():
    network = Deep()
    for parameter in network.parameters():
        nn.init.ones_(parameter)
        parameter.grad = torch.zeros_like(parameter)
    for each in build_optimizers(network, training(optimizer="muon", weight_decay=0.5, lr=0.1)):
        each.step()
    for layer in (network.stack.layers[0], network.head):
        torch.testing.assert_close(layer.weight.detach(), torch.full_like(layer.weight, 0.95))
        torch.testing.assert_close(layer.bias.detach(), torch.ones_like(layer.bias))


def test_a_plateau_halves_the_rate_after_its_patience_and_then_waits_again():
    config, plateau, scales = training(schedule="plateau", plateau_patience=2, plateau_factor=0.5), Plateau(), []
    for gained in (True, False, False, False, False, True, False):
        plateau.note(gained, config)
        scales.append(plateau.scale)
    assert scales == [1, 1, 0.5, 0.5, 0.25, 0.25, 0.25]


def test_the_last_rate_of_linear_and_cosine_is_near_the_configured_share():
    for schedule in ("linear", "cosine"):
        config = training(schedule=schedule, final_lr_fraction=0.1, lr=1.0)
        assert learning_rate(999, 1000, config) == pytest.approx(0.1, abs=2e-3)
