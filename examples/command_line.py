r"""A training program that needs no changes for a search: it reads arguments and prints a line of JSON per epoch.

This command searches it in 30 seconds:

    hpo search objective=command study.metric=accuracy strategy=evolutionary study.trials=12 \
        command.line='python examples/command_line.py --lr {lr} --decay {decay} --seed {task.seed}' \
        'space.lr={low: 0.001, high: 10.0, log: true}' 'space.decay=[0.0, 0.0001, 0.001, 0.01]'

Any program that a shell can start is searched like this: JAX, Julia, R, C++.
"""

import argparse
import json

import numpy as np
from sklearn.datasets import load_digits

parser = argparse.ArgumentParser()
for name, kind in {"lr": float, "decay": float, "seed": int}.items():
    parser.add_argument(f"--{name}", type=kind, required=True)
given = parser.parse_args()

digits = load_digits()
images, labels = digits.data / 16, np.eye(10)[digits.target]
rng = np.random.default_rng(given.seed)
weights = np.zeros((64, 10))
for _epoch in range(10):
    for batch in np.split(rng.permutation(1400), 20):
        scores = np.exp(images[batch] @ weights)
        gradient = images[batch].T @ (scores / scores.sum(1, keepdims=True) - labels[batch]) / len(batch)
        weights -= given.lr * (gradient + given.decay * weights)
    predicted = (images[1400:] @ weights).argmax(1)
    print(json.dumps({"accuracy": float((predicted == digits.target[1400:]).mean())}), flush=True)
