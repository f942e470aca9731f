"""The toy objective with data to split: ninety examples of three classes."""

from tests import toy

score = toy.score


def describe_data(config):
    """Return what there is to split."""
    labels = [i % 3 for i in range(90)]
    return {
        "name": "toy",
        "source": "made up",
        "size": 90,
        "labels": labels,
        "digests": [f"{i:04x}" for i in range(90)],
    }
