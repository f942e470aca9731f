"""Describes, for a report, the method of a training: data preparation, metrics, and determinism."""

from typing import Any

from model.config.whole import Config
from model.tasks.directions import DIRECTIONS
from model.tasks.resources import MEASURED, RESOURCES
from model.tasks.sequence_metrics import TextMetrics, signatures
from model.tasks.units import counted_in

_LEARNED = "; built only from the training split of each fold"
_UNKNOWN = "; any other token is read as unknown"

_CLASSIFICATION = {
    "accuracy": "share of correct labels, 0 to 1",
    "macro_f1": "mean F1 over the classes that occur as true or as predicted labels, 0 to 1 (scikit-learn's f1_score)",
    "loss": "mean cross-entropy per label in nats",
}
_SEQUENCES = {
    "exact_match": "share of predicted sequences that equal their reference, 0 to 1",
    "token_error_rate": "sum of all edit distances, divided by the number of reference tokens, 0 and up",
    "loss": "mean cross-entropy per target token in nats",
}
_LANGUAGE = {
    "loss": "mean cross-entropy per token in nats",
    "perplexity": "exponential of the mean cross-entropy per token",
    "bits_per_character": "mean cross-entropy per token in bits, divided by the mean number of characters per token",
    "bits_per_byte": "mean cross-entropy per token in bits, divided by the mean number of UTF-8 bytes per token",
}
_OPEN = (
    "; a token outside the vocabulary also adds the bits that identify the token; if the token occurs in the training "
    "split, the bits are computed from its frequency there; if not, the bits are computed from its spelling (Witten "
    "and Bell 1991, method C)"
)
_RESOURCES = {
    "parameters": "number of trained weights; shared weights count once",
    "cost_per_example": "multiplications in a forward pass of one example, computed from the configuration for "
    "{length} tokens, or for {length} tokens on each side of a pair (training.cost_length); each value that is written "
    "to memory counts as {number:g} multiplications (training.cost_number)",
    "model_bytes": "size of the checkpoint's weights in bytes",
    "examples_per_second": "number of validation examples that the network predicts per second (median of the "
    "evaluations), measured on the machine of the training",
}
# The smallest and the largest value of these metrics; the values of all other metrics are 0 or more.
_BOUNDS = {
    **{name: [0, 1] for name in ("accuracy", "macro_f1", "exact_match")},
    **{name: [0, 100] for name in ("bleu", "chrf")},
    "perplexity": [1, None],
}
_SHARES = ("accuracy", "exact_match")
_METRICS = {
    "digits": _CLASSIFICATION,
    "text_classification": _CLASSIFICATION,
    "tagging": {**_CLASSIFICATION, "accuracy": "share of words with the correct tag, 0 to 1"},
    "language_modelling": _LANGUAGE,
    "translation": _SEQUENCES,
    "generated": _SEQUENCES,
}


