"""Decides by the values whether the first row of a table is a header."""

from collections.abc import Sequence

# In a column of labels, a value occurs in at least so many rows on average.
_ROWS_PER_LABEL = 2


def column_of_a_header(first: Sequence[str], below: Sequence[Sequence[str]], has_label: bool) -> int | None:
    """Return the column that shows that the first row is a header; None if that row is an example.

    No field of a header occurs again in its column. At least one field is no value of its column: it is a text above
    numbers or, if a column holds labels, above a few repeated labels. Of several such columns, the one with the fewest
    values is returned.
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
