"""The number REVISION of what decides trials is held: where results differ, the number must."""

import pytest

from tests.contracts.revisions import references as held

REFERENCES = held.read()
QUICK = ("grid", "random", "hpo.objectives.*")


@pytest.mark.quick(*QUICK)
@pytest.mark.slow
@pytest.mark.parametrize("part", held.revisions())
def test_results_are_those_of_the_revision(part):
    key = held.key_of(part)
    entry = REFERENCES.get(part, {}).get(key)
    assert entry, f"revision {key} of {part} has no reference; write it by: python -m tests.contracts.revisions"
    if entry["versions"] != held.versions_of(part):
        pytest.skip(f"the reference is of {entry['versions']}")
    lines = held.differences(part, entry["cases"], held.found(part))
    assert not lines, f"raise REVISION of {part}, or undo the change: " + "; ".join(lines)
