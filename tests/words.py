"""An objective that learns to tell good reviews from bad ones in milliseconds, without torch, and keeps its model."""

import json
import math
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

CONFIG = {"words": {"lr": 0.1, "decay": 0.0, "epochs": 4, "case": "lower"}}
SPACE = {
    "words": {
        "lr": {"low": 1e-4, "high": 30.0, "log": True},
        "decay": [0.0, 0.001, 0.01, 0.1],
        "epochs": [2, 4, 8],
        "case": {"choices": ["lower", "as it is"]},
    }
}
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
    return {
        "name": "made-up reviews",
        "source": "tests/words.py",
        "size": len(texts),
        "labels": list(labels),
        "digests": [f"{number:04x}" for number in range(len(texts))],
    }


def run_fold(task):
    words, everything = task["config"]["words"], list(examples())
    train = [everything[index] for index in task["train"]]
    validation = [everything[index] for index in task["validation"]]
    case = words["case"]
    vocabulary = sorted({word for text, _ in train for word in _split(text, case)})
    x, y = _matrix(vocabulary, [text for text, _ in train], case), np.array([LABELS.index(label) for _, label in train])
    rng = np.random.default_rng(task["seed"])
    weights, bias = rng.normal(0, 0.01, len(vocabulary)), 0.0
    for epoch in range(1, words["epochs"] + 1):
        for start in range(0, len(y), 8):
            batch = slice(start, start + 8)
            error = _sigmoid(x[batch] @ weights + bias) - y[batch]
            weights = weights - words["lr"] * (x[batch].T @ error / 8 + words["decay"] * weights)
            bias -= words["lr"] * float(error.mean())
        if not np.all(np.abs(weights) < 12):
            raise FloatingPointError(f"the weights left all bounds in epoch {epoch}")
        model = {"weights": weights, "bias": np.array([bias])}
        accuracy = _accuracy(model, vocabulary, validation, case) if validation else 1.0
        yield {"epoch": epoch, "epochs": words["epochs"], "accuracy": accuracy, "size": float(np.abs(weights).mean())}
    if task["checkpoint_dir"]:
        folder = Path(task["checkpoint_dir"])
        folder.mkdir(parents=True, exist_ok=True)
        save_file(model, folder / "weights.safetensors")
        (folder / "words.json").write_text(json.dumps({"vocabulary": vocabulary, "case": case}), encoding="utf-8")
    return {"accuracy": accuracy, "num_parameters": len(vocabulary) + 1}


def run_test(task):
    everything = list(examples())
    test = [everything[index] for index in task["test"]]
    found = predict(task["checkpoint_dir"], [text for text, _ in test], {})
    return {"accuracy": float(np.mean([label == given for label, (_, given) in zip(found, test, strict=True)]))}


def describe_prediction(config):
    return {"inputs": "text", "options": {"bias": {"type": "number", "default": 0.0}}}


def predict(checkpoint_dir, inputs, options):
    """Return a label per text; the option `bias` is added to what speaks for a good one."""
    folder = Path(checkpoint_dir)
    known = json.loads((folder / "words.json").read_text(encoding="utf-8"))
    model = load_file(folder / "weights.safetensors")
    model["bias"] = model["bias"] + options.get("bias", 0.0)
    return [LABELS[number] for number in _labels(model, known["vocabulary"], inputs, known["case"])]


def _split(text, case):
    return (text.lower() if case == "lower" else text).split()


def _matrix(vocabulary, texts, case):
    place = {word: column for column, word in enumerate(vocabulary)}
    x = np.zeros((len(texts), len(vocabulary)))
    for row, text in enumerate(texts):
        for word in _split(text, case):
            if word in place:
                x[row, place[word]] = 1.0
    return x


def _labels(model, vocabulary, texts, case):
    return (_matrix(vocabulary, texts, case) @ model["weights"] + model["bias"] > 0).astype(int)


def _accuracy(model, vocabulary, pairs, case):
    found = _labels(model, vocabulary, [text for text, _ in pairs], case)
    return float(np.mean([LABELS[number] == label for number, (_, label) in zip(found, pairs, strict=True)]))


def _sigmoid(z):
    return 1 / (1 + np.exp(-np.clip(z, -math.log(1e12), math.log(1e12))))
