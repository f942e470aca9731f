"""A toy objective of two metrics that keeps models."""

from pathlib import Path


def run_fold(task):
    """A score that grows with the size; the model is the number of layers, and each that is kept is noted."""
    layers = task["config"]["toy"]["layers"]
    if task["checkpoint_dir"] is not None:
        folder = Path(task["checkpoint_dir"])
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "layers").write_text(f"{layers} {task['seed']}")
        with Path("kept").open("a") as file:
            file.write(f"{layers} {task['seed']} {bool(task['validation'])}\n")
    return {"score": float(layers), "size": layers, "best_epoch": 1}


def run_test(task):
    """Score a model; its size is not known any more, and that of four layers cannot be scored."""
    layers = int((Path(task["checkpoint_dir"]) / "layers").read_text().split()[0])
    if layers == 4:
        raise RuntimeError("four is too many")
    return {"score": layers - 0.5}


def describe_data(config):
    return {"name": "toy", "source": "made up", "size": 60, "labels": [i % 2 for i in range(60)]}
