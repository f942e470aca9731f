"""What users of Hugging Face's `Trainer.hyperparameter_search` type, into `objective_of`."""

import copy
import pickle

import pytest
import torch
from safetensors.torch import load_file
from transformers import Trainer, TrainerCallback, TrainingArguments

import hpo
from hpo.integrations.transformers import SearchedValues, objective_of
from hpo.workers.objective.definitions import dumps
from hpo.workers.objective.plain_function import RunningTrial

pytestmark = pytest.mark.filterwarnings("ignore")
ROWS = [{"x": torch.tensor([i % 2, i % 3, 1.0]), "labels": torch.tensor(i % 2)} for i in range(24)]
SEEN = []  # what the trials of this process had


class Net(torch.nn.Module):
    """Linear layers, and the loss that a Trainer asks for."""

    def __init__(self, layers=1):
        super().__init__()
        self.layers = torch.nn.Sequential(*(torch.nn.Linear(3, 3) for _ in range(layers)), torch.nn.Linear(3, 2))

    def forward(self, x, labels=None):
        """Return loss and scores."""
        scores = self.layers(x)
        return {"loss": torch.nn.functional.cross_entropy(scores, labels), "logits": scores}


def new_net():
    return Net()


def new_trainer(tmp_path, model_init=new_net, kind=Trainer, arguments=None, **more):
    values = {"num_train_epochs": 1, "report_to": "none", "use_cpu": True, "disable_tqdm": True, **(arguments or {})}
    given = TrainingArguments(output_dir=str(tmp_path / "trainer"), **values)
    return kind(model_init=model_init, args=given, train_dataset=ROWS, eval_dataset=ROWS, **more)


def searched(trainer, space, **more):
    SEEN.clear()
    settings = {"dispatch": "local", "track": "none"}
    goal = {"metric": "loss", "direction": "minimize", "trials": 2}
    return hpo.search(objective_of(trainer), space, settings=settings, **{"progress": False, **goal, **more})


def trained(trainer, *configs):
    """Train these one after the other, as one worker does, which reads the objective once."""
    SEEN.clear()
    train = pickle.loads(dumps(objective_of(trainer)))
    task = {"fold": 0, "repeat": 0, "threads": 1, "data_dir": None, "train": None, "validation": None, "amount": None}
    task |= {"trained": 0, "checkpoint_dir": None, "resume_dir": None, "metric": "loss"}
    for number, config in enumerate(configs):
        trial = RunningTrial({**task, "trial": number, "seed": 2**33 + number})
        assert all(point["loss"] > 0 for point in trial.run(lambda: train(config, trial)))  # noqa: B023


def plain_net(trial):
    return Net(trial["layers"] if trial else 1)


def optunas_net(trial):
    return Net(1 if trial is None else trial.suggest_int("layers", 1, 3))


def net_of_params(trial=None):
    return Net(trial.params["layers"] if trial is not None else 1)


class Watching(TrainerCallback):
    """Note the model, the arguments and the trainer's own state of each training."""

    def __init__(self):
        self.num_begun = 0

    def on_train_begin(self, args, state, control, model=None, **has):
        """Note them."""
        self.num_begun += 1
        SEEN.append({"layers": len(model.layers) - 1, "args": copy.copy(args), "begun": self.num_begun})


@pytest.mark.slow("plain_net")
@pytest.mark.nightly
@pytest.mark.parametrize("model_init", [plain_net, optunas_net, net_of_params])
def test_model_init_gets_a_trial_as_from_the_trainers_own_backends(tmp_path, model_init):
    trainer = new_trainer(tmp_path, model_init, callbacks=[Watching()])
    trained(trainer, {"layers": 2, "learning_rate": 0.1}, {"layers": 3, "learning_rate": 0.2})
    assert [seen["layers"] for seen in SEEN] == [2, 3]
    assert [seen["args"].learning_rate for seen in SEEN] == [0.1, 0.2]
    assert trainer.args.learning_rate == 5e-5


