"""Optimizers, weight decay and schedules."""

import itertools
import math

import pytest
import torch
from torch import nn

from model.config.whole import parse
from model.networks.classifier import Classifier
from model.training.optimise import add_l1_gradient, build_optimizers
from model.training.schedule import Plateau, learning_rate
from tests.model.conftest import compose, of, small


def training(**overrides):
    return parse(compose(**of("training", overrides))).training


def rates(num_steps=100, **overrides):
    config = training(lr=1.0, **overrides)
    return [learning_rate(step, num_steps, config) for step in range(num_steps + 1)]


@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine", "inverse_sqrt", "wsd", "plateau"])
def test_every_schedule_warms_up_in_a_straight_line_and_never_rises_again(schedule):
    found = rates(schedule=schedule, warmup_fraction=0.25)[:100]
    assert found[:25] == pytest.approx([(step + 1) / 25 for step in range(25)])
    assert all(later <= earlier + 1e-12 for earlier, later in itertools.pairwise(found[24:]))
    assert found[-1] > 0


def test_the_inverse_square_root_is_the_papers_up_to_a_factor():
    """Vaswani et al. 2017, equation 3: min(step^-0.5, step * warmup^-1.5)."""
    paper = [min(step**-0.5, step * 20**-1.5) for step in range(1, 102)]
    ours = rates(schedule="inverse_sqrt", warmup_fraction=0.2)
    assert [a / b for a, b in zip(ours, paper, strict=True)] == pytest.approx([math.sqrt(20)] * 101)


def test_wsd_stays_and_then_falls_in_a_straight_line():
    found = rates(schedule="wsd", warmup_fraction=0.1, decay_fraction=0.25, final_lr_fraction=0.2)
    assert found[9:76] == [1.0] * 67
    assert found[76:] == pytest.approx([1 - 0.8 * fallen / 25 for fallen in range(1, 26)])


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_the_last_rate_is_near_the_configured_share(schedule):
    assert rates(1000, schedule=schedule, final_lr_fraction=0.1)[999] == pytest.approx(0.1, abs=2e-3)


def test_a_plateau_halves_the_rate_after_its_patience_and_then_waits_again():
    config, plateau, scales = training(schedule="plateau", plateau_patience=2, plateau_factor=0.5), Plateau(), []
    for gained in (True, False, False, False, False, True, False):
        plateau.note(gained, config)
        scales.append(plateau.scale)
    assert scales == [1, 1, 0.5, 0.5, 0.25, 0.25, 0.25]


def classifier(family="transformer", **overrides):
    config = parse(small("digits", family, training__optimizer="muon", training__weight_decay=0.0, **overrides))
    torch.manual_seed(0)
    return Classifier(config.model, num_classes=3, max_length=8, vocabulary_size=11), config.training


@pytest.mark.parametrize("optimizer", ["sgd", "adamw", "muon"])
def test_decay_shrinks_by_rate_times_decay_but_spares_biases_and_norms_unless_they_are_included(optimizer):
    for is_spared in (True, False):
        network, _ = classifier()
        for parameter in network.parameters():
            nn.init.ones_(parameter)
            parameter.grad = torch.zeros_like(parameter)
        decay = {"weight_decay": 0.5, "lr": 0.1, "decay_biases_and_norms": not is_spared}
        for each in build_optimizers(network, training(optimizer=optimizer, **decay)):
            each.step()
        for parameter in network.parameters():
            expected = 1.0 if parameter.ndim == 1 and is_spared else 0.95
            torch.testing.assert_close(parameter.detach(), torch.full_like(parameter, expected))


def test_l1_adds_the_sign_of_each_weight():
    weight = nn.Parameter(torch.tensor([[2.0, -3.0, 0.0]]))
    weight.grad = torch.ones(1, 3)
    add_l1_gradient([weight], 0.1)
    torch.testing.assert_close(weight.grad, torch.tensor([[1.1, 0.9, 1.0]]))


@pytest.mark.parametrize("width", [1, 32])
def test_muon_takes_the_matrices_inside_the_layers_and_adamw_all_others(width):
    network, config = classifier(model__feed_forward_width=width)
    muon, adamw = build_optimizers(network, config)
    taken = [[p.data_ptr() for group in each.param_groups for p in group["params"]] for each in (muon, adamw)]
    matrices = {p.data_ptr() for layer in network.encoder.layers for p in layer.parameters() if p.ndim == 2}
    assert matrices <= set(taken[0])
    assert set(taken[1]) == {p.data_ptr() for p in network.parameters()} - matrices


@pytest.mark.parametrize("kind", ["one matrix", "queries, keys and values", "a gate", "a gate with weight norm"])
def test_muons_step_is_orthogonal_and_as_large_as_adams_for_each_matrix_inside_a_weight(kind):
    """Singular values near 1 before scaling (Jordan et al. 2024); root mean square 0.2 after it (Liu et al. 2025)."""
    if kind == "queries, keys and values":
        network, config = classifier()
        attention = network.encoder.layers[0].attention
        weight, split = attention.projection.weight, lambda weight: weight.split(attention.widths)
    elif kind == "one matrix":
        network, config = classifier()
        weight, split = network.encoder.layers[0].feed_forward.inner.weight, lambda weight: [weight]
    else:
        network, config = classifier("convolutional", model__weight_norm="norm" in kind)
        gates, split = network.encoder.blocks[0].map, lambda weight: weight.chunk(2)
        weight = gates.parametrizations.weight.original1 if "norm" in kind else gates.weight
    before, weight.grad = weight.detach().clone(), torch.randn_like(weight)
    weight.grad[: len(split(weight)[0])] *= 1000  # as one matrix, the others would hardly move
    build_optimizers(network, config)[0].step()
    for part in split((before - weight.detach()) / config.lr):
        values = torch.linalg.svdvals(part / (0.2 * max(part.shape) ** 0.5))
        assert 0.5 < float(values.min()) <= float(values.max()) < 1.6
        assert float(part.square().mean().sqrt()) == pytest.approx(0.2, rel=0.2)
