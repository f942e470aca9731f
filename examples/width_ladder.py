r"""Your own PyTorch network on a ladder of four widths: `python examples/width_ladder.py`.

In this folder, run the coordinate check of its parametrization:

    hpo scale --check objective=width_ladder:train +width=32 +epochs=5 +lr=0.01 \
        'study.scales=[{width: 32}, {width: 64}, {width: 128}, {width: 256}]'
"""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy

import hpo

BASE = 256  # the width at which all layers learn at the same rate


def network(config):
    """Return three layers, and an optimizer whose best rate is the same at every width."""
    width, lr = config["width"], config["lr"]
    layers = {"first": nn.Linear(64, width), "hidden": nn.Linear(width, width), "head": nn.Linear(width, 10)}
    # The parametrization: weights with `width` inputs get a rate of lr * BASE / width, and the head starts at 0.
    for parameter in layers["head"].parameters():
        nn.init.zeros_(parameter)
    rates = {"hidden.weight": lr * BASE / width, "head.weight": lr * BASE / width}
    model = nn.ModuleDict(layers)
    return model, torch.optim.Adam([{"params": [p], "lr": rates.get(n, lr)} for n, p in model.named_parameters()])


def outputs(model, images):
    """Return the output of each layer; the head's are the logits."""
    first = model.first(images)
    hidden = model.hidden(first.relu())
    return {"first": first, "hidden": hidden, "head": model.head(hidden.relu())}


def digits():
    """Return the images and their labels."""
    data = load_digits()
    return torch.tensor(data.data / 16).float(), torch.tensor(data.target)


def describe_cost(config):
    """Return the cost of an epoch: multiplications by the weights."""
    return config["width"] * (64 + config["width"] + 10)


@hpo.objective(describe_cost=describe_cost)
def train(config, trial):
    """Report the validation loss of each epoch."""
    torch.manual_seed(trial.seed)
    images, labels = digits()
    model, optimizer = network(config)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=22 * config["epochs"])
    for epoch in range(1, config["epochs"] + 1):
        for batch in torch.randperm(1400).split(64):
            optimizer.zero_grad()
            cross_entropy(outputs(model, images[batch])["head"], labels[batch]).backward()
            optimizer.step()
            schedule.step()
        with torch.no_grad():
            trial.report(epoch=epoch, loss=cross_entropy(outputs(model, images[1400:])["head"], labels[1400:]).item())


def output_sizes(task):
    """Return the mean absolute output of each layer after some steps on one batch."""
    torch.manual_seed(task["seed"])
    images, labels = (array[:64] for array in digits())
    model, optimizer = network(task["config"])
    sizes = {}
    for step in range(1, max(task["steps"]) + 1):
        optimizer.zero_grad()
        cross_entropy(outputs(model, images)["head"], labels).backward()
        optimizer.step()
        with torch.no_grad():
            sizes[step] = {name: output.abs().mean().item() for name, output in outputs(model, images).items()}
    return sizes


if __name__ == "__main__":
    study = hpo.search(
        train,
        {"lr": hpo.log(1e-3, 0.3)},
        config={"width": 32, "epochs": 5},
        scales=[{"width": width} for width in (32, 64, 128, 256)],
        strategy={"name": "ladder", "trials": 12},
        trials=20,
        metric="loss",
        direction="minimize",
        settings={"track": "none"},
    )
    print(study.best.config)
