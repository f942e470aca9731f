"""The number REVISION of what decides trials is held: where results differ, the number must."""

import json

import pytest

from hpo.config.study_config import StudyConfig
from tests.contracts.revisions import references as held
from tests.contracts.revisions.__main__ import main

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


def test_a_value_that_reaches_no_training_as_it_was_proposed_is_noticed(monkeypatch):
    """The trials would be others, under the same points."""
    whole = StudyConfig.trial_config

    def thousandfold(self, point):
        return whole(self, point | {key: 1000 * width for key, width in point.items() if key == "toy.width"})

    monkeypatch.setattr(StudyConfig, "trial_config", thousandfold)
    name = "another seed"
    entry = REFERENCES["the search"][held.key_of("the search")]
    now = {name: held.cases("the search")[name]()}
    assert "trials 0 to" in held.differences("the search", {name: entry["cases"][name]}, now)[0]


def test_a_fraction_that_differs_is_noticed_and_rounding_is_not():
    before = [{"exact": "a", "sums": {"score": 2.0}}]
    for factor, num_lines in ((1 + 1e-9, 0), (1 + 1e-4, 1)):
        now = [{"exact": "a", "sums": {"score": 2.0 * factor}}]
        assert len(held.differences("random", {"one": before}, {"one": now})) == num_lines


def test_a_reference_that_is_there_is_not_written_over(capsys):
    before = held.PATH.read_bytes()
    assert main() == 2
    assert held.PATH.read_bytes() == before
    assert "not written over" in capsys.readouterr().err


def test_the_file_holds_nothing_but_numbers_that_can_be_read():
    assert json.loads(held.PATH.read_text()).keys() == held.revisions().keys()
