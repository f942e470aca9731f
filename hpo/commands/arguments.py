"""Helpers of all commands: arguments from a shell, results as JSON, and output files."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, is_dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Annotated, Any, Literal

from hpo.errors import ConfigError, DataError
from hpo.files import write_atomically


@dataclass(frozen=True)
class Word:
    """The properties of a command-line parameter that its Python type cannot express.

    Attributes:
        metavar: the placeholder in `--help`; empty = the parameter's name in capitals.
        description: the help text, if the docstring of the command does not describe the parameter.
        read: converts one word, or raises ConfigError.
        collect: converts all words of a parameter that takes several words.
        option: the option's name, such as `--as`; needed if this name differs from the parameter's name, or if the
            parameter is positional in Python.
        is_dashed: whether the value may begin with a dash, as in `--sort -score`.
        is_hidden: whether only Python can give the parameter.
        is_shell_only: whether only a shell can give the parameter; methods of `Study` then do not have the parameter.
        default: the default in a shell; None = the same as in Python.
    """

    metavar: str = ""
    description: str = ""
    read: Callable[[str], Any] | None = None
    collect: Callable[[Sequence[str]], Any] | None = None
    option: str = ""
    is_dashed: bool = False
    is_hidden: bool = False
    is_shell_only: bool = False
    default: Any = None


class Fields:
    """Base of frozen dataclasses for results: `--json` prints all fields whose names do not begin with `_`."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name. Paths become absolute, and other objects in fields become dicts."""
        return {name: _plain(value) for name, value in vars(self).items() if not name.startswith("_")}


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return value.absolute()
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    for method in ("to_dict", "model_dump"):
        if hasattr(value, method):
            return getattr(value, method)()
    return vars(value) if is_dataclass(value) else value


def name_or_path(study: Any) -> str:
    """Return the name or the path of a study that was given as a name, a path or a `Study`."""
    return fspath(study) if isinstance(study, PathLike) else str(study)


def unique(pairs: Iterable[tuple[str, Any]], where: str) -> dict[str, Any]:
    """Return the values by name; ConfigError if a name is given twice. `where` names the argument in the message."""
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in values:
            raise ConfigError(f"{where}: must have {name} only once, given {name}={values[name]} and {name}={value}")
        values[name] = value
    return values


def data_places(texts: Sequence[str]) -> dict[str, str]:
    """Return the paths of data files by key, from words such as `data.path=x.csv`; ConfigError for other words."""
    from hpo.config.study_config import DATA_SOURCES

    pairs = [text.partition("=") for text in texts]
    for text, (key, equals, path) in zip(texts, pairs, strict=True):
        if key not in DATA_SOURCES or not equals or not path:
            raise ConfigError(
                f"KEY=PATH: KEY must be one of {', '.join(DATA_SOURCES)}, and PATH must be a path, given {text!r}"
            )
    return unique(((key, path) for key, _, path in pairs), "KEY=PATH")


def point_values(texts: Sequence[str]) -> dict[str, Any]:
    """Return the values of a point by dotted key, from words KEY=VALUE."""
    from hpo.config.composing.overrides import read_values

    return read_values(list(texts))


def list_of(read: Callable[[str], Any]) -> Callable[[str], list[Any]]:
    """Return a function that splits a text at its commas, skips empty parts, and applies `read` to all other parts."""
    return lambda text: [read(part.strip()) for part in text.split(",") if part.strip()]


def tag_values(texts: Sequence[str]) -> dict[str, str]:
    """Return the values of tags by name, from words NAME=VALUE; a word without =VALUE gets the value `true`."""
    pairs = (text.partition("=") for text in texts)
    return unique(((key, value if equals else "true") for key, equals, value in pairs), "--tag")


StudyRef = Annotated[str | Path, Word("STUDY", "the study's name under runs/, or its folder")]
StudyOrMirror = Annotated[
    str | Path, Word("STUDY", "the study's name under runs/, its folder, or the URL of its mirror")
]
Overrides = Annotated[Sequence[str], Word("OVERRIDE", "key=value, group=name, +key=value, ~key", collect=list)]
Point = Annotated[Mapping[str, Any], Word("KEY=VALUE", "values of searched hyperparameters", collect=point_values)]
DataPlaces = Annotated[
    Mapping[str, str],
    Word(
        "KEY=PATH", "new PATH of moved data; KEY is a key of the configuration such as data.path", collect=data_places
    ),
]
Tags = Annotated[Mapping[str, str], Word("KEY=VALUE", collect=tag_values)]
Trust = Annotated[bool, Word(description="run the code of another machine's study without asking first")]
Yes = Annotated[bool, Word(description="do not ask", is_shell_only=True)]
Progress = Annotated[
    Literal["auto", "json", "none"] | bool,
    Word(
        description="auto = lines, with a panel below them on a terminal; json = only JSON lines, on standard error; "
        "none = only the first and the last lines"
    ),
]
ConfigPrint = Annotated[Literal["job"], Word(description="check the configuration and print it; train nothing")]
ConfigFolder = Annotated[str, Word("DIR", "a folder with configuration groups of your own")]
ConfigFile = Annotated[
    str, Word("FILE", "start from this complete configuration instead of the configuration groups of hpo")
]

EVERYWHERE = {
    "debug": "show the traceback of an error",
    "json": "print the result as one JSON object; other lines go to standard error",
}
"""The options that every command has. `hpo` itself reads these options; no command's function gets them."""


def refuse_without_effect(options: Mapping[str, Any], why: str) -> None:
    """Raise ConfigError if any of these options is given. The message says `has no effect`, followed by `why`.

    An option with the value None, False, () or [] is not given.
    """
    if given := [name for name, value in options.items() if value not in (None, (), []) and value is not False]:
        has, it = ("has", "it") if len(given) == 1 else ("have", "them")
        raise ConfigError(f"{', '.join(given)}: {has} no effect {why}; leave {it} out")


def is_yes(question: str) -> bool:
    """Ask a question on the terminal, and return whether the answer is yes; Ctrl-D, the end of the input, means no."""
    try:
        return input(f"{question} (yes/no) ").strip().lower() in ("y", "yes")
    except EOFError:
        print()
        return False


PICTURES = (".png", ".html")


def output_path(output: str | Path | None, endings: Sequence[str] = ()) -> Path | None:
    """Return the path of an output file; None if `output` is None.

    Call this function before the computation, so that the error comes early.

    Raises:
        DataError: the path has none of the `endings`; the path is a folder, a device or a pipe; or its folder does not
            exist.
    """
    if output is None:
        return None
    path = Path(output)
    if endings and path.suffix.lower() not in endings:
        raise DataError(f"output: must end in {' or '.join(endings)}, given '{path}'")
    if path.is_dir():
        raise DataError(f"output: '{path}' is a folder; give a file")
    if path.exists() and not path.is_file():
        # An atomic write would replace the device or pipe by a regular file.
        raise DataError(f"output: '{path}' is a device or a pipe; give a file, or no output")
    if not path.parent.is_dir():
        raise DataError(f"output: folder '{path.parent}' does not exist; create the folder, or give another file")
    return path


def write_output(path: Path, content: str | bytes) -> None:
    """Write the file completely or not at all; DataError if the file cannot be written."""
    with writing(path):
        write_atomically(path, content)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Convert an OSError inside the block to DataError."""
    try:
        yield
    except OSError as error:
        raise DataError(f"output: '{path}' cannot be written: {error.strerror}") from error
