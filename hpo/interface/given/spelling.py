"""The keys that `hpo.search` has arguments for, as its users type them: `seed=` for `study.seed`."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from hpo.errors import HpoError

_ARGUMENTS = {
    **{f"study.{name}": name for name in ("trials", "minutes", "seed", "direction", "name", "score", "metric")},
    **{"dispatch.workers": "workers", "strategy.name": "strategy"},
}
# Not within backticks, which hold command lines.
_KEY = re.compile(rf"`[^`]*`|(?<![\w.])({'|'.join(map(re.escape, _ARGUMENTS))})(?!\w|\.\w)([=:]?)")


def as_typed(text: str) -> str:
    """Return a text with the arguments in place of their keys."""
    return _KEY.sub(lambda found: _ARGUMENTS[found[1]] + (found[2] or "=") if found[1] else found[0], text)


@contextmanager
def refusing_as_typed() -> Iterator[None]:
    """Let every refusal name arguments in place of keys."""
    try:
        yield
    except HpoError as error:
        error.args = (as_typed(str(error)),)
        raise
