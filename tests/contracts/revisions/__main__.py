"""Write the references of new numbers and new cases: `python -m tests.contracts.revisions`; none is written over."""

import json
import sys

from tests.contracts.revisions.references import PATH, cases, key_of, read, revisions, versions_of


def main():
    written, references = [], read()
    for part in revisions():
        key = key_of(part)
        there = references.setdefault(part, {}).setdefault(key, {"versions": versions_of(part), "cases": {}})["cases"]
        if missing := {name: run for name, run in cases(part).items() if name not in there}:
            there |= {name: run() for name, run in missing.items()}
            written.append(f"{part} ({key})")
    if not written:
        sys.stderr.write(
            "each case of each number has its reference, which is not written over; raise a REVISION first\n"
        )
        return 2
    PATH.write_text(json.dumps(references, separators=(",", ":"), sort_keys=True).replace('},"', '},\n"') + "\n")
    sys.stdout.write(f"written: {', '.join(written)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
