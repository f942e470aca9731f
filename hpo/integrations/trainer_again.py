"""Builds a new Hugging Face Trainer for each trial from the user's Trainer."""

import ast
import copy
import inspect
import json
import textwrap
from collections import UserDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from transformers import Trainer, TrainingArguments
from transformers.trainer_callback import DefaultFlowCallback, PrinterCallback, ProgressCallback

from hpo.errors import nearest

# Types of callbacks that Trainer adds itself.
_ADDED = (DefaultFlowCallback, PrinterCallback, ProgressCallback)
# Parameters of Trainer that are not copied, because each trial has its own value, or because Trainer refuses them
# together with `model_init`.
_NOT_COPIED = ("self", "model", "model_init", "args", "optimizers")
# Attributes that Trainer reads from the model, and that subclasses may set afterwards.
_MODEL_ATTRIBUTES = ("label_names", "can_return_loss", "model_accepts_loss_kwargs")
# TrainingArguments that differ between trials.
_TRIAL_ARGUMENTS = ("output_dir", "logging_dir", "run_name", "report_to", "seed")


class SearchedValues(UserDict[str, Any]):
    """The argument of `model_init(trial)`: the values of a trial, used like a dict of Ray or like a trial of Optuna.

    Example:
        >>> trial["layers"], trial.params["layers"], trial.suggest_int("layers", 1, 8)
        (3, 3, 3)

    Attributes:
        read: the names of the values that were read; iteration counts as reading all values.
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
        """The values of the trial by name, like `params` of an Optuna trial."""
        return self

    def suggest_float(self, name: str, *_: Any, **__: Any) -> Any:
        """Return the trial's value; the space decides the range."""
        return self[name]

    suggest_int = suggest_categorical = suggest_float

    def __missing__(self, name: str) -> Any:
        raise KeyError(
            f"model_init: '{name}' is not in the space; the space has {', '.join(self)}{nearest(name, self)}"
        )


def keys_read(model_init: Callable[..., Any]) -> list[str] | None:
    """Return all string constants in the source of `model_init`, sorted.

    Each key that `model_init` reads from `trial` is one of these constants. If the source is not available, return
    None. If `model_init` uses `trial` in any way except the following three, also return None:

    - It reads a constant key, as in `trial["layers"]`.
    - It compares `trial`, as in `trial is None`.
    - It uses `trial` as an `if` condition.
    """
    if not inspect.isfunction(model_init) or hasattr(model_init, "__wrapped__"):
        return None
    try:
        nodes = list(ast.walk(ast.parse(textwrap.dedent(inspect.getsource(model_init)))))
    except (OSError, SyntaxError):
        return None
    (trial,) = inspect.signature(model_init).parameters
    uses = [node for node in nodes if isinstance(node, ast.Name) and node.id == trial]
    known = [used for node in nodes for used in _uses_by_constants(node)]
    known += [used.value for used in known if isinstance(used, ast.Attribute) and used.attr == "params"]
    texts = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return sorted(texts) if all(use in known for use in uses) else None


def _uses_by_constants(node: ast.AST) -> list[ast.expr]:
    """Return the expressions that an AST node uses in one of the three ways that `keys_read` allows.

    For example, the nodes `trial["layers"]` and `1 if trial else 2` both give the expression `trial`.
    """
    match node:
        case ast.Subscript(value, ast.Constant()) | ast.Call(ast.Attribute(value), [ast.Constant(), *_]):
            return [value]
        case ast.If(test) | ast.IfExp(test):
            return [test]
        case ast.Compare(left, _, others):
            return [left, *others]
    return []


def parts_of(trainer: Trainer) -> dict[str, Any]:
    """Return the arguments from which a trainer was built, by name. Leave out the arguments in `_NOT_COPIED`.

    Also leave out the callbacks that Trainer adds itself.
    """
    parameters = inspect.signature(Trainer.__init__).parameters
    names = [name for name in parameters if name not in (*_NOT_COPIED, "callbacks")]
    callbacks = [callback for callback in trainer.callback_handler.callbacks if not isinstance(callback, _ADDED)]
    return {**{name: getattr(trainer, name) for name in names}, "callbacks": callbacks}


def own_state(trainer: Trainer) -> dict[str, Any]:
    """Return the attributes that a subclass or the user has added to a trainer, such as class weights.

    An attribute belongs to Trainer itself if at least one method in Trainer's source assigns it to `self`. The
    attributes in `_MODEL_ATTRIBUTES` are always returned.
    """
    tree = ast.parse(inspect.getsource(Trainer))
    stored = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)]
    common = {node.attr for node in stored if isinstance(node.value, ast.Name) and node.value.id == "self"}
    return {name: value for name, value in vars(trainer).items() if name not in common or name in _MODEL_ATTRIBUTES}


def make_again(
    kind: type[Trainer],
    args: TrainingArguments,
    model_init: Callable[..., Any],
    parts: Mapping[str, Any],
    own: Mapping[str, Any],
) -> Trainer:
    """Return a new trainer with copies of `parts` and `own`; the training and evaluation data sets are not copied.

    This function calls the constructor of Trainer, because the arguments of a subclass's constructor are unknown.

    Args:
        kind: the class of the trainer.
        args: the arguments of the training.
        model_init: creates the model.
        parts: see `parts_of`.
        own: see `own_state`.
    """
    data = (parts["train_dataset"], parts["eval_dataset"])
    parts, own = copy.deepcopy((dict(parts), dict(own)), {id(part): part for part in data})
    made: Trainer = object.__new__(kind)
    # Trainer's constructor may call methods of the class that need these attributes.
    vars(made).update(own)
    Trainer.__init__(made, args=args, model_init=model_init, **parts)
    # Trainer's constructor may have overwritten some of these attributes.
    vars(made).update(own)
    return made


def own_arguments(args: TrainingArguments) -> dict[str, Any]:
    """Return the arguments that differ from their defaults.

    Leave out the arguments that each trial sets, and the values that JSON cannot express.
    """
    default = type(args)(output_dir=args.output_dir).to_dict()
    changed = {name: value for name, value in args.to_dict().items() if value != default[name]}
    return {name: value for name, value in changed.items() if name not in _TRIAL_ARGUMENTS and _is_json(value)}


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True
