"""Reads pairs of sequences from aligned files, tables or the hub, or generates pairs."""

import glob
import itertools
import random
from pathlib import Path

from model.config.pairs import GeneratedConfig, TranslationConfig
from model.data.examples import Examples, File
from model.data.readers.parts import Gathered, given_places
from model.data.readers.tables import read_tables
from model.data.readers.text_files import ENDINGS, Columns, read_text
from model.errors import DataError

KNOWN: dict[str, tuple[str, ...]] = {"source": ("source", "src"), "target": ("target", "tgt")}


def read_translation(config: TranslationConfig) -> Examples:
    """Read the pairs; an example is `{"source": ..., "target": ...}`.

    Raises:
        DataError: the data is not valid, or aligned files have different numbers of lines.
    """
    columns = Columns({"source": config.source_column, "target": config.target_column}, KNOWN)
    gathered = Gathered()
    if config.is_aligned:
        for part, path in given_places(config).items():
            rows, files = _aligned(path, f"data.{part}", config)
            gathered.add(part, rows, *files)
    else:
        for part, path in given_places(config).items() if config.format == "auto" else ():
            _refuse_one_of_two(path, f"data.{part}")
        for part, table in read_tables(config, columns):
            gathered.add_table(part, table)
    return gathered.examples()


def _refuse_one_of_two(path: str, key: str) -> None:
    """Raise DataError if `path` is one of two aligned files (`data/a.de`), or their path without endings (`data/a`).

    The message says what to type instead.
    """
    named = Path(path)
    if named.name.removesuffix(".gz").endswith(tuple(ENDINGS)):
        return
    stem = Path(named.name.removesuffix(".gz")).stem if named.is_file() else named.name
    siblings = sorted(named.parent.glob(f"{glob.escape(stem)}.*"), key=lambda other: (other != named, other.name))
    endings = [each.name.removeprefix(stem) for each in siblings if each.is_file()][:2]
    if len(endings) == 2:
        raise DataError(
            f"{path}: for two aligned files, their common path and their endings must be in separate keys; write "
            f"{key}={named.parent / stem} data.source_ending={endings[0]} data.target_ending={endings[1]}"
        )


def _aligned(path: str, key: str, config: TranslationConfig) -> tuple[list[dict[str, str]], list[File]]:
    """Read two aligned files, and return two values: one pair per line, and a `File` for each of the two files."""
    sides, files = [], []
    for side, ending in (("source", config.source_ending), ("target", config.target_ending)):
        text, file = read_text(f"{path}{ending}", f"{key} with data.{side}_ending")
        sides.append(text.removesuffix("\n").split("\n"))
        files.append(file)
    source, target = sides
    if len(source) != len(target):
        raise DataError(
            f"{files[0].path}:{len(source)}: has {len(source)} lines, but {files[1].path} has {len(target)}; aligned "
            "files must have the same number of lines"
        )
    for line, pair in enumerate(zip(source, target, strict=True), start=1):
        for file, text in zip(files, pair, strict=True):
            if not text.strip():
                raise DataError(f"{file.path}:{line}: the line is empty; delete this line in both files")
    return [{"source": one.strip(), "target": other.strip()} for one, other in zip(source, target, strict=True)], files


def generate_pairs(config: GeneratedConfig) -> Examples:
    """Return `num_examples` pairs with different sources; the random seed `data.seed` determines the pairs.

    A source is a sequence of numbers from 0 to num_symbols - 1. `data.task` computes the target from the source.

    Raises:
        DataError: fewer than `num_examples` different sources exist.
    """
    draw = random.Random(config.seed)
    lengths = range(config.min_length, config.max_length + 1)
    possible = 0
    for length in lengths:
        possible += config.num_symbols**length
        if possible > 4 * config.num_examples:  # stop here, because the exact number may have millions of digits
            break
    if config.num_examples > possible:
        raise DataError(
            f"data.num_examples: must be at most {possible}, given {config.num_examples}; only {possible} "
            f"different sequences of {config.min_length} to {config.max_length} symbols exist with "
            f"data.num_symbols={config.num_symbols}"
        )
    if possible <= 4 * config.num_examples:  # repeated draws would be frequent, so choose from a list of all sources
        every = [source for length in lengths for source in itertools.product(range(config.num_symbols), repeat=length)]
        return _generated(draw.sample(every, config.num_examples), config)
    sources: dict[tuple[int, ...], None] = {}
    while len(sources) < config.num_examples:
        length = draw.choice(lengths)
        sources.setdefault(tuple(draw.choices(range(config.num_symbols), k=length)))
    return _generated(list(sources), config)


def _generated(sources: list[tuple[int, ...]], config: GeneratedConfig) -> Examples:
    items = [{"source": _text(source), "target": _text(_target(source, config))} for source in sources]
    name = f"generated: {config.task}, seed {config.seed}, by {Path(__file__).name}"
    version = f"seed {config.seed}"
    return Examples(name, "none needed: generated", (), items, labels=None, parts=None, version=version)


def _target(source: tuple[int, ...], config: GeneratedConfig) -> tuple[int, ...]:
    match config.task:
        case "reverse":
            return source[::-1]
        case "copy":
            return source
        case "sort":
            return tuple(sorted(source))
        case "modular_addition":
            return (sum(source) % config.num_symbols,)


def _text(numbers: tuple[int, ...]) -> str:
    return " ".join(map(str, numbers))
