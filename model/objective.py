"""The only interface between a search and this package: plain dicts in, plain dicts out.

Importing this module, and reading data with it, loads no torch: the driver of a search does not need it.
"""

from collections.abc import Generator, Mapping, Sequence
from typing import Any

from model.config.scales import Growing, scales_of
from model.config.training import OF_LENGTH
from model.config.whole import parse
from model.cost import cost_of_unit
from model.data.cut import notes_of_cut
from model.data.examples import digest
from model.data.readers.source import read_examples
from model.data.store import write_store
from model.decoding.sampling import OPTIONS as SAMPLING_OPTIONS

# A training can be stopped after some epochs and continued from the state in `resume_dir`.
CONTINUES = True
# One that is continued after an interruption yields all of its points again.
REPORTS_AGAIN = True
# Raised when a training of the same configuration, data and seed ends otherwise: networks, optimizers, batches,
# metrics, costs.
REVISION = 2
# Keys that may differ when a training is continued.
CONTINUES_WITH = tuple(f"training.{name}" for name in OF_LENGTH)


def check(config: dict[str, Any]) -> None:
    """Refuse a configuration that cannot be trained.

    Args:
        config: a plain dict with `model`, `data` and `training`.

    Raises:
        pydantic.ValidationError: each error's `loc` is the full key; rules between keys have the type `cross_field`
            and carry `ctx["keys"]`.
    """
    parse(config, source_required=True)


def describe_data(config: dict[str, Any]) -> dict[str, Any]:
    """Read all of the data and return its description.

    Returns:
        `name`, `version`, `source`, `licence` (or None), `files` (each with `path`, `sha256`, `bytes`), `size`,
        `labels` (one per example, or None), `digests` (one per example), `parts` (None, or the sizes of the predefined
        parts), `notes` (lines for people). Examples are numbered train first, then validation, then test.

    Raises:
        DataError: the data cannot be used; the message is one line that says where and what to do.
    """
    data = parse(config, source_required=True).data
    examples = read_examples(data)
    return {
        "name": data.name,
        "version": examples.version,
        "source": examples.source,
        "licence": examples.licence,
        "files": [{"path": file.path, "sha256": file.sha256, "bytes": file.size} for file in examples.files],
        "size": len(examples.items),
        "labels": examples.labels,
        "digests": [digest(item) for item in examples.items],
        "parts": examples.parts,
        "notes": (*examples.notes, *notes_of_cut(data, examples)),
    }


def describe_method(config: dict[str, Any]) -> dict[str, Any]:
    """Return what a report states about every training of a configuration: see `model.tasks.method.describe_method`."""
    from model.tasks.method import describe_method as describe  # here: sacrebleu takes a while to load

    return describe(parse(config, source_required=True))


def prepare_data(config: dict[str, Any], indices: list[int], data_dir: str) -> None:
    """Write exactly these examples, in this order, into the folder `data_dir`, which gives no access to the others."""
    items = read_examples(parse(config, source_required=True).data).items
    write_store([items[index] for index in indices], data_dir)


def describe_cost(config: dict[str, Any]) -> float:
    """Return what training from one evaluation to the next costs; see `model.cost.cost_of_unit`."""
    return cost_of_unit(parse(config))


def describe_length(config: dict[str, Any]) -> int:
    """Return after how many epochs training ends at the latest; every epoch has a step at least."""
    training = parse(config).training
    return min(training.epochs, training.max_steps or training.epochs)


def describe_scales(config: dict[str, Any], over: Growing) -> dict[str, Any]:
    """Return at which sizes `hpo scale` compares a configuration's network where the user gives none.

    Returns:
        `scales`: see `model.config.scales.scales_of`; `rate`: the key of the learning rate; `holds_from`: the head,
        whose first spread the parametrization caps below the base.
    """
    model = parse(config).model
    is_capped = model.parametrization == "mup" and not getattr(model, "tied_embeddings", False)
    holds_from = {"head": ("model.d_model", model.base.d_model)} if is_capped else {}
    return {"scales": scales_of(model, over), "rate": "training.lr", "holds_from": holds_from}