def describe_method(config: Config[Any, Any]) -> dict[str, Any]:
    """Describe the trainings of a configuration for a report: data preparation, metrics and determinism.

    Returns:
        A dict with these keys:

        - `preprocessing`: a text about the preparation of the inputs.
        - `vocabulary`: a text about the tokens that the network knows.
        - `checkpoint`: a text about the weights that are scored.
        - `determinism`: a text that says when two trainings with the same seed give equal results.
        - `metrics`: the definition of each metric (for BLEU and chrF, with sacrebleu's signature).
        - `directions`: maximize or minimize, for each metric.
        - `bounds`: the smallest and the largest value of each metric; None = no bound.
        - `shares`: the metrics that are a share of independent examples, such as accuracy.
        - `measured`: the metrics that depend on the machine, and differ from run to run.
        - `counted_in`: the units that depend on settings; see `model.tasks.units.counted_in`.
    """
    data, training = config.data, config.training
    metrics = dict(_METRICS[data.name])
    if data.name == "translation":
        metrics |= TextMetrics.of(config).definitions()
    elif data.name == "generated":
        metrics |= {name: f"sacrebleu, 0 to 100, {signature}" for name, signature in signatures().items()}
    if data.name == "language_modelling" and data.tokens != "subwords":
        metrics |= {name: metrics[name] + _OPEN for name in ("bits_per_character", "bits_per_byte")}
    metrics |= _resources(config, "accuracy" if "accuracy" in metrics else "loss")
    every = f"every {training.evaluate_every_steps} steps" if training.evaluate_every_steps else "after each epoch"
    warmup = ", but at most (1 + t) / (10 + t) at t steps after the first" if training.ema_warmup else ""
    return {
        "preprocessing": _preprocessing(data),
        "vocabulary": _vocabulary(data),
        "metrics": metrics,
        "directions": {name: DIRECTIONS[name] for name in metrics},
        "bounds": {name: _BOUNDS.get(name, [0, None]) for name in metrics},
        # Tagging's accuracy is a share of words, which are not independent within a sentence.
        "shares": [name for name in _SHARES if name in metrics and data.name != "tagging"],
        "measured": [*MEASURED],
        "counted_in": counted_in(config),
        "checkpoint": f"evaluated {every}; the best weights by the study's metric on the validation split are kept"
        + (f"; these weights are a running mean (decay {training.ema:g}{warmup})" if training.ema else ""),
        "determinism": (
            "all random numbers of a training come from its seed; on a CPU, the same seed and number of threads give "
            "bit-identical results; on a GPU, "
            + (
                "torch.use_deterministic_algorithms is on"
                if training.deterministic
                else "torch.use_deterministic_algorithms is off, so the last digits may differ"
            )
            + (
                "; matrix products are in bfloat16 (GPUs with bfloat16), tf32 (other GPUs) or float32 (CPUs)"
                if training.precision == "auto"
                else ""
            )
        ),
    }


def _resources(config: Config[Any, Any], first: str) -> dict[str, str]:
    training = config.training
    chosen = f"is the study's metric, the best evaluation of a training is the evaluation with the best {first}"
    values = {"length": training.cost_length, "number": training.cost_number}
    return {name: f"{_RESOURCES[name].format(**values)}; if {name} {chosen}" for name in RESOURCES}


def _preprocessing(data: Any) -> str:
    if data.name == "digits":
        return "each image is a sequence of eight rows of eight numbers; each number is divided by 16"
    if data.name == "generated":
        return f"no preprocessing; the task {data.task} generates the examples from the seed {data.seed}"
    case = "letter case ignored" if data.lowercase else "letter case kept"
    if data.name == "language_modelling":
        tokens = "byte-level subwords" if data.tokens == "subwords" else data.tokens
        return f"tokens: {tokens}, {case}; the text is cut into blocks of {data.context} tokens"
    if data.name == "tagging":
        return (
            f"the network reads each word ({case}) and the last {data.ending_length} letters of the word; sentences "
            f"are cut into pieces of up to {data.max_length} words"
        )
    target = getattr(data, "target_tokens", None)
    tokens = f"{data.tokens} in sources, {target} in targets" if target else data.tokens
    return f"tokens: {tokens}, {case}; each text is cut to {data.max_length} tokens"


def _vocabulary(data: Any) -> str:
    if data.name == "digits":
        return "no vocabulary, because the inputs are numbers"
    if data.name == "generated":
        return (
            f"numbers from 0 to {data.num_symbols - 1}; each fold has its own vocabulary, the numbers that occur in "
            f"its training split{_UNKNOWN}"
        )
    if data.name == "language_modelling" and data.tokens == "subwords":
        return (
            f"byte-pair encoding: at most {data.max_size:,} tokens, which are the 256 bytes and the merged pairs "
            f"that occur at least {data.min_count} times{_LEARNED}; every text can be split into these tokens"
        )
    units = {getattr(data, "tokens", "words"), getattr(data, "target_tokens", None)}
    most = f", at most {data.max_size:,} tokens" if data.max_size else ""
    single = f"tokens that occur at least {data.min_count} times{most}" if units - {"subwords", None} else ""
    subwords = (
        "byte-pair encoding: at first, each character is a token; then the most frequent pair of tokens becomes a new "
        f"token, until {data.max_size:,} tokens exist or no pair occurs at least {data.min_count} times"
        if "subwords" in units
        else ""
    )
    return f"{'; '.join(filter(None, [single, subwords]))}{_LEARNED}{_UNKNOWN}"
