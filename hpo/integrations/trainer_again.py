"""A Hugging Face Trainer that is made again for each trial, from its own state."""

import ast
import copy
import inspect
import json
from collections import UserDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from transformers import Trainer, TrainingArguments
from transformers.trainer_callback import DefaultFlowCallback, PrinterCallback, ProgressCallback

from hpo.errors import nearest

# Trainer adds them itself.
_ADDED = (DefaultFlowCallback, PrinterCallback, ProgressCallback)
# What a part of a trainer is not: made anew, or refused beside `model_init` by Trainer itself.
_NO_PARTS = ("self", "model", "model_init", "args", "optimizers")
# Attributes of Trainer that classes set again, after it has read them off the model.
_OF_MODEL = ("label_names", "can_return_loss", "model_accepts_loss_kwargs")
# Arguments that each trial has of its own.
_OF_TRIAL = ("output_dir", "logging_dir", "run_name", "report_to", "seed")


class SearchedValues(UserDict[str, Any]):
    """What `model_init(trial)` gets: a trial's configuration, as a dict of Ray's backend or as a trial of Optuna's.

    Example:
        >>> trial["layers"], trial.params["layers"], trial.suggest_int("layers", 1, 8)
        (3, 3, 3)

    Attributes:
        read: the names that were asked for; all, where somebody went through them.
    """

    def __init__(self, *values: Any, **more: Any) -> None:
        self.read = set[str]()
        super().__init__(*values, **more)

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return super().__getitem__(name)

    def __iter__(self) -> Iterator[str]:
        self.read.update(self.data)
        return super().__iter__()

    @property
    def params(self) -> "SearchedValues":
        """The values by name."""
        return self

    def suggest_float(self, name: str, *_: Any, **__: Any) -> Any:
        """Return the search's value; the range is that of the space."""
        return self[name]

    suggest_int = suggest_categorical = suggest_float

    def __missing__(self, name: str) -> Any:
        raise KeyError(f"model_init: '{name}' is not searched; it has {', '.join(self)}{nearest(name, self)}")


def parts_of(trainer: Trainer) -> dict[str, Any]:
    """Return what it was given besides its model and arguments, by the names of Trainer's parameters."""
    names = [name for name in inspect.signature(Trainer.__init__).parameters if name not in (*_NO_PARTS, "callbacks")]
    callbacks = [callback for callback in trainer.callback_handler.callbacks if not isinstance(callback, _ADDED)]
    return {**{name: getattr(trainer, name) for name in names}, "callbacks": callbacks}


def own_state(trainer: Trainer) -> dict[str, Any]:
    """Return what its class, or its user, has added to what every Trainer has, such as class weights.

    Trainer has what its source assigns to `self` anywhere: in training it gets more than by its constructor.
    """
    tree = ast.parse(inspect.getsource(Trainer))
    stored = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)]
    common = {node.attr for node in stored if isinstance(node.value, ast.Name) and node.value.id == "self"}
    return {name: value for name, value in vars(trainer).items() if name not in common or name in _OF_MODEL}


def make_again(
    kind: type[Trainer],
    args: TrainingArguments,
    model_init: Callable[..., Any],
    parts: Mapping[str, Any],
    own: Mapping[str, Any],
) -> Trainer:
    """Return a trainer of this class with copies of these parts and this state, none of which another trial sees.

    Its own constructor is not called: nobody knows from outside what became of its arguments.
    """
    data = (parts["train_dataset"], parts["eval_dataset"])
    parts, own = copy.deepcopy((dict(parts), dict(own)), {id(part): part for part in data})
    made: Trainer = object.__new__(kind)
    # Before, since methods of the class may be called there, and after, since these are overwritten there.
    vars(made).update(own)
    Trainer.__init__(made, args=args, model_init=model_init, **parts)
    vars(made).update(own)
    return made


def own_arguments(args: TrainingArguments) -> dict[str, Any]:
    """Return the arguments that differ from the default, without those that each trial has of its own, as JSON."""
    default = type(args)(output_dir=args.output_dir).to_dict()
    changed = {name: value for name, value in args.to_dict().items() if value != default[name]}
    return {name: value for name, value in changed.items() if name not in _OF_TRIAL and _is_json(value)}


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True
