"""An objective that reads the workers' copy of its data, and whose score shows whether that is whole."""

import json
from pathlib import Path


def describe_data(config):
    """Return ninety examples of three classes."""
    return {
        "name": "stored",
        "source": "made up",
        "size": 90,
        "labels": [number % 3 for number in range(90)],
        "digests": [f"{number:04x}" for number in range(90)],
    }


def prepare_data(config, indices, data_dir):
    """Write the examples, which are numbers."""
    folder = Path(data_dir)
    folder.mkdir(parents=True)
    (folder / "examples.json").write_text(json.dumps([number * 7 % 90 for number in indices]))


def run_fold(task):
    """Return the mean of the training examples beside the point's own score."""
    examples = json.loads((Path(task["data_dir"]) / "examples.json").read_text())
    mean = sum(examples[place] for place in task["train"]) / len(task["train"])
    return {"score": mean - abs(task["config"]["toy"]["layers"] - 3)}
