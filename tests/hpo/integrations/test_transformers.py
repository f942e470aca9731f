"""A Hugging Face Trainer under a search: `train` in an objective, `objective_of` for `hyperparameter_search`."""

import copy
import pickle
import shutil
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file
from transformers import EarlyStoppingCallback, Trainer, TrainerCallback, TrainingArguments

import hpo
from hpo.integrations.trainer_again import SearchedValues
from hpo.integrations.transformers import objective_of, train
from hpo.workers.objective.definitions import dumps
from hpo.workers.objective.plain_function import RunningTrial
from tests.hpo.commands.searched import found, outcome_of
from tests.hpo.integrations.training import TASK, equal, finished
from tests.studies import REPOSITORY, refuses

pytestmark = pytest.mark.filterwarnings("ignore")
ROWS = [{"x": torch.tensor([i % 2, i % 3, 1.0]), "labels": torch.tensor(i % 2)} for i in range(24)]
SEEN = []  # what the trials of this process had


@pytest.fixture
def digits(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(REPOSITORY / "examples"))
    import hugging_face

    def train(amount=None, trained=0, validation=range(200, 300), state="state", **settings):
        task = {"train": list(range(200)), "validation": list(validation), "amount": amount, "trained": trained}
        # Where there is no GPU to pin memory for, torch warns of that at each epoch.
        config = {"training": {"learning_rate": 1e-3, "dataloader_pin_memory": False, **settings}}
        curve, result = finished(lambda trial: hugging_face.digits(config, trial), tmp_path, state, **task)
        return curve, result, load_file(tmp_path / "kept/model.safetensors")

    return train


def losses(*curves):
    return [point["loss"] for curve in curves for point in curve]


@pytest.mark.slow
def test_a_training_in_parts_is_the_training_in_one_after_a_crash_and_with_a_truncated_checkpoint(digits, tmp_path):
    whole, result, weights = digits(state="one")
    assert [(point["epoch"], point["more"]) for point in whole] == [(1, True), (2, True), (3, True), (4, False)]
    assert result["loss"] == whole[-1]["loss"]
    begun, _, first = digits(amount=2)
    again, _, same = digits(amount=2)  # after a crash: it reports what it had saved and trains no step twice
    assert losses(again) == losses(begun) == losses(whole[:2])
    assert equal(first, same)
    assert sorted(path.name for path in (tmp_path / "state").iterdir()) == ["checkpoint-25", "checkpoint-50"]
    shutil.copytree(tmp_path / "state/checkpoint-50", tmp_path / "state/checkpoint-75")
    (tmp_path / "state/checkpoint-75/trainer_state.json").write_text('{"epoch": 3.0, "log_hi')
    continued, _, same = digits(amount=4, trained=2)
    assert losses(continued) == losses(whole[2:])
    assert equal(weights, same)


@pytest.mark.slow
def test_the_best_is_kept_where_it_is_loaded_at_the_end(digits):
    best = {"load_best_model_at_end": True, "metric_for_best_model": "loss", "greater_is_better": True}
    curve, result, weights = digits(save_strategy="epoch", **best)
    worst = max(curve, key=lambda point: point["loss"])
    assert result["loss"] == worst["loss"] > curve[-1]["loss"]
    assert equal(weights, digits(state="other", amount=worst["epoch"])[2])


