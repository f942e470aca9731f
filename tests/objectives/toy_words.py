"""An objective that learns to tell good reviews from bad ones in milliseconds, without torch, and keeps its model."""

import json
import math
from pathlib import Path

import numpy as np

CONFIG = {"words": {"lr": 0.1, "epochs": 4}}
SPACE = {"words": {"lr": {"low": 1e-4, "high": 30.0, "log": True}, "epochs": [2, 4, 8]}}
_GOOD = ("good", "great", "fine", "moving", "bright")
_BAD = ("bad", "dull", "poor", "cold", "dreadful")
_OTHER = ("film", "a", "the", "not", "very", "actor", "was", "and", "story", "Ending")
LABELS = ("bad", "good")


def examples():
    """Return texts and labels: one word of ten tells, and one label of ten is wrong."""
    rng = np.random.default_rng(0)
    for number in range(150):
        label = number % 2
        words = [str(word) for word in rng.choice(_OTHER, 9)] + [str(rng.choice(_GOOD if label else _BAD))]
        rng.shuffle(words)
        yield " ".join(words), LABELS[label if rng.random() > 0.1 else 1 - label]


def describe_data(config):
    texts, labels = zip(*examples(), strict=True)
    described = {"name": "made-up reviews", "source": "tests/words.py", "size": len(texts), "labels": list(labels)}
    return described | {"digests": [f"{number:04x}" for number in range(len(texts))]}


def run_fold(task):
    """Logistic regression on the words, by stochastic gradients."""
    words, everything = task["config"]["words"], list(examples())
    train, validation = ([everything[index] for index in task[part]] for part in ("train", "validation"))
    rng = np.random.default_rng(task["seed"])
    weights = {word: float(rng.normal(0, 0.01)) for word in (*_GOOD, *_BAD, *_OTHER)}
    for epoch in range(1, words["epochs"] + 1):
        for text, label in train:
            error = LABELS.index(label) - 1 / (1 + math.exp(-max(-30.0, min(30.0, _score(weights, text)))))
            for word in text.split():
                weights[word] += words["lr"] * error
        if max(map(abs, weights.values())) > 12:
            raise FloatingPointError(f"the weights left all bounds in epoch {epoch}")
        accuracy = _accuracy(weights, validation) if validation else 1.0
        yield {"epoch": epoch, "epochs": words["epochs"], "accuracy": accuracy}
    if task["checkpoint_dir"]:
        Path(task["checkpoint_dir"]).mkdir(parents=True, exist_ok=True)
        Path(task["checkpoint_dir"], "words.json").write_text(json.dumps(weights), encoding="utf-8")
    return {"accuracy": accuracy, "parameters": len(weights)}


def run_test(task):
    everything = list(examples())
    return {"accuracy": _accuracy(_load(task["checkpoint_dir"]), [everything[index] for index in task["test"]])}


def describe_prediction(config):
    return {"inputs": "text", "options": {"bias": {"type": "number", "default": 0.0}}}


def predict(checkpoint_dir, inputs, options):
    """Return a label per text; the option `bias` is added to what speaks for a good one."""
    weights = _load(checkpoint_dir)
    return [LABELS[_score(weights, text) + options.get("bias", 0.0) > 0] for text in inputs]


def _load(checkpoint_dir):
    return json.loads(Path(checkpoint_dir, "words.json").read_text(encoding="utf-8"))


def _score(weights, text):
    return sum(weights.get(word, 0.0) for word in text.split())


def _accuracy(weights, pairs):
    return float(np.mean([LABELS[_score(weights, text) > 0] == label for text, label in pairs]))
