"""A search over LoRA (Hu et al. 2022) of a Hugging Face model: `python examples/hugging_face_lora.py`, 40 seconds.

The model is a tiny ViT. Its fixed weights replace pretrained weights of the hub. Only the adapters of LoRA and the
classifier are trained, saved and loaded.
"""

import sys

from sklearn.datasets import load_digits

import hpo

try:
    from peft import LoraConfig, PeftModel, get_peft_model
    from transformers import Trainer, ViTConfig, ViTForImageClassification, set_seed

    from hpo.integrations.transformers import train, training_arguments
except ImportError as error:
    sys.exit(f"{error}; install it with: python -m pip install -e '.[transformers]'")


def pretrained():
    """Return the model to adapt; for a model of the hub, call `from_pretrained("its name")`."""
    set_seed(0)
    shape = {"image_size": 8, "patch_size": 2, "num_channels": 1, "num_labels": 10}
    size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    return ViTForImageClassification(ViTConfig(**shape, **size))


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
    """Return the metrics of saved adapters on the test split."""
    model = PeftModel.from_pretrained(pretrained(), trial.checkpoint_dir)
    trainer = Trainer(model, training_arguments(trial, eval_strategy="no"), compute_metrics=accuracy)
    return {"accuracy": trainer.evaluate(examples(trial.test))["eval_accuracy"]}


@hpo.objective(continues=True, describe_data=describe_data, run_test=run_test)
def lora(config, trial):
    """Train adapters and the classifier on this trial's training split."""
    model = pretrained()
    arguments = training_arguments(trial, num_train_epochs=4, **config["training"])
    adapters = LoraConfig(target_modules=["q_proj", "v_proj"], modules_to_save=["classifier"], **config["lora"])
    parts = {"train_dataset": examples(trial.train), "eval_dataset": examples(trial.validation)}
    return train(Trainer(get_peft_model(model, adapters), arguments, compute_metrics=accuracy, **parts), trial)


if __name__ == "__main__":
    space = {
        "lora": {"r": [1, 2, 4, 8], "lora_alpha": [8, 16, 32], "lora_dropout": (0.0, 0.2)},
        "training": {"learning_rate": hpo.log(1e-3, 1e-1)},
    }
    asha, goal = {"name": "asha", "max_amount": 4, "eta": 2}, {"metric": "accuracy", "direction": "maximize"}
    study = hpo.search(lora, space, strategy=asha, trials=4, workers=2, settings={"split.folds": 1}, **goal)
    print(study.best.score, study.best.config)
    print(study.test(again=True))  # other examples may have evaluated the same test split
