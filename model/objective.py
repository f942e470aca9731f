"""The only interface between searches and this package; arguments and results are plain dicts.

Importing this module or reading data does not load torch, because the driver of a search does not need torch.
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

# The shortest line of running text, in characters, that counts as a duplicate of an equal line.
_SHORTEST_LINE = 40
# A training can stop after some epochs, and continue from the state in `resume_dir`.
CONTINUES = True
# A training that continues after an interruption yields every point after the epoch `trained` of `run_fold` again.
REPORTS_AGAIN = True
# Increase this number when a change to networks, optimizers, batches, metrics or costs changes the result of a training
# with the same configuration, data and seed.
REVISION = 3
# The keys that may change between a training and its continuation.
CONTINUES_WITH = tuple(f"training.{name}" for name in OF_LENGTH)


def check(config: dict[str, Any]) -> None:
    """Check that a configuration can be trained.

    Args:
        config: a plain dict with `model`, `data`, `training` and optionally `metrics`.

    Raises:
        pydantic.ValidationError: the configuration is not valid. The `loc` of an error begins with the full key. An
            error of the type `cross_field` (a violated rule) instead lists the full keys in `ctx["keys"]`.
    """
    parse(config, source_required=True)


def describe_data(config: dict[str, Any]) -> dict[str, Any]:
    """Read all of the data and return its description.

    Returns:
        `name`, `version` (or None), `source`, `licence` (or None), `files` (each with `path`, `sha256`, `bytes`),
        `size` (the number of examples), `labels` (one per example, or None), `digests` (one per example),
        `recurring` (the indices of examples that do not count as duplicates, such as blank lines), `is_ordered`
        (whether the examples are lines of running text), `parts` (None, or the sizes of the predefined splits; if
        the test split has size 0, the study makes no test split), `notes` (lines for the user). The indices count the
        examples in the order train, validation, test.

    Raises:
        DataError: the data cannot be used; the message says in one line where the error is and what to do.
    """
    data = parse(config, source_required=True).data
    examples, is_running_text = read_examples(data), data.name == "language_modelling"
    return {
        "name": data.name,
        "version": examples.version,
        "source": examples.source,
        "licence": examples.licence,
        "files": [{"path": file.path, "sha256": file.sha256, "bytes": file.size} for file in examples.files],
        "size": len(examples.items),
        "labels": examples.labels,
        "digests": [digest(item) for item in examples.items],
        "recurring": _short_lines(examples.items) if is_running_text else (),
        "is_ordered": is_running_text,
        "parts": examples.parts,
        "notes": (*examples.notes, *notes_of_cut(data, examples)),
    }


def _short_lines(items: Sequence[dict[str, Any]]) -> list[int]:
    """Return the positions of the lines that are too short to count as duplicates, such as blank lines."""
    return [number for number, item in enumerate(items) if len(item["text"].strip()) < _SHORTEST_LINE]


def describe_method(config: dict[str, Any]) -> dict[str, Any]:
    """Return the description of a configuration's method for the report; see `model.tasks.method.describe_method`."""
    from model.tasks.method import describe_method as describe  # imported here, because sacrebleu loads slowly

    return describe(parse(config, source_required=True))


def prepare_data(config: dict[str, Any], indices: list[int], data_dir: str) -> None:
    """Replace the content of the folder `data_dir` by the examples at `indices`, in the order of `indices`."""
    items = read_examples(parse(config, source_required=True).data).items
    write_store([items[index] for index in indices], data_dir)


def describe_cost(config: dict[str, Any]) -> float:
    """Return the cost of training from one evaluation to the next; see `model.cost.cost_of_unit`."""
    return cost_of_unit(parse(config))


def describe_length(config: dict[str, Any]) -> int:
    """Return the largest possible number of epochs of a training.

    `max_steps` also limits the epochs, because every epoch has at least one step.
    """
    training = parse(config).training
    return min(training.epochs, training.max_steps or training.epochs)


