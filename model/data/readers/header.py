"""Guesses from the values of a table whether its first row is a header."""

from collections.abc import Sequence

# A column may be a column of labels if a value occurs in at least this many rows on average.
_ROWS_PER_LABEL = 2


def column_of_a_header(first: Sequence[str], below: Sequence[Sequence[str]], has_label: bool) -> int | None:
    """Return the number, from 0, of the column that shows that the first row is a header; None = no header.

    `below` holds the other rows. A column shows a header if one of these conditions holds:

    - The column's first field is not a number, and all its other fields are numbers.
    - The table has labels, and on average each distinct value of the column occurs in at least two rows of `below`.

    Of several such columns, return the column with the fewest distinct values. Without other rows, there is no header.
    There is also no header if a field of the first row occurs again in its column.
    """
    fields = [field.strip() for field in first]
    columns = [[row[place].strip() for row in below if place < len(row)] for place in range(len(first))]
    if not below or any(field in column for field, column in zip(fields, columns, strict=True)):
        return None
    shows = [
        place
        for place, column in enumerate(columns)
        if (not _is_number(fields[place]) and all(map(_is_number, column)))
        or (has_label and len(set(column)) * _ROWS_PER_LABEL <= len(column))
    ]
    return min(shows, key=lambda place: len(set(columns[place])), default=None)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