@pytest.mark.nightly
def test_the_final_model_needs_no_validation_split(digits, tmp_path):
    curve, result, weights = digits(validation=[])
    assert (curve, result, bool(weights)) == ([], {}, True)
    assert (tmp_path / "state/checkpoint-100/trainer_state.json").exists()
    trainer = new_trainer(tmp_path, callbacks=[EarlyStoppingCallback()], arguments={"eval_strategy": "epoch"})
    assert finished(lambda trial: train(trainer, trial), tmp_path, state=None, validation=[]) == ([], {})


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["hugging_face", "hugging_face_lora", "lightning_digits"])
def test_the_examples_of_trainers_run(name):
    command = [sys.executable, str(REPOSITORY / f"examples/{name}.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stderr
    (best,) = (line for line in done.stdout.splitlines() if " {'" in line)
    assert float(best.split()[0]) > (0.7 if "lightning" in name else 0.2), done.stdout
    assert "\n  accuracy = " in done.stdout


class Net(torch.nn.Module):
    def __init__(self, layers=1):
        super().__init__()
        self.layers = torch.nn.Sequential(*(torch.nn.Linear(3, 3) for _ in range(layers)), torch.nn.Linear(3, 2))

    def forward(self, x, labels=None):
        scores = self.layers(x)
        return {"loss": torch.nn.functional.cross_entropy(scores, labels), "logits": scores}


def new_net():
    return Net()


def plain_net(trial):
    return Net(trial["layers"] if trial else 1)


class Watching(TrainerCallback):
    def __init__(self):
        self.num_begun = 0

    def on_train_begin(self, args, state, control, model=None, optimizer=None, **has):
        self.num_begun += 1
        noted = {"begun": self.num_begun, "rate": optimizer.defaults["lr"]}
        SEEN.append(noted | {"layers": len(model.layers) - 1, "args": copy.copy(args)})


def new_trainer(tmp_path, model_init=new_net, kind=Trainer, evaluated=ROWS, arguments=None, **more):
    values = {"num_train_epochs": 1, "report_to": "none", "use_cpu": True, "disable_tqdm": True, **(arguments or {})}
    given = TrainingArguments(output_dir=str(tmp_path / "trainer"), **values)
    return kind(model_init=model_init, args=given, train_dataset=ROWS, eval_dataset=evaluated, **more)


def searched(objective, space, **more):
    SEEN.clear()
    return found(objective, space=space, **{"metric": "loss", "direction": "minimize", "trials": 1, **more})


def trained(trainer, *configs):
    """Train these one after the other, as one worker does, which reads the objective once."""
    SEEN.clear()
    train = pickle.loads(dumps(objective_of(trainer)))
    for number, config in enumerate(configs):
        trial = RunningTrial({**TASK, "trial": number, "seed": 2**33 + number})
        assert all(point["loss"] > 0 for point in trial.run(lambda: train(config, trial)))  # noqa: B023


@pytest.mark.slow("plain_net-*", "*-more3")
@pytest.mark.nightly
@pytest.mark.parametrize(("model_init", "more"), [
    (plain_net, {}),
    (lambda trial: Net(1 if trial is None else trial.suggest_int("layers", 1, 3)), {}),
    (lambda trial: Net(trial.params["layers"] if trial is not None else 1), {}),
    # It goes through all keys, and so reads all.
    (lambda trial: Net(*(value for key, value in (trial or {}).items() if key == "layers")), {"layer": 1}),
])  # fmt: skip
def test_model_init_gets_a_trial_as_from_the_trainers_own_backends(tmp_path, model_init, more):
    trainer = new_trainer(tmp_path, model_init, callbacks=[Watching()])
    trained(trainer, {"layers": 2, "seed": 42, **more}, {"layers": 3, "learning_rate": 0.2, **more})
    assert [(s["layers"], s["args"].learning_rate, s["args"].seed) for s in SEEN] == [(2, 5e-5, 42), (3, 0.2, 1)]
    assert trainer.args.learning_rate == 5e-5


@pytest.mark.slow
def test_a_search_begins_with_the_trainers_arguments_reaches_model_init_and_keeps_the_best_model(tmp_path):
    given = {"learning_rate": 2e-3, "weight_decay": 0.01, "lr_scheduler_type": "cosine", "seed": 7}
    trainer = new_trainer(tmp_path, plain_net, arguments=given, callbacks=[Watching()])
    space = {"learning_rate": hpo.log(1e-4, 1e-2), "lr_scheduler_type": ["linear", "cosine"], "warmup_steps": (0, 9)}
    study = searched(objective_of(trainer), space | {"layers": [1, 2, 3]}, config={"layers": 2}, trials=3)
    first = {"learning_rate": 2e-3, "lr_scheduler_type": "cosine", "warmup_steps": 0, "layers": 2}
    assert study.trials.iloc[0][list(first)].to_dict() == first
    assert [seen["layers"] for seen in SEEN] == list(study.trials["layers"])
    assert [seen["args"].learning_rate for seen in SEEN] == list(study.trials["learning_rate"])
    assert (SEEN[0]["args"].weight_decay, study.best.config["weight_decay"]) == (0.01, 0.01)
    assert SEEN[0]["args"].seed != 7  # each training has its own
    assert not {"seed", "output_dir", "report_to", "fp16"} & set(study.best.config)
    net = Net(study.best.config["layers"])
    net.load_state_dict(load_file(study.best.model_dir / "model.safetensors"))
    batch = {name: torch.stack([row[name] for row in ROWS]) for name in ROWS[0]}
    assert float(net.eval()(**batch)["loss"]) == pytest.approx(study.best.score, rel=1e-5)


def test_what_a_trainer_cannot_search_is_refused_before_the_first_trial(tmp_path):
    trainer = new_trainer(tmp_path)
    for model_init, config in ((new_net, {}), (plain_net, {}), (plain_net, {"layers": 1, "lyers": 1})):
        objective, says = objective_of(new_trainer(tmp_path, model_init)), r"is not an argument of .*; did you mean 'l"
        with pytest.raises(hpo.HpoError, match=rf"^(learning_rat|lyers): {says}"):
            searched(objective, {("learning_rate" if config else "learning_rat"): [1e-4, 1e-3]}, config=config)
    assert not (tmp_path / "runs").exists()
    trainer.model_init = None
    refuses(hpo.HpoError, "model_init", objective_of, trainer)


def test_what_is_not_searched_is_named():
    trial = SearchedValues(layers=2)
    assert (trial.get("width", 7), "width" in trial, trial.params["layers"]) == (7, False, 2)
    with pytest.raises(KeyError, match="'layer' is not in the space; the space has layers; did you mean 'layers'"):
        trial.suggest_categorical("layer", [1, 2])


def test_a_key_that_model_init_does_not_read_fails_by_its_name(tmp_path):
    space = {"layers": [1, 2, 3], "learning_rat": [1e-4, 1e-3]}
    says = "learning_rat: is not an argument of TrainingArguments, and model_init does not read it; did you mean .learn"
    with pytest.raises(hpo.HpoError, match=rf"first \d trials all failed with the same error.*{says}"):
        searched(objective_of(new_trainer(tmp_path, lambda trial: plain_net(trial or None))), space, trials=6)
    assert not SEEN


BY_STEPS = {"max_steps": 100, "eval_strategy": "steps", "eval_steps": 50}
ENDS = [
    ({}, BY_STEPS, "strategy.max_amount: a training has the length 2"),
    ({}, {"num_train_epochs": 3}, "strategy.max_amount: a training has the length 3"),
    ({"num_train_epochs": [2, 9]}, {}, "space.num_train_epochs: with 2 a training has the length 2"),
]


@pytest.mark.parametrize(("space", "arguments", "line"), ENDS)
def test_a_training_that_ends_before_the_largest_amount_is_refused(tmp_path, space, arguments, line):
    trainer = new_trainer(tmp_path, arguments={"eval_strategy": "epoch"} | arguments)
    with pytest.raises(hpo.HpoError, match=rf"{line}.* before strategy\.max_amount=9"):
        searched(objective_of(trainer), {"learning_rate": [1e-3], **space}, strategy={"name": "asha", "max_amount": 9})
    says = r"TrainingArguments\(\w+=\d+\) ends after \d evaluations, before strategy.max_amount=9; train longer"
    refuses(ValueError, says, train, trainer, RunningTrial(TASK | {"max_amount": 9}))


class WeightedTrainer(Trainer):
    def __init__(self, *args, class_weights=None, **kwargs):
        super().__init__(*args, **kwargs)
        self.class_weights, self.batches = class_weights, []

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        self.batches.append(len(inputs["labels"]))
        SEEN.append({"weights": self.class_weights.tolist(), "batches": len(self.batches)})
        outputs = model(**inputs)
        loss = torch.nn.functional.cross_entropy(outputs["logits"], inputs["labels"], self.class_weights)
        return (loss, outputs) if return_outputs else loss


class Popping(WeightedTrainer):
    def __init__(self, **kwargs):
        super().__init__(class_weights=torch.tensor(kwargs.pop("weights")), **kwargs)


def collate(rows):
    SEEN.append({"collated": len(rows)})
    return {name: torch.stack([row[name] for row in rows]) for name in rows[0]}


def measures(predicted):
    return {"right": float((predicted.predictions.argmax(-1) == predicted.label_ids).mean())}


@pytest.mark.slow("WeightedTrainer-*")
@pytest.mark.nightly
@pytest.mark.parametrize(
    ("kind", "own"),
    [(WeightedTrainer, {"class_weights": torch.tensor([1.0, 9.0])}), (Popping, {"weights": [1.0, 9.0]})],
)
def test_all_parts_of_a_trainer_and_a_subclass_reach_each_trial_and_its_state_is_each_trials_own(tmp_path, kind, own):
    parts = {"callbacks": [Watching()], "optimizer_cls_and_kwargs": (torch.optim.SGD, {"lr": 0.25})}
    trainer = new_trainer(tmp_path, kind=kind, data_collator=collate, **parts, **own)
    trainer.train()  # leaves more in it than its constructor
    trainer.batches.clear()
    trained(trainer, {"weight_decay": 0.0}, {"weight_decay": 0.1})
    assert all(seen["weights"] == [1.0, 9.0] for seen in SEEN if "weights" in seen)
    assert any("collated" in seen for seen in SEEN)
    batches = [seen["batches"] for seen in SEEN if "batches" in seen]
    assert batches == [*range(1, len(batches) // 2 + 1)] * 2
    assert trainer.batches == []
    assert [(seen["begun"], seen["rate"]) for seen in SEEN if "begun" in seen] == [(2, 0.25)] * 2


def hp_space(trial):
    return {"learning_rate": trial.suggest_float("learning_rate", 1e-4, 1e-2, log=True)}


@pytest.mark.nightly
def test_the_space_may_be_hp_space_and_the_score_a_formula_as_of_hyperparameter_search(tmp_path):
    trainer = new_trainer(tmp_path, compute_metrics=measures)
    more = {"metric": "score", "direction": "maximize", "measured": ["right", "loss"]}
    one = searched(objective_of(trainer, lambda m: 2 * m.pop("eval_right") - m["eval_loss"]), hp_space, **more)
    assert one.trials["learning_rate"].between(1e-4, 1e-2).all()
    assert list(one.trials.score) == pytest.approx(list(2 * one.trials.right - one.trials.loss))
    both = objective_of(trainer, lambda metrics: (metrics["eval_right"], -metrics["eval_loss"]))
    goals = {"metric": {"hits": "maximize", "depth": "maximize"}, "direction": None}
    several = searched(both, hp_space, measured=["right"], name="several", **goals)
    assert list(several.trials.score) == list(several.trials.right)
    for metric, formula, says in (
        ("right", lambda metrics: metrics["eval_right"], "right is also the name of a metric of the evaluation"),
        ("score", lambda _: (1.0, 2.0), "must return a value for each of the study's metrics (score), but it ret"),
    ):
        failed = searched(objective_of(trainer, formula), hp_space, metric=metric, name=f"of-{metric}")
        assert f"compute_objective: {says}" in failed.trials.error[0]


class Adjusted(Trainer):
    def evaluate(self, *args, **kwargs):
        metrics = super().evaluate(*args, **kwargs)
        return metrics | ({"eval_both": self.state.global_step} if {"eval_a_loss", "eval_b_loss"} <= {*metrics} else {})


@pytest.mark.nightly
def test_all_sets_of_an_evaluation_are_one_report_of_what_evaluate_returns(tmp_path):
    sets, halving = {"a": ROWS[:16], "b": ROWS[16:]}, {"name": "successive_halving", "max_amount": 3, "eta": 3}
    trainer = new_trainer(tmp_path, kind=Adjusted, evaluated=sets, arguments={"num_train_epochs": 3})
    space = {"learning_rate": hpo.log(1e-4, 1e-1)}
    study = searched(objective_of(trainer), space, metric="both", strategy=halving, trials=4)
    assert [point["epoch"] for point in outcome_of(study).curve] == [1]
    assert all({"a_loss", "b_loss"} <= point.keys() for point in outcome_of(study).curve)
    # An epoch has three steps.
    assert list(study.trials.score) == list(3 * study.trials.amount)
    assert {*study.trials.amount} == {1, 3}
