"""What a report says of the machine, and of the code, that a study was started on."""

from hpo.report.sections.cost import describe_environment
from hpo.study.basis import environment


def test_what_does_not_exist_is_said_in_words_and_the_number_of_the_form_is_left_out():
    given = {
        **environment.describe_environment(),
        "cuda": None,
        "gpus": [],
        "driver": None,
        "commit": None,
        "is_dirty": False,
    }
    described = describe_environment({"format": 1, **given})
    assert described.keys() == given.keys() - {"format"}
    assert [described[key].partition(":")[0] for key in ("cuda", "gpus", "driver")] == ["none"] * 3
    assert (
        described["commit"] == described["is_dirty"] == {"missing": "the study was not started inside a git repository"}
    )