def run_fold(task: dict[str, Any]) -> Generator[dict[str, float], None, dict[str, float]]:
    """Train one configuration on one fold.

    Args:
        task: `config` (paths null), `train` and `validation` (positions in the prepared data; without validation the
            last weights are kept), `data_dir`, `metric`, `direction` (maximize | minimize), `amount` (stop after so
            many epochs although the schedule covers training.epochs; None = all),
            `checkpoint_dir` (or None), `seed`, `threads`; optionally `processes`, how many train it together (1);
            `resume_dir`, a folder in which the state is saved after evaluations, at the end, and every
            training.save_minutes: a task stopped at any moment, or at a smaller `amount`, continues from there and ends
            with the same bits; `trained`, how many epochs an earlier task has yielded the points of; and, without
            validation, `curves`, those of the folds' trainings, for schedule=plateau.

    Yields:
        One point per evaluation: see `model.training.train.train`.

    Returns:
        The validation metrics of the best evaluation (with training.ema, those of the running mean of the weights);
        `parameters`, `cost_per_example` and `model_bytes` (see `model.tasks.resources.count_resources`), which are
        the same on every machine; `examples_per_second`, the median over the evaluations (see
        `model.training.train.evaluate`), which is measured; and `best_epoch`, the epoch of the best evaluation. The
        best is so by `metric`, or, where that is no metric of predictions (`parameters`), by the task's first: accuracy
        of classes and tags, else loss. Without validation: `train_loss`, and what can be counted.

    Raises:
        Diverged: the loss became NaN or infinite.
        OutOfMemoryError: there was not enough memory.
        ValueError: the metric is unknown.
    """
    # Here, not at the top: torch takes seconds to load, and only a worker needs it.
    from model.training.fold import train_fold

    return (yield from train_fold(task))


def output_sizes(task: dict[str, Any]) -> dict[int, dict[str, float]]:
    """Return how large what each layer gives is after some steps on one batch: what no width, or depth, should change.

    Args:
        task: `config`, `data_dir`, `train`, `seed`, `threads` as in `run_fold`; `steps`, after which it is measured;
            optionally `over`, what of the network grows from one call to the next: `width` (the default) or `depth`,
            with which what depth may change is left out.

    Returns:
        By step and layer the mean absolute number; also under "NAME, changed" that of the difference from what the
        layer gave before the first step. The learning rate is `training.lr` at every step.
    """
    from model import coordinate_check  # here for the same reason as in run_fold

    return coordinate_check.output_sizes(task)


def run_test(task: dict[str, Any]) -> dict[str, Any]:
    """Return the scores of a checkpoint on the examples `test`, numbered as in `describe_data`.

    Args:
        task: `config` (with its real paths), `checkpoint_dir`, `test`, `threads`.

    Returns:
        Every metric of the task, and of what the network takes all that `run_fold` returns; `examples_per_second` is
        that of the test part. In `scores_by_example`, of labels of whole sequences: `accuracy`, whether each example,
        in ascending order, is right.
    """
    from model.training.fold import score_test  # here for the same reason as in run_fold

    return score_test(task)


def describe_prediction(config: dict[str, Any]) -> dict[str, Any]:
    """Return what `predict` reads with a configuration's model.

    Returns:
        `inputs`: "text", or "rows" for models of numbers; `options`: `{"type", "default"}` by name.
    """
    name = parse(config).data.name
    options = SAMPLING_OPTIONS if name == "language_modelling" else {}
    return {"inputs": "rows" if name == "digits" else "text", "options": options}


def predict(checkpoint_dir: str, inputs: Sequence[Any], options: Mapping[str, Any]) -> list[str]:
    """Return a trained network's prediction for each input, computed in batches.

    Args:
        checkpoint_dir: the folder of a trained network.
        inputs: one text each; for a model of numbers, one example each, as nested rows or as one flat list.
        options: for language models the fields of `model.decoding.sampling.Sampling`: `temperature`, `top_k`, `top_p`,
            `max_tokens`, `seed`; for all others, none.

    Returns:
        Per input: the label (classification); one tag per word, separated by blanks (tagging); the target text
        (translation, generated); the continuation, without the input (language modelling).

    Raises:
        ValueError: an input, an option or the checkpoint cannot be used; one line that says which and why.
    """
    from model.predict import predict_inputs  # here for the same reason as in run_fold

    return predict_inputs(checkpoint_dir, inputs, options)


def attention(checkpoint_dir: str, text: str, target: str | None) -> dict[str, Any]:
    """Return what each head of a trained network attends to while it reads one input.

    Args:
        checkpoint_dir: the folder of a trained network.
        text: the input; for an encoder-decoder, the source.
        target: for an encoder-decoder, what the decoder reads; None = what it predicts. For all others, None.

    Returns:
        `maps`: per attention of each layer `name` ("encoder layer 0", "decoder layer 0", "cross-attention layer 0"),
        `rows` (the tokens that attend), `columns` (the tokens attended to), `heads` (per head a list of rows; each
        row sums to 1). The tokens are those that the network has read: texts are cut where its training cuts them, of a
        language model's the last `data.context` are left, and a sentence to tag that is longer than `data.max_length`
        is read in pieces ("encoder layer 0, words 1 to 60").

    Raises:
        ValueError: as in `predict`.
    """
    from model.attention_maps import attention_maps  # here for the same reason as in run_fold

    return {"maps": attention_maps(checkpoint_dir, text, target)}
