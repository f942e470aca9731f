"""`predict` and `attention`: use a trained model, which is the winner of a study or any checkpoint."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from hpo.commands.arguments import PICTURES, Fields, Word, output_path, write_output, writing
from hpo.config.documents import read_yaml
from hpo.errors import ConfigError, DataError, StudyError
from hpo.files import write_atomically
from hpo.formatting import format_count
from hpo.study.files.folder import RUNS, find_study

if TYPE_CHECKING:
    from hpo.workers.objective.objective import Objective

# The objective to use for a checkpoint folder, because its files do not name the objective.
_OBJECTIVE_OF_CHECKPOINTS = "model.objective:run_fold"

ModelRef = Annotated[
    str | Path, Word("MODEL", "a study (its winner), a folder of `hpo train`, or the folder of a checkpoint")
]


@dataclass(frozen=True, eq=False, repr=False)
class Predictions(Fields, Sequence[str]):
    """The predictions of a model, one text per input.

    Attributes:
        model: the model, as the user named it.
        results: one text per input.
        output: the file with the results; `null` = no file.
    """

    model: str
    results: Sequence[str]
    output: Path | None = None

    def __getitem__(self, place: Any) -> Any:
        return self.results[place]

    def __len__(self) -> int:
        return len(self.results)

    def __repr__(self) -> str:
        return repr(self.results)

    @property
    def lines(self) -> str:
        """One result per line; a line break inside a result is written as `\\n` or `\\r`."""
        return "".join(result.replace("\n", "\\n").replace("\r", "\\r") + "\n" for result in self.results)

    def show(self) -> None:
        """Print the results, unless they were written to a file."""
        if self.output is None:
            sys.stdout.write(self.lines)


@dataclass(frozen=True, eq=False)
class Attention(Fields, Sequence[Mapping[str, Any]]):
    """The attention maps of a model for one text: a sequence of maps.

    Attributes:
        model: the model, as the user named it.
        output: the picture; `null` = no picture.
        maps: for each layer, the attention of its `heads`, and the tokens of the `rows` and `columns`.
    """

    model: str
    output: Path | None
    maps: Sequence[Mapping[str, Any]]

    def __getitem__(self, place: Any) -> Any:
        return self.maps[place]

    def __len__(self) -> int:
        return len(self.maps)

    def __str__(self) -> str:
        heads = format_count(sum(len(one["heads"]) for one in self.maps), "heat map*")
        return heads if self.output is None else f"{heads}: {self.output}"


def predict(
    model: ModelRef,
    inputs: Annotated[Sequence[Any] | None, Word(is_hidden=True)] = None,
    *,
    input_: Annotated[str | Path | None, Word("FILE")] = None,
    text: str | None = None,
    output: Annotated[str | Path | None, Word("FILE")] = None,
    temperature: Annotated[float | None, Word("X")] = None,
    top_k: Annotated[int | None, Word("K")] = None,
    top_p: Annotated[float | None, Word("P")] = None,
    max_tokens: Annotated[int | None, Word("N")] = None,
    seed: Annotated[int | None, Word("N")] = None,
    **options: Annotated[Any, Word(is_hidden=True)],
) -> Predictions:
    """Classify, tag, translate or continue texts with a study's winner or any checkpoint.

    Return one result per input, in the same order, each on its own line. A line break in a result is written as \\n.

    Args:
        inputs: texts, or other values that the objective accepts.
        input_: a file with one input per line; '-' is standard input.
        text: one text; give either this or a file.
        output: a file for the results (default in a shell: standard output, as with '-').
        temperature: for language models, the divisor of the logits. Below 1, likely tokens are drawn more often than
            at 1; above 1, less often than at 1. 0 always takes the likeliest token.
        top_k: for language models, draw only from this number of likeliest tokens.
        top_p: for language models, draw only from the smallest set of tokens whose total probability is at least this.
        max_tokens: for language models, the number of tokens to add.
        seed: for language models, the seed of the draws.
        options: other arguments of the objective's `predict`.

    Raises:
        hpo.HpoError: the model does not exist, or cannot read an input.

    Examples:
        hpo predict reviews --text "not a good film"
        hpo predict reviews --input new_reviews.txt --output labels.txt
        echo "not a good film" | hpo predict reviews --input -
        hpo predict runs/reviews/checkpoints/trial_0003 --input new_reviews.txt
        hpo predict plays --text "ROMEO:" --temperature 0.8 --top-k 40 --max-tokens 300
    """
    path = output_path(None if str(output) == "-" else output)
    if inputs is None:
        inputs = _texts(text, input_)
        if path is not None and path.exists() and input_ is not None and str(input_) != "-" and path.samefile(input_):
            raise ConfigError(f"output: must be another file than `input`, given {output}")
    elif text is not None or input_ is not None:
        raise ConfigError("text, input_: have no effect if `inputs` is given; leave out text and input_")
    sampling = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "max_tokens": max_tokens, "seed": seed}
    options |= {name: value for name, value in sampling.items() if value is not None}
    predictions = Predictions(str(model), _call_model(str(model), "predict", inputs, options), path)
    if path is not None:
        write_output(path, predictions.lines)
    return predictions


def attention(
    model: ModelRef,
    text: Annotated[str | None, Word(option="--text")] = None,
    target: Annotated[str | None, Word("TEXT", option="--target")] = None,
    output: Annotated[str | Path | None, Word("FILE", option="--output", default="attention.png")] = None,
    *,
    input_: Annotated[str | Path | None, Word("FILE")] = None,
) -> Attention:
    """Draw the attention of each head of a study's winner, or of any checkpoint, for one text.

    Args:
        text: the text; give either this or a file.
        target: the input of the decoder (default: the model's own prediction).
        output: the picture to write, .png or .html (default in a shell: attention.png).
        input_: a file with the text in one line; '-' is standard input.

    Raises:
        hpo.HpoError: the model does not exist, or has no attention.

    Examples:
        hpo attention reviews --text "not a good film"
        hpo attention reviews --text "not a good film" --output heads.html
        head -n 1 new_reviews.txt | hpo attention reviews --input -
        hpo attention german --text "ein Hund" --target "a dog" --output heads.png
    """
    path = output_path(output, PICTURES)
    line, *others = _texts(text, input_)
    if others:
        num_lines = 1 + len(others)
        raise DataError(f"input: {_name(input_)}: must have one line, given {num_lines:,}; keep one of the lines")
    maps = _call_model(str(model), "attention", line, target)["maps"]
    if path is not None:
        from hpo.report.pages.attention import attention_html, write_attention_png

        with writing(path):
            if path.suffix.lower() == ".html":
                write_atomically(path, attention_html(maps, line))
            else:
                write_attention_png(path, maps)
    return Attention(str(model), path, maps)


def _call_model(model: str, name: str, *arguments: Any) -> Any:
    """Call the optional function `name` of a model's objective, and return the function's result.

    Raise StudyError if the objective has no such function, and DataError if the function raises ValueError or OSError.
    """
    objective, checkpoint_dir = _find_model(model)
    optional_function = getattr(objective, name)
    if optional_function is None:
        raise StudyError(
            f"{name}: {objective.owner} has no function '{name}'; see docs/extending/write_an_objective.md"
        )
    try:
        return optional_function(checkpoint_dir, *arguments)
    except (ValueError, OSError) as error:
        raise DataError(str(error)) from error


def _find_model(name: str) -> "tuple[Objective, str]":
    """Return the objective and the checkpoint folder; `name` is a study, a folder of `hpo train`, or a checkpoint."""
    from hpo.study.opening import opened_run
    from hpo.study.preparing.preparation import known_study
    from hpo.workers.objective.resolution import resolve

    trained = Path(name) / "checkpoint"
    # `Path.is_dir` raises for some names that no file can have.
    if os.path.isdir(trained):  # noqa: PTH112
        # This is a folder of `hpo train`, and its configuration names the objective.
        objective = read_yaml(Path(name) / "config.yaml", "model").get("objective")
        if not isinstance(objective, str):
            raise StudyError(f"model: {name}/config.yaml names no objective; restore the file that `hpo train` wrote")
        return resolve(objective, str(Path.cwd())), str(trained.absolute())
    try:
        find_study(name)
    except StudyError as error:
        if os.path.isdir(name):  # noqa: PTH112
            return resolve(_OBJECTIVE_OF_CHECKPOINTS), name
        if os.path.isdir(RUNS / name):  # noqa: PTH112
            raise
        known = str(error).partition("; ")[2]
        raise StudyError(f"model: '{name}' is neither a study nor a checkpoint folder; {known}") from error
    study = known_study(name)
    with opened_run(study) as run:
        model = run.model
    if not study.keeps_models:
        missing = " and ".join(f"no {each}" for each in ("predict", "run_test") if not getattr(study.objective, each))
        where = f"; the winner's model is in {study.folder}/{model.checkpoint_dir}" if model else ""
        raise StudyError(f"model: study '{name}' cannot predict, because {study.objective.owner} has {missing}{where}")
    if model is None:
        raise StudyError(
            f"model: study '{name}' has no final model of its winner, or the model was changed; train the model again "
            f"by `hpo resume {name}`"
        )
    return study.objective, str(study.folder.inside(model.checkpoint_dir))


def _texts(text: str | None, source: str | Path | None) -> list[str]:
    """Return a list with `text`, or the lines of the file `source` ('-' = standard input)."""
    if (text is None) == (source is None):
        given = "neither" if text is None else "both"
        raise ConfigError(f"text, input: give either the text or a file with texts, given {given}")
    if text is not None:
        return [text]
    name = _name(source)
    try:
        content = sys.stdin.buffer.read() if str(source) == "-" else Path(str(source)).read_bytes()
        lines = content.decode("utf-8-sig").replace("\r\n", "\n").removesuffix("\n")
    except OSError as error:
        raise DataError(f"input: {name} cannot be read: {error.strerror}; give a file, or the text itself") from error
    except UnicodeDecodeError as error:
        raise DataError(f"input: {name}: must be UTF-8, but byte {error.start} is not; convert the file") from error
    if not lines:
        raise DataError(f"input: {name}: is empty; it must have one input per line")
    return lines.split("\n")


def _name(source: str | Path | None) -> str:
    return "standard input" if str(source) == "-" else str(source)
