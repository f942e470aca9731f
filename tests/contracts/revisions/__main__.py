"""Write the reference of a new number: `python -m tests.contracts.revisions`; no other is written over."""

import json
import sys

from tests.contracts.revisions.references import PATH, found, key_of, read, revisions, versions_of


def main():
    """Write what is missing, and say what; return 2 where nothing is."""
    written, references = [], read()
    for part in revisions():
        entries = references.setdefault(part, {})
        if (key := key_of(part)) not in entries:
            entries[key] = {"versions": versions_of(part), "cases": found(part)}
            written.append(f"{part} ({key})")
    if not written:
        sys.stderr.write("each number has its reference, which is not written over; raise a REVISION first\n")
        return 2
    PATH.write_text(json.dumps(references, separators=(",", ":"), sort_keys=True).replace('},"', '},\n"') + "\n")
    sys.stdout.write(f"written: {', '.join(written)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
