"""Running text from plain files: an example is one line, and the parts are stretches of text."""

from model.data.config import LanguageModellingConfig
from model.data.examples import Examples
from model.data.labelled_texts import given_files
from model.data.text_files import read_text
from model.errors import DataError


def read_plain_text(config: LanguageModellingConfig) -> Examples:
    """An example is `{"text": one line with its line break}`; they must be kept in order.

    One file (`data.path`) is cut in three: training first, then validation, then test; each cut falls on the first
    line break after its share of characters, because neighbouring lines tell too much of each other to be mixed.

    Raises:
        DataError: a fault in the files, or a part that would be empty.
    """
    files, items = [], []
    parts: dict[str, int] = {}
    for part, path in given_files(config).items():
        text, file = read_text(path, f"data.{part}")
        lines = text.splitlines(keepends=True)
        files.append(file)
        items += [{"text": line} for line in lines]
        parts |= _cut(lines, config, path) if part == "path" else {part: len(lines)}
    source = ", ".join(file.path for file in files)
    return Examples(source=source, licence=None, files=tuple(files), items=items, labels=None, parts=parts)


def _cut(lines: list[str], config: LanguageModellingConfig, path: str) -> dict[str, int]:
    """How many lines each part has."""
    shares = {"train": 1 - config.validation_fraction - config.test_fraction, "validation": config.validation_fraction}
    if config.test_fraction:
        shares["test"] = config.test_fraction
    total, parts, seen, line, end = sum(map(len, lines)), {}, 0, 0, 0.0
    for part, share in shares.items():
        end, first = end + share * total, line
        is_last = part == list(shares)[-1]
        while line < len(lines) and (is_last or seen < end - 1e-6):
            seen += len(lines[line])
            line += 1
        parts[part] = line - first
        if not parts[part]:
            raise DataError(
                f"{path}: {len(lines)} lines leave none for the {part} part; give a longer text, other fractions "
                "(data.validation_fraction, data.test_fraction), or one file per part"
            )
    return parts
