"""A search over a Hugging Face Trainer by successive halving: `python examples/hugging_face.py`, 40 seconds.

A tiny ViT with new weights learns handwritten digits. For a model of the hub, call `from_pretrained("its name")` in
`new_model`.
"""

import sys

from sklearn.datasets import load_digits

import hpo

try:
    from transformers import Trainer, ViTConfig, ViTForImageClassification

    from hpo.integrations.transformers import train, training_arguments
except ImportError as error:
    sys.exit(f"{error}; install it with: python -m pip install -e '.[transformers]'")


def new_model(path=None):
    """Return a model with new weights, or a saved one."""
    shape = {"image_size": 8, "patch_size": 2, "num_channels": 1, "num_labels": 10}
    size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    return (
        ViTForImageClassification.from_pretrained(path)
        if path
        else ViTForImageClassification(ViTConfig(**shape, **size))
    )


def examples(indices):
    """Return these digits in the form that a Trainer reads."""
    digits = load_digits()
    images = (digits.images / 16).astype("float32")[:, None]
    return [{"pixel_values": images[i], "labels": digits.target[i]} for i in indices]


def accuracy(predicted):
    """Return the share of correct answers."""
    return {"accuracy": float((predicted.predictions.argmax(-1) == predicted.label_ids).mean())}


def describe_data(config):
    """Return the examples to split into train, validation and test."""
    return {"name": "digits", "size": 1797, "labels": load_digits().target.tolist()}


def run_test(config, trial):
    """Return the metrics of a saved model on the test split."""
    arguments = training_arguments(trial, eval_strategy="no")
    trainer = Trainer(new_model(trial.checkpoint_dir), arguments, compute_metrics=accuracy)
    return {"accuracy": trainer.evaluate(examples(trial.test))["eval_accuracy"]}


@hpo.objective(continues=True, describe_data=describe_data, run_test=run_test)
def digits(config, trial):
    """Train on this trial's training split."""
    arguments = training_arguments(trial, num_train_epochs=4, **config["training"])
    parts = {"train_dataset": examples(trial.train), "eval_dataset": examples(trial.validation)}
    return train(Trainer(new_model(), arguments, compute_metrics=accuracy, **parts), trial)


if __name__ == "__main__":
    space = {"training": {"learning_rate": hpo.log(1e-4, 3e-3), "per_device_train_batch_size": [16, 32, 64]}}
    halving = {"name": "successive_halving", "min_amount": 1, "max_amount": 4, "eta": 2}
    goal = {"metric": "accuracy", "direction": "maximize"}
    study = hpo.search(digits, space, strategy=halving, trials=4, workers=2, settings={"split.folds": 1}, **goal)
    print(study.best.score, study.best.config)
    print(study.test(again=True))  # other examples may have evaluated the same test split