def describe_scales(config: dict[str, Any], over: Growing) -> dict[str, Any]:
    """Return the default scales (sizes of the network) of `hpo scale` for a configuration.

    Returns:
        A dict with these keys:

        - `scales`: see `model.config.scales.scales_of`.
        - `rate`: the key of the learning rate.
        - `holds_from`: a dict from a layer's name to a pair (configuration key, threshold). The layer's mean absolute
          output should be equal at all scales where the key's value is at least the threshold. At a scale where the
          value is below the threshold, the output may differ from the output at larger scales. With mup and untied
          embeddings, the dict has an entry for the head. The threshold is the base width, because `parametrize` limits
          the initial weights of the head in narrower networks.
    """
    model = parse(config).model
    is_capped = model.parametrization == "mup" and not getattr(model, "tied_embeddings", False)
    holds_from = {"head": ("model.d_model", model.base.d_model)} if is_capped else {}
    return {"scales": scales_of(model, over), "rate": "training.lr", "holds_from": holds_from}


def run_fold(task: dict[str, Any]) -> Generator[dict[str, float], None, dict[str, float]]:
    """Train one configuration on one fold.

    Args:
        task: a dict with these keys:

            - `config`: the configuration, with paths null.
            - `train`, `validation`: the positions of the examples in the prepared data. If `validation` is empty, the
              weights of the last update are saved.
            - `data_dir`: the folder of the prepared data.
            - `metric`: the name of the metric by which this function finds the best evaluation.
            - `direction`: "maximize" if higher values of `metric` are better, otherwise "minimize".
            - `amount`: stop after this many epochs, counted from the start; None = all. The schedule covers all epochs.
            - `checkpoint_dir`: the folder for the trained network; None = do not save the network.
            - `seed`, `threads`: the random seed, and the number of threads.
            - `processes` (optional): the number of processes that train together; 1 by default.
            - `resume_dir` (optional): the folder of the training state. The state is saved after evaluations, at the
              end, and every training.save_minutes. The task continues from the state of an earlier task that was
              interrupted, or that had a smaller `amount`. If the device computes deterministically, the result is
              bit-identical to the result of an uninterrupted training.
            - `trained` (optional): the number of epochs that an earlier task trained and reported. If the saved state
              lacks some of these epochs, this task trains the missing epochs again, and yields their points of the
              learning curve again.
            - `curves` (optional, only without validation): the learning curves of the folds, from which
              schedule=plateau takes the reductions of the learning rate.

    Yields:
        One point of the learning curve per evaluation, and one warning per damaged state; see
        `model.training.train.train`.

    Returns:
        A dict with the validation metrics of the best evaluation, the epoch of this evaluation (`best_epoch`), and the
        costs. With training.ema, the metrics belong to the running mean of the weights.

        The best evaluation is the evaluation with the best value of `metric`. If `metric` is a cost, such as
        `parameters`, evaluations are compared by accuracy (classification, tagging) or by loss (all other tasks).

        The costs `parameters`, `cost_per_example` and `model_bytes` are computed, and are the same on every machine
        (see `model.tasks.resources.count_resources`). The cost `examples_per_second` is measured, as the median over
        the evaluations (see `model.training.train.evaluate`).

        Without validation, the dict holds only `train_loss` and the computed costs.

    Raises:
        Diverged: the loss became NaN or infinite.
        OutOfMemoryError: the training needs more memory than is free.
        DataError: the examples cannot be used, for example because no token occurs at least `data.min_count` times.
        CheckpointError: the state in `resume_dir` belongs to other settings, or has a format that cannot be read.
        ValueError: the metric is unknown; the device cannot be used; schedule=plateau has neither validation nor
            `curves`; or the processes loaded different states.
    """
    # Imported here, because torch takes seconds to load, and only workers need it.
    from model.training.fold import train_fold

    return (yield from train_fold(task))


