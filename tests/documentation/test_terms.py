"""One term for each idea: words that the project has replaced do not come back in code, configuration or documents."""

import re

from tests.studies import REPOSITORY

# The term to write, by the pattern of what it replaces.
TERMS = {
    r"\b(a|the|what|that|by) hands?\b(?! (out|on|over)\b)": "user action, or: the user",
    r"\btold apart\b": "significant, measurable difference",
    r"\bcourse of (a|the) search\b": "schedule",
    r"\b(freight|parcels?)\b": "transfer, files to transfer",
    r"\bcrews?\b": "worker group",
    r"\bglances?\b": "view",
    r"\b(looks?|looked|looking) on\b": "reader, read-only",
    r"\bsurroundings\b": "preflight checks",
    r"\bseal(s|ed|ing)?\b": "secret, redact",
    r"\bcompanions?\b": "optional functions",
    r"\bledgers?\b": "test log",
    r"\b(became|becomes|came) of\b": "outcome, result",
    r"\btrained to the end\b": "fully trained",
    r"\b(mended|repaired)\b": "fixed",
    r"\bgives up\b": "stops early",
    r"\bis counted in\b": "unit",
    r"\bkept functions?\b": "pickled function",
    r"\bopenings?\b(?= of (a|the|its|these) (test|data))": "test evaluation",
    r"\bbeside (a|the|all|its|this) (study|studies|record|folder)\b": "next to, with",
    r"\bwhoever\b": "the reader, the user, the driver",
}
PLACES = ("hpo/**/*.py", "model/**/*.py", "conf/**/*.yaml", "docs/**/*.md", "README.md", "CONTRIBUTING.md")


def test_replaced_terms_are_not_written():
    terms, found = {re.compile(old, re.IGNORECASE): new for old, new in TERMS.items()}, []
    for path in sorted({path for place in PLACES for path in REPOSITORY.glob(place)}):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            where = f"{path.relative_to(REPOSITORY)}:{number}"
            found += [f"{where}: {match[0]!r}: {new}" for old, new in terms.items() if (match := old.search(line))]
    assert not found, "\n".join(found)
