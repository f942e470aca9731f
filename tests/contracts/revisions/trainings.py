"""Short trainings of every family, task and optimizer, on data made here."""

import itertools
import random
import tempfile
from pathlib import Path

import torch

from model import objective
from model.config.whole import SHAPE_OF_DATA
from tests.model.conftest import of, small, task_of
from tests.model.conftest import run as train

_SIZES = {"transformer": {"model__feed_forward_width": 24}, "recurrent": {}, "convolutional": {"model__num_layers": 2}}
_WORDS = ["the", "film", "was", "a", "very", "good", "bad", "tale", "of", "two", "odd", "cats", "and", "one", "dog"]
_WORDS += ["who", "ran"]
OPTIMIZERS = ("sgd", "adam", "adamw", "adagrad", "rmsprop", "muon")


def case(data="digits", family="transformer", size=80, task=None, **keys):
    # The references were written with these numbers of cost.
    cost = {"training__cost_number": 200.0, "training__cost_step": 3e7}
    keys = _SIZES[family] | cost | {"training__batch_size": 16} | keys
    return {"data": data, "family": family, "size": size, "keys": keys, "task": task or {}}


def all_cases():
    text = "language_modelling"
    cases = {f"{data}, {family}": case(data, family) for family in _SIZES for data in SHAPE_OF_DATA}
    cases |= {f"optimizer {name}": case(training__optimizer=name) for name in OPTIMIZERS}
    for name, family in itertools.product(("sgd", "muon"), ("recurrent", "convolutional")):
        cases[f"optimizer {name}, {family}"] = case("generated", family, training__optimizer=name)
    for name in ("constant", "linear", "inverse_sqrt", "wsd", "plateau"):
        cases[f"schedule {name}"] = case(training__schedule=name, training__epochs=3)
    cases |= {f"positions {name}": case(text, model__positions=name) for name in ("none", "learned", "rotary", "alibi")}
    cases |= {f"nonlinearity {name}": case(model__nonlinearity=name) for name in ("relu", "tanh", "silu", "swiglu")}
    cases |= {f"pooling {name}": case(model__pooling=name) for name in ("first", "max")}
    cases["tokens words"] = case(text, data__tokens="words")
    cases["tokens subwords"] = case(text, data__tokens="subwords", data__max_size=280)
    for name in ("words", "characters", "blanks"):
        cases[f"tokens {name}, pairs"] = case("translation", data__tokens=name)
    for name in ("copy", "sort", "modular_addition"):
        cases[f"generated {name}"] = case(data__task=name, data="generated")
    for name in ("none", "mlp", "dot"):
        cases[f"attention {name}"] = case("generated", "recurrent", model__attention=name)
    for family, data in itertools.product(_SIZES, ("digits", text)):
        cases[f"mup, {family}, {data}"] = case(data, family, model__parametrization="mup")
    cases |= {
        "clip, smoothing, z": case(training__clip_norm=0.1, training__label_smoothing=0.1, training__z_loss=1e-3),
        "decay": case(training__l1=0.01, training__weight_decay=0.1, training__decay_biases_and_norms=True),
        "momentum": case(training__optimizer="sgd", training__momentum=0.9, training__nesterov=True),
        "a mean of the weights": case(training__ema=0.9),
        "accumulation": case(training__accumulation=2),
        "steps": case(training__max_steps=7, training__evaluate_every_steps=3),
        "by length": case("translation", training__batching="by_length", training__batch_tokens=60),
        "packed": case("translation", training__batching="packed"),
        "no dropout, norm last": case(model__dropout=0.0, model__norm="rms", model__norm_order="last"),
        "grouped heads": case(model__num_key_heads=1, model__qk_norm=True, model__bias=False),
        "tied": case(text, model__tied_embeddings=True),
        "gru, before": case("generated", "recurrent", model__cell="gru", model__attend="before"),
        "fed": case("generated", "recurrent", model__input_feeding=True, model__bridge="mlp"),
        "beams": case("translation", data__beam_size=3),
        "shared": case("translation", data__shared_vocabulary=True, data__lowercase=True),
        "an amount": case(task={"amount": 1}),
        "another seed": case(task={"seed": 11}),
        "no validation": case(task={"validation": []}),
        "other dropouts": case(text, model__attention_dropout=0.3, model__embedding_dropout=0.0),
        "cold, fixed": case(training__warmup_fraction=0.0, training__final_lr_fraction=0.1),
    }  # fmt: skip
    for family, data in zip(_SIZES, (text, "generated", "tagging"), strict=True):
        cases[f"continued, {family}"] = case(data, family, task={"resume": True}, training__epochs=3, training__ema=0.9)
    for name in ("sgd", "muon"):
        keys = {"training__optimizer": name, "training__momentum": 0.8}
        cases[f"continued, {name}"] = case(task={"resume": True}, **keys)
    return cases


def _texts(data, folder):
    rng, lines = random.Random(3), []
    for number in range(120):
        line = [rng.choice(_WORDS) for _ in range(rng.randint(2, 9))]
        text = " ".join(line)
        texts = {"text_classification": f"{text}\t{number % 2}", "language_modelling": text}
        texts |= {"tagging": "".join(f"{word}\t{'X' if len(word) > 3 else 'Y'}\n" for word in line)}
        texts |= {"translation": f"{text}\t{' '.join(reversed(line))}"}
        lines.append(texts[data])
    path = Path(folder, "data.tsv")
    path.write_text("\n".join(lines) + "\n")
    return {"data__path": str(path)}


def run(made):
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        data, keys = made["data"], made["keys"]
        if data == "generated":
            few = {"num_examples": 120, "num_symbols": 12, "max_length": 6}
            few |= {"min_length": 2, "max_length": 2} if keys.get("data__task") == "modular_addition" else {}
            keys = of("data", few) | keys
        elif data != "digits":
            keys = _texts(data, folder) | keys
        task = task_of(folder, small(data, made["family"], **keys), made["size"])
        task |= {key: value for key, value in made["task"].items() if key != "resume"}
        cost = {"unit": objective.describe_cost(task["config"])}
        if made["task"].get("resume"):
            # Stopped after one epoch, and continued from its state.
            task |= {"resume_dir": f"{folder}/state"}
            train(task | {"amount": 1})
            task |= {"trained": 1}
        curve, result = train(task)
        return {"curve": curve, "result": result, "cost": cost}