def output_sizes(task: dict[str, Any]) -> dict[int, dict[str, float]]:
    """Train for some steps on one batch, and return the mean absolute value of each layer's output.

    The caller compares the results for networks of different width, or of different depth. All these networks should
    have the same values. The learning rate is constant, `training.lr`.

    Args:
        task: a dict with these keys:

            - `config`, `data_dir`, `train`, `seed`, `threads`: as in `run_fold`.
            - `steps`: the numbers of steps after which to measure.
            - `over` (optional): `width` (the default) or `depth`, the dimension in which the compared networks differ.

    Returns:
        A dict from each number of steps to a dict of values. For a layer NAME, the dict of values has two keys:

        - `NAME`: the mean absolute output of the layer.
        - `NAME, changed`: the mean absolute difference between this output and the output before the first step.

        If `over` is `depth`, the values that depend on the number of layers are left out. The key `NAME` is left out
        for whole layers of a stack, such as `encoder.layers.0`, but not for parts of layers. The key `NAME, changed` is
        given only for the head.
    """
    from model import coordinate_check  # imported here, like torch in `run_fold`

    return coordinate_check.output_sizes(task)


def run_test(task: dict[str, Any]) -> dict[str, Any]:
    """Return the scores of a checkpoint on test examples.

    Args:
        task: `config` (with its real paths), `checkpoint_dir`, `threads`, and `test`, the indices of the test examples
            as in `describe_data`.

    Returns:
        Every metric of the learning task, and the costs that `run_fold` returns. `examples_per_second` is measured on
        the test examples. `scores_by_example` maps a metric to one row of numbers per example, in ascending order of
        the examples' indices. A metric without such rows is mapped to a text with the reason. `score_of_sums` maps a
        metric, such as bleu, to a function that computes the metric from summed rows; see `Objective`.

    Raises:
        CheckpointError: the checkpoint cannot be used.
        DataError: the data cannot be used.
        OutOfMemoryError: a batch needs more memory than is free.
        ValueError: the device cannot be used.
    """
    from model.training.fold import score_test  # imported here, like torch in `run_fold`

    return score_test(task)


def describe_prediction(config: dict[str, Any]) -> dict[str, Any]:
    """Describe the inputs and the options of `predict` for a configuration's model.

    Returns:
        `inputs`: "rows" for a model that reads rows of numbers, otherwise "text"; `options`: a dict from the name of
        each option to its `type` and `default`.
    """
    name = parse(config).data.name
    options = SAMPLING_OPTIONS if name == "language_modelling" else {}
    return {"inputs": "rows" if name == "digits" else "text", "options": options}


def predict(checkpoint_dir: str, inputs: Sequence[Any], options: Mapping[str, Any]) -> list[str]:
    """Return a trained network's prediction for each input, computed in batches.

    Args:
        checkpoint_dir: the folder of a trained network.
        inputs: texts. For a model that reads rows of numbers, each input is a list of rows, or a flat list of all
            numbers.
        options: for language models the fields of `model.decoding.sampling.Sampling`: `temperature`, `top_k`, `top_p`,
            `max_tokens`, `seed`; for other models, empty.

    Returns:
        Per input: the label (classification); one tag per word, separated by blanks (tagging); the generated target
        text (translation); the continuation, without the input (language modelling).

    Raises:
        ValueError: an input, an option or the checkpoint cannot be used; the message names the cause in one line.
    """
    from model.predict import predict_inputs  # imported here, like torch in `run_fold`

    return predict_inputs(checkpoint_dir, inputs, options)


def attention(checkpoint_dir: str, text: str, target: str | None) -> dict[str, Any]:
    """Return the attention weights of each head while a trained network reads one input.

    Args:
        checkpoint_dir: the folder of a trained network.
        text: the input; for an encoder-decoder, the source.
        target: the text that the decoder of an encoder-decoder reads; None = the predicted text. For other models,
            `target` must be None.

    Returns:
        `maps`, a list with one dict per attention and layer. A dict holds `name` ("encoder layer 0", "decoder layer 0",
        "cross-attention layer 0"), `rows` (the tokens of the queries), `columns` (the tokens of the keys), and `heads`
        (for each head, a list of rows that sum to 1).

        The maps cover the tokens that the network reads. Texts are cut as in training, and a language model reads the
        last `data.context` tokens. A tagger reads a sentence of more than `data.max_length` words in pieces. Each piece
        has its own maps, and `name` says which words it has, such as "encoder layer 0, words 1 to 60".

    Raises:
        ValueError: as in `predict`.
    """
    from model.attention_maps import attention_maps  # imported here, like torch in `run_fold`

    return {"maps": attention_maps(checkpoint_dir, text, target)}
