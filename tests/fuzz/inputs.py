"""Strings, bytes and trees for readers: anything at all, and nearly right input, which gets past the first check."""

import csv
import gzip
import io
import json
from typing import Any

from hypothesis import strategies as st

from hpo.config.keys import flatten, replaced

ODD = [0, -1, 10**30, "", "nan", "inf", "${oc.env:HOME}", "../x", "\0", "1e-5", "null", "a: b", "*a", "[", "é"]
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.sampled_from(ODD))
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)
PIECES = (
    *"ab:{}[],|>#'\"\\?~@`=!1\n\t\0é\ud800\u2028",
    *(": ", "- ", "  ", "&a ", "*a", "<<: ", "!!str ", "!!python/name:os ", "? ", "---\n", "...\n", "%YAML 1.1\n"),
    *("1.5", "null", "yes", "study", "trials", "0x1F", "2020-01-01", "1_000", "!!binary ", "!!set "),
)
YAML_TEXT = st.one_of(st.text(max_size=60), st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
OVERRIDE_PIECES = (
    *(*".=+~@{}[](),:1'\" \\$é\0\n", "choice(1,2)", "range(1,9)", "glob(*)", "???", "int("),
    *("study.trials", "model", "space", "++", "${", "-1", "1e9", "null", "true", "oc.env:X", "oc.decode:"),
)
OVERRIDES = st.one_of(st.text(max_size=40), st.lists(st.sampled_from(OVERRIDE_PIECES), max_size=15).map("".join))
WORDS = ["text", "label", "score", "lr", "state", "complete", "source", "target", "word", "0.5", "nan", "inf", "1e400"]
MORE = ("\r\n", '""', '{"text": "a", "label": "b"}', "[1]")
ROW_PIECES = st.sampled_from([*',,,;\t\n\n\r"\0é\ufeff\u2028#{} -1ab', *WORDS, *MORE])


def _json_lines(rows: list[tuple[Any, Any]]) -> bytes:
    return "\n".join(json.dumps({"text": text, "label": label}) for text, label in rows).encode(errors="surrogatepass")


def _table(rows: list[list[str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows([["text", "label"], *[[cell.replace("\0", "") for cell in row] for row in rows]])
    return text.getvalue().encode()


FILES = st.one_of(
    st.binary(max_size=80),
    st.lists(ROW_PIECES, max_size=60).map(lambda pieces: "".join(pieces).encode()),
    st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.lists(st.tuples(SCALARS, SCALARS), min_size=1, max_size=12).map(_json_lines),
    st.lists(st.lists(ROW_PIECES, min_size=2, max_size=2), min_size=1, max_size=20).map(_table),
    st.binary(max_size=60).map(gzip.compress),
)


@st.composite
def nearly(draw: Any, good: dict[str, Any]) -> dict[str, Any]:
    tree = good
    for _ in range(draw(st.integers(1, 3))):
        keys = [*flatten(tree), *(key.rpartition(".")[0] for key in flatten(tree) if "." in key)]
        key = draw(st.sampled_from(keys))
        try:
            tree = replaced(tree, {key: draw(JSON)})
        except (AttributeError, TypeError):
            continue  # An earlier exchange took the branch away.
    return tree


RULE_PIECES = (
    *("a", "b.c", "d", " ", "+", "-", "*", "/", "//", "%", "**", "<", "==", "in", "[", "]", "(", ")", ",", "and", "or"),
    *("not", "1", "0", "1e308", "'x'", "None", "True", "lambda: 1", "__import__", ".", "if", "else", ":="),
)
RULES = st.one_of(st.text(max_size=40), st.lists(st.sampled_from(RULE_PIECES), max_size=14).map(" ".join))
FIELDS = ("values", "choices", "low", "high", "log", "integer", "points", "when", "default")
LEAF = st.fixed_dictionaries({}, optional=dict.fromkeys(FIELDS, SCALARS | st.lists(SCALARS, max_size=4)))
SPACE = st.dictionaries(st.sampled_from(["lr", "n", "kind", "require", "first"]), JSON | LEAF, max_size=4)
