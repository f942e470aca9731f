"""An objective that reads the workers' copy of its data, and whose score shows whether that is whole."""

import json
from pathlib import Path

from toy_data import describe_data as describe_data


def prepare_data(config, indices, data_dir):
    folder = Path(data_dir)
    folder.mkdir(parents=True)
    (folder / "examples.json").write_text(json.dumps([number * 7 % 90 for number in indices]))


def run_fold(task):
    examples = json.loads((Path(task["data_dir"]) / "examples.json").read_text())
    mean = sum(examples[place] for place in task["train"]) / len(task["train"])
    return {"score": mean - abs(task["config"]["toy"]["layers"] - 3)}