@pytest.mark.slow
def test_the_search_reaches_model_init_and_arguments(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    space = {"layers": [1, 2, 3], "learning_rate": hpo.log(1e-4, 1e-2)}
    study = searched(new_trainer(tmp_path, plain_net, callbacks=[Watching()]), space)
    assert list(study.trials.state) == ["complete"] * 2
    assert [seen["layers"] for seen in SEEN] == list(study.trials["layers"])
    assert [seen["args"].learning_rate for seen in SEEN] == list(study.trials["learning_rate"])


def test_what_is_not_searched_is_named():
    trial = SearchedValues(layers=2, learning_rate=1e-3)
    assert trial.suggest_float("learning_rate", 1e-5, 1e-1, log=True) == 1e-3
    assert (trial.get("width", 7), "width" in trial, trial.params["layers"]) == (7, False, 2)
    with pytest.raises(
        KeyError, match="'layer' is not in the space; the space has layers, learning_rate; did you mean 'layers'"
    ):
        trial.suggest_categorical("layer", [1, 2])


@pytest.mark.parametrize("more", [{"space": [{"learning_rate": [1e-4]}]}, {"config": ["weight_decay"]}])
def test_what_is_no_dict_is_refused(tmp_path, monkeypatch, more):
    monkeypatch.chdir(tmp_path)
    given = {"space": {"learning_rate": [1e-4, 1e-3]}, **more}
    with pytest.raises(hpo.HpoError, match=f"{next(iter(more))}: must be a dict, given a list"):
        searched(new_trainer(tmp_path), **given)


def test_a_key_that_nobody_takes_is_refused_before_the_first_trial(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    says = "'learning_rat' is not an argument of TrainingArguments, and model_init .*; did you mean 'learning_"
    with pytest.raises(hpo.HpoError, match=says):
        searched(new_trainer(tmp_path), {"learning_rat": [1e-4, 1e-3]})
    assert not (tmp_path / "runs").exists()


def net_of_all(trial):
    return Net(**{name: value for name, value in (trial or {}).items() if name == "layers"})


@pytest.mark.quick("plain_net")
@pytest.mark.nightly
@pytest.mark.parametrize("model_init", [plain_net, optunas_net, net_of_params])
def test_a_key_that_model_init_does_not_read_fails_by_its_name(tmp_path, monkeypatch, model_init):
    monkeypatch.chdir(tmp_path)
    space = {"layers": [1, 2, 3], "learning_rat": [1e-4, 1e-3]}
    says = "learning_rat: is not an argument of TrainingArguments, and model_init does not read it; did you mean .learn"
    with pytest.raises(hpo.HpoError, match=rf"first \d trials all failed with the same error.*{says}"):
        searched(new_trainer(tmp_path, model_init), space, trials=6)
    assert not SEEN


@pytest.mark.slow
def test_who_goes_through_all_keys_reads_all(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    study = searched(new_trainer(tmp_path, net_of_all), {"layers": [1, 2], "unknown": [1, 2]})
    assert list(study.trials.state) == ["complete"] * 2


class WeightedTrainer(Trainer):
    """The class weights of the documentation's example, and what else people keep there."""

    def __init__(self, *args, class_weights=None, **kwargs):
        super().__init__(*args, **kwargs)
        self.class_weights, self.batches = class_weights, []
        self.model_accepts_loss_kwargs = False

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        """Return the weighted loss."""
        self.batches.append(len(inputs["labels"]))
        SEEN.append(
            {"weights": self.class_weights, "batches": len(self.batches), "kwargs": self.model_accepts_loss_kwargs}
        )
        outputs = model(**inputs)
        loss = torch.nn.functional.cross_entropy(outputs["logits"], inputs["labels"], self.class_weights)
        return (loss, outputs) if return_outputs else loss


class Popping(WeightedTrainer):
    """Its signature does not say what it takes."""

    def __init__(self, **kwargs):
        weights = kwargs.pop("weights")
        super().__init__(**kwargs)
        self.class_weights = torch.tensor(weights)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("kind", "own"),
    [(WeightedTrainer, {"class_weights": torch.tensor([1.0, 9.0])}), (Popping, {"weights": [1.0, 9.0]})],
)
def test_the_arguments_of_a_subclass_reach_every_trial_and_its_state_is_each_trials_own(tmp_path, kind, own):
    trainer = new_trainer(tmp_path, kind=kind, **own)
    trainer.train()  # leaves more in it than its constructor
    trainer.batches.clear()
    trained(trainer, {"learning_rate": 0.1}, {"learning_rate": 0.2})
    assert all(seen["weights"].tolist() == [1.0, 9.0] for seen in SEEN)
    assert not any(seen["kwargs"] for seen in SEEN)
    half = len(SEEN) // 2
    assert [seen["batches"] for seen in SEEN] == [*range(1, half + 1)] * 2
    assert trainer.batches == []


def collate(rows):
    SEEN.append({"collated": len(rows)})
    return {name: torch.stack([row[name] for row in rows]) for name in rows[0]}


def measures(predicted):
    return {"right": float((predicted.predictions.argmax(-1) == predicted.label_ids).mean())}


class Noted(torch.optim.SGD):
    """An optimizer that is noted."""

    def __init__(self, *args, **kwargs):
        SEEN.append({"rate": kwargs["lr"]})
        super().__init__(*args, **kwargs)


@pytest.mark.nightly
def test_all_parts_of_a_trainer_survive(tmp_path):
    parts = {"data_collator": collate, "compute_metrics": measures, "callbacks": [Watching()]}
    trainer = new_trainer(tmp_path, optimizer_cls_and_kwargs=(Noted, {"lr": 0.25}), **parts)
    trained(trainer, {"weight_decay": 0.0}, {"weight_decay": 0.1})
    assert [seen["begun"] for seen in SEEN if "begun" in seen] == [1, 1]
    assert [seen["rate"] for seen in SEEN if "rate" in seen] == [0.25, 0.25]
    assert any("collated" in seen for seen in SEEN)


@pytest.mark.slow
def test_its_own_arguments_are_the_default_configuration_and_the_first_trial(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = {"learning_rate": 2e-3, "weight_decay": 0.01, "lr_scheduler_type": "cosine", "seed": 7}
    trainer = new_trainer(tmp_path, arguments=given, callbacks=[Watching()])
    space = {"learning_rate": hpo.log(1e-4, 1e-2), "lr_scheduler_type": ["linear", "cosine"], "warmup_steps": (0, 9)}
    study = searched(trainer, space)
    first = {"learning_rate": 2e-3, "lr_scheduler_type": "cosine", "warmup_steps": 0}
    assert study.trials.iloc[0][list(first)].to_dict() == first
    config = study.best.config
    assert (config["weight_decay"], config["num_train_epochs"], config["use_cpu"]) == (0.01, 1, True)
    assert not {"seed", "output_dir", "report_to", "fp16"} & set(config)
    assert SEEN[0]["args"].weight_decay == 0.01
    assert SEEN[0]["args"].seed != 7  # each training has its own


@pytest.mark.nightly
def test_a_default_outside_of_the_space_is_told_and_not_tried(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    trainer = new_trainer(tmp_path, arguments={"learning_rate": 0.5})
    study = searched(trainer, {"learning_rate": hpo.log(1e-4, 1e-2)}, progress=True)
    assert (
        "not tried first: the default configuration: learning_rate=0.5 is not in its range" in capsys.readouterr().out
    )
    assert study.trials["learning_rate"].max() <= 1e-2


@pytest.mark.slow
def test_the_space_may_be_hp_space_itself(tmp_path):
    def hp_space(trial):
        return {"learning_rate": trial.suggest_float("learning_rate", 1e-4, 1e-2, log=True)}

    study = searched(new_trainer(tmp_path), hp_space)
    assert study.trials["learning_rate"].between(1e-4, 1e-2).all()
    assert study.trials["state"].tolist() == ["complete"] * 2


@pytest.mark.slow
def test_the_model_of_the_best_trial_is_kept_as_train_keeps_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    study = searched(new_trainer(tmp_path), {"learning_rate": hpo.log(1e-4, 1e-1)}, trials=3)
    kept = [*(study.folder / "checkpoints").iterdir()]
    assert kept == [study.best.model_dir]
    net = Net()
    net.load_state_dict(load_file(study.best.model_dir / "model.safetensors"))
    batch = {name: torch.stack([row[name] for row in ROWS]) for name in ROWS[0]}
    assert float(net.eval()(**batch)["loss"]) == pytest.approx(study.best.score, rel=1e-5)


def twice_right(metrics):
    return 2 * metrics.pop("eval_right") - metrics["eval_loss"]


@pytest.mark.slow
def test_a_formula_of_metrics_is_the_score_as_of_hyperparameter_search(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trainer = new_trainer(tmp_path, compute_metrics=measures)
    settings = {"dispatch": "local", "track": "none"}
    more = {"trials": 2, "progress": False, "settings": settings}
    space = {"learning_rate": hpo.log(1e-4, 1e-1)}
    one = hpo.search(
        objective_of(trainer, twice_right), space, direction="maximize", measured=["right", "loss"], **more
    )
    assert list(one.trials.score) == pytest.approx(list(2 * one.trials.right - one.trials.loss))
    both = objective_of(trainer, lambda metrics: (metrics["eval_right"], -metrics["eval_loss"]))
    goals = {"hits": "maximize", "depth": "maximize"}
    several = hpo.search(both, space, metric=goals, measured=["right"], name="several", **more)
    assert list(several.trials.score) == list(several.trials.right)
    for formula, goal, says in (
        (twice_right, {"metric": "right"}, "right is also the name of a metric of the evaluation; give the study's"),
        (lambda _: (1.0, 2.0), {}, "must return a value for each of the study's metrics (score), given (1.0, 2.0)"),
    ):
        failed = hpo.search(objective_of(trainer, formula), space, direction="maximize", **goal, **more)
        assert all(f"compute_objective: {says}" in error for error in failed.trials.error)
