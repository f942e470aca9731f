"""One number for the form of everything that is written, and one place that knows older forms."""

import pytest

from hpo.errors import StudyError
from hpo.study.upgrade import FORMAT, upgraded


def test_todays_form_is_returned_as_it_is():
    document = {"format": FORMAT, "a": [1, {"b": 2}]}
    assert upgraded("report", document, "runs/x") == document


@pytest.mark.parametrize("document", [{}, {"format": None}, {"format": "1"}, {"format": True}, {"format": 0}])
def test_what_was_made_before_the_first_release_is_refused(document):
    with pytest.raises(StudyError) as raised:
        upgraded("study", document, "runs/x")
    line = str(raised.value)
    assert line.startswith("runs/x: its format is ")
    assert f", not {FORMAT}: it was made before the first release; finish it with the commit that made it" in line
    assert "start it again" in line


def test_a_later_form_is_refused_with_both_numbers():
    with pytest.raises(StudyError, match=f"its format is {FORMAT + 1}, not {FORMAT}: it was made by a later version"):
        upgraded("status", {"format": FORMAT + 1}, "runs/x/status.json")


def test_an_older_form_is_rewritten_step_by_step():
    """With invented steps, until a release has a first one: from 1 by way of 2, where nothing changes, to 4."""
    steps = {
        ("report", 1): lambda document: {"winner": document["best"]},
        ("report", 3): lambda document: document | {"winner": {"number": document["winner"]}},
        ("status", 1): lambda _: {},
    }
    document = {"format": 1, "best": 7}
    assert upgraded("report", document, "runs/x", steps, to=4) == {"format": 4, "winner": {"number": 7}}
    assert document == {"format": 1, "best": 7}
    assert upgraded("report", {"format": 3, "winner": 7}, "runs/x", steps, to=4)["winner"] == {"number": 7}
