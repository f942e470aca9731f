"""What commands share: how values are written in a shell, what is printed, and the files that users name."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from hpo.errors import ConfigError, DataError
from hpo.files import write_atomically


@dataclass(frozen=True)
class Word:
    """What the type of a parameter does not say of it in a shell.

    Attributes:
        metavar: the placeholder in `--help`; empty = the parameter's name.
        says: its help where the docstring of a command has none.
        read: what one word becomes, or raises ConfigError.
        collect: what all words of a parameter that takes many become; it makes a parameter one of many words.
        option: how its option is called, where that is not its name, such as `--as`, or Python takes it by its place.
        is_dashed: whether its value may begin with a dash, as of `--sort -score`.
        is_hidden: whether it is given from Python alone.
        is_shell_only: whether it is given in a shell alone: a method of `Study` does not have it.
        default: what it is where a shell does not give it, if that is not what Python takes.
    """

    metavar: str = ""
    says: str = ""
    read: Callable[[str], Any] | None = None
    collect: Callable[[Sequence[str]], Any] | None = None
    option: str = ""
    is_dashed: bool = False
    is_hidden: bool = False
    is_shell_only: bool = False
    default: Any = None


class Fields:
    """A result whose fields are what `--json` prints, but those whose names begin with `_`; a frozen dataclass."""

    def to_dict(self) -> dict[str, Any]:
        """Return its fields, with absolute paths."""
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


def data_places(texts: Sequence[str]) -> dict[str, str]:
    """Return the places of data by their keys; ConfigError for anything else."""
    from hpo.config.study_config import DATA_SOURCES

    paths = {}
    for text in texts:
        key, equals, path = text.partition("=")
        if key not in DATA_SOURCES or not equals or not path:
            raise ConfigError(f"KEY=PATH: must be one of {', '.join(DATA_SOURCES)} and a path, given {text!r}")
        paths[key] = path
    return paths


def point_values(texts: Sequence[str]) -> dict[str, Any]:
    """Return the values of a point by dotted key."""
    from hpo.config.composing.overrides import read_values

    return read_values(list(texts))


def list_of(read: Callable[[str], Any]) -> Callable[[str], list[Any]]:
    """Return what reads several values of a word, with commas between them."""
    return lambda text: [read(part.strip()) for part in text.split(",") if part.strip()]


def tag_values(texts: Sequence[str]) -> dict[str, str]:
    """Return the values of tags by name; without a value it is `true`."""
    pairs = (text.partition("=") for text in texts)
    return {key: value if equals else "true" for key, equals, value in pairs}


StudyRef = Annotated[str | Path, Word("STUDY", "its name under runs/, or its folder")]
StudyOrMirror = Annotated[str | Path, Word("STUDY", "its name under runs/, its folder, or the URL of its mirror")]
Overrides = Annotated[Sequence[str], Word("OVERRIDE", "key=value, group=name, +key=value, ~key", collect=list)]
Point = Annotated[Mapping[str, Any], Word("KEY=VALUE", "values of what is searched", collect=point_values)]
DataPlaces = Annotated[
    Mapping[str, str], Word("KEY=PATH", "where the data lie now, such as data.path=there.csv", collect=data_places)
]
Tags = Annotated[Mapping[str, str], Word("KEY=VALUE", collect=tag_values)]
Trust = Annotated[bool, Word(says="run the objective of a study that was not made here, and do not ask before")]
Yes = Annotated[bool, Word(says="do not ask", is_shell_only=True)]
Progress = Annotated[
    Literal["auto", "json", "none"] | bool,
    Word(
        says="auto = lines, on a terminal with a panel below them; json = JSON lines on standard error, and nothing "
        "else; none = only how it begins and ends"
    ),
]
ConfigPrint = Annotated[Literal["job"], Word(says="check the configuration and print it; train nothing")]
ConfigFolder = Annotated[str, Word("DIR", "a folder with configuration groups of your own")]
ConfigFile = Annotated[str, Word("FILE", "start from this whole configuration; compose nothing")]

EVERYWHERE = {
    "debug": "show the traceback of a fault",
    "json": "print one JSON object instead of lines, which go to standard error",
}
"""The options of every command, on which the command line acts; no function has them."""


def refuse_without_effect(options: Mapping[str, Any], why: str) -> None:
    """Raise ConfigError where any of these options is given, which have no effect, such as `without --page`."""
    if given := [name for name, value in options.items() if value not in (None, (), []) and value is not False]:
        has, it = ("has", "it") if len(given) == 1 else ("have", "them")
        raise ConfigError(f"{', '.join(given)}: {has} no effect {why}; leave {it} out")


PICTURES = (".png", ".html")


def output_path(output: str | Path | None, endings: Sequence[str] = ()) -> Path | None:
    """Return the path of a file; DataError if it cannot be written, before anything is computed for it."""
    if output is None:
        return None
    path = Path(output)
    if endings and path.suffix.lower() not in endings:
        raise DataError(f"output: must end in {' or '.join(endings)}, given '{path}'")
    if path.is_dir():
        raise DataError(f"output: '{path}' is a folder; give a file")
    if path.exists() and not path.is_file():
        # The atomic write would replace it by a regular file.
        raise DataError(f"output: '{path}' is a device or a pipe; give a file, or leave it out")
    if not path.parent.is_dir():
        raise DataError(f"output: there is no folder '{path.parent}'; make it, or give another file")
    return path


def write_output(path: Path, content: str | bytes) -> None:
    """Write the file whole or not at all; DataError if it cannot be written."""
    with writing(path):
        write_atomically(path, content)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raise DataError where a file cannot be written."""
    try:
        yield
    except OSError as error:
        raise DataError(f"output: {path}: {error.strerror}") from error
