"""Your own PyTorch loop, stopped early by the median rule: `python examples/pytorch_loop.py`, 30 seconds."""

import torch
from sklearn.datasets import load_digits
from torch import nn

import hpo


def train(config, trial):
    """Return the accuracy on digits outside the training split."""
    torch.manual_seed(trial.seed)
    digits = load_digits()
    images, labels = torch.tensor(digits.data / 16).float(), torch.tensor(digits.target)
    model = nn.Sequential(nn.Linear(64, config["width"]), nn.ReLU(), nn.Linear(config["width"], 10))
    optimizer = torch.optim.SGD(model.parameters(), config["lr"], momentum=config["momentum"])
    for epoch in range(1, 21):
        for batch in torch.randperm(1400).split(32):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images[batch]), labels[batch]).backward()
            optimizer.step()
        accuracy = (model(images[1400:]).argmax(-1) == labels[1400:]).float().mean().item()
        trial.report(epoch=epoch, accuracy=accuracy)
    return {"accuracy": accuracy}


if __name__ == "__main__":
    space = {"lr": hpo.log(1e-4, 1.0), "momentum": (0.0, 0.99), "width": [16, 32, 64, 128]}
    settings = {"study.stop_rule": "median", "study.stop_rule_after": 3}
    goal = {"metric": "accuracy", "direction": "maximize"}
    study = hpo.search(train, space, strategy="evolutionary", trials=24, workers=2, settings=settings, **goal)
    print(study.best.score, study.best.config)
