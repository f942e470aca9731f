"""Whether the first row of a table names its columns, where nothing but the values tells."""

from collections.abc import Sequence

# In a column of labels so many rows have the same value on average.
_ROWS_PER_LABEL = 2


def column_of_a_header(first: Sequence[str], below: Sequence[Sequence[str]], has_label: bool) -> int | None:
    """Return the column that shows that the first row is a header; None where it is an example.

    No field of a header occurs below in its column, and one is no value: a text above numbers or, where a column holds
    labels, one that is none of the few that repeat below. Of several such columns it is that with the fewest values.
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
