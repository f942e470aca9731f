"""The score of a model on given data: trains one configuration of conf/ with one seed and scores the test part.

    python -m benchmarks.models.reach MODEL DATA SEED METRIC DIRECTION [group.key=value ...]

MODEL and DATA are files of conf/model and conf/data, and `training` is conf/training/default.yaml; each
`group.key=value` overrides a value. The checkpoint that is best by METRIC on the validation part is scored. Data
without predefined parts are divided at random, seed 0, 80/10/10. Prints the learning curve and every metric; for
taggers also the accuracy of each word's most frequent tag, for generated sequences the exact match of each length. It
made the tables of README.md beside this file.
"""

import random
import sys
import tempfile
from collections import Counter, defaultdict
from typing import Any

import yaml

from benchmarks.shared.steps import published
from model import objective
from model.config.whole import parse
from model.data.readers.source import read_examples
from model.tasks.sequence_metrics import signatures

PARTS = ("train", "validation", "test")


def main() -> None:
    """Train and score."""
    if len(sys.argv) < 6:
        sys.exit(__doc__)
    model, data, seed, metric, direction, *overrides = sys.argv[1:]
    config = read_configuration(model, data, overrides)
    objective.check(config)
    parts = divide(objective.describe_data(config))
    development = [*parts["train"], *parts["validation"]]
    with tempfile.TemporaryDirectory() as folder:
        objective.prepare_data(config, development, f"{folder}/data")
        cut = len(parts["train"])
        task = {
            "config": config, "data_dir": f"{folder}/data", "checkpoint_dir": f"{folder}/checkpoint",
            "train": list(range(cut)), "validation": list(range(cut, len(development))), "seed": int(seed),
            "metric": metric, "direction": direction, "amount": None, "threads": 1,
        }  # fmt: skip
        for point in objective.run_fold(task):
            print(point, flush=True)
        if parts["test"]:
            print(objective.run_test(task | {"test": parts["test"]}))
            if data == "generated":
                items = read_examples(parse(config).data).items
                print({"exact match by length": by_length(task["checkpoint_dir"], [items[i] for i in parts["test"]])})
    if config["model"]["shape"] == "encoder_decoder":
        print(signatures())
    if data == "tagging":
        items = read_examples(parse(config).data).items
        train, test = ([items[index] for index in parts[part]] for part in ("train", "test"))
        print({"accuracy of the most frequent tag": most_frequent_tag(train, test)})


def read_configuration(model: str, data: str, overrides: list[str]) -> dict[str, Any]:
    """Return the files' values, replaced by the overrides."""
    config: dict[str, Any] = published(model, data)
    for override in overrides:
        key, _, value = override.partition("=")
        group, _, name = key.partition(".")
        config[group][name] = yaml.safe_load(value)
    return config


def divide(described: dict[str, Any]) -> dict[str, list[int]]:
    """Return the examples of each part."""
    order, sizes = list(range(described["size"])), described["parts"]
    if sizes is None:
        random.Random(0).shuffle(order)
        tenth = len(order) // 10
        test, validation, train = order[:tenth], order[tenth : 2 * tenth], order[2 * tenth :]
        return {"train": train, "validation": validation, "test": test}
    parts, start = {}, 0
    for part in PARTS:
        parts[part] = order[start : start + sizes.get(part, 0)]
        start += sizes.get(part, 0)
    return parts


def by_length(checkpoint_dir: str, items: list[dict[str, Any]]) -> dict[int, float]:
    """Return the share of sources of each length, in tokens, whose whole target is predicted."""
    predicted = objective.predict(checkpoint_dir, [item["source"] for item in items], {})
    right = defaultdict(list)
    for item, text in zip(items, predicted, strict=True):
        right[len(item["source"].split())].append(text == item["target"])
    return {length: round(sum(hits) / len(hits), 3) for length, hits in sorted(right.items())}


def most_frequent_tag(train: list[dict[str, Any]], test: list[dict[str, Any]]) -> float:
    """Return the accuracy on `test` of each word's most frequent tag in `train`, and NOUN for unknown words."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for item in train:
        for word, tag in zip(item["words"], item["tags"], strict=True):
            counts[word][tag] += 1
    best = {word: count.most_common(1)[0][0] for word, count in counts.items()}
    pairs = [pair for item in test for pair in zip(item["words"], item["tags"], strict=True)]
    return sum(best.get(word, "NOUN") == tag for word, tag in pairs) / len(pairs)


if __name__ == "__main__":
    main()
