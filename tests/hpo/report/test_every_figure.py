"""Every figure of a report draws whatever a study may hold, or says in one line why it cannot."""

import json
import math

import pytest

from hpo.report.figures import FIGURE_TABLE, Drawn
from hpo.report.figures.axes import fence, few_ticks, log_ticks, short
from hpo.report.figures.score_over_values import draw_slices
from hpo.report.pages.html import templates
from hpo.report.pages.picture import draw_png
from hpo.report.part import Absent
from hpo.trials.goal import Goal, Limit
from hpo.trials.space.reader import space_from_dict
from hpo.trials.trial import TaskLayout
from tests.hpo.report.made_up import SPACE, of_several, scored, subject, trial

HOSTILE = "</script><img src=x onerror=alert(1)>"
ONE = space_from_dict({"layers": [1, 2, 3, 4]})
ODD = space_from_dict(
    {
        HOSTILE: {"choices": [True, 1, "1", None, 2.5, HOSTILE]},
        "n": {"choices": [3, 1, 2]},
        "single": [7],
        "count": {"low": 1, "high": 2, "integer": True, "log": True},
    }
)
SEVERAL = Goal(
    {"score": "maximize", HOSTILE: "minimize", "x": "minimize"}, (Limit(HOSTILE, 0.7), Limit("y", 0.3, is_least=True))
)
NARROW = Goal({"score": "maximize", "x": "minimize"}, (Limit("x", -1.0),))
LIMITED = Goal({"score": "maximize"}, (Limit("y", 0.5), Limit("score", 0.95)))
VALUES = ODD.dimensions[0].values
CASES = {
    "nothing yet": subject([]),
    "all failed": subject([trial(k, [None, 0.5]) for k in range(12)]),
    "one trial": subject([trial(0, [0.5], curve=[[0.1]])]),
    "two folds of one trial": subject([trial(0, [0.5, 0.6], curve=[[0.1, 0.2], []])]),
    "one dimension": subject([trial(k, [k / 20], at={"layers": 1 + k % 4}) for k in range(20)], space=ONE),
    "constant scores": subject([trial(k, [0.5], curve=[[0.5, 0.5]]) for k in range(20)]),
    "two scores": subject([trial(k, [float(k < 2)]) for k in range(20)]),
    "one value of each": subject([trial(k, [k / 20], at={"layers": 2}) for k in range(20)], space=ONE),
    "conditional": subject(scored(25)),
    "stopped": subject([*scored(12, folds=2), trial(12, [0.3], state="stopped"), trial(13, [None, 0.2])]),
    "only shorter than the winner": subject([trial(k, [k / 20], amount=1 + (k == 3)) for k in range(12)]),
    "odd choices": subject(
        [
            trial(k, [math.sin(k)], at={HOSTILE: VALUES[k % 6], "n": [3, 1, 2][k % 3], "single": 7, "count": 1 + k % 2})
            for k in range(30)
        ],
        space=ODD,
    ),
    "several metrics": subject(of_several(30, SEVERAL, folds=2), goal=SEVERAL, layout=TaskLayout(2)),
    "none within the limits": subject(of_several(12, NARROW), goal=NARROW),
    "one metric and a limit": subject(of_several(12, LIMITED), goal=LIMITED),
    "huge scores": subject([trial(k, [1e100 * (-1) ** k]) for k in range(12)]),
}


@pytest.mark.quick("conditional", "one value of each")
@pytest.mark.slow(
    "several metrics", "one metric and a limit", "stopped", "odd choices", "two scores", "only shorter than the winner"
)
@pytest.mark.nightly
@pytest.mark.parametrize("case", CASES)
def test_every_figure_is_drawn_or_says_in_one_line_why_not(case):
    for name, _, _, draw in FIGURE_TABLE:
        content = draw(CASES[case])
        if isinstance(content, Absent):
            assert content.reason, name
            assert "\n" not in content.reason
            continue
        assert content.figure.data, name
        assert content.caption
        place = templates().get_template("pieces.html").module.figure(name, content.figure)
        assert "<img" not in place
        data = place.partition("application/json")[2].partition(">")[2].removesuffix("</script>")
        assert {"data", "layout"} == set(json.loads(data, parse_constant=pytest.fail))
        assert (draw_png(content.figure) is None) == (name == "contours")


def test_where_nothing_is_there_all_that_needs_scores_is_refused():
    drawn = {name for name, _, _, draw in FIGURE_TABLE if isinstance(draw(CASES["all failed"]), Drawn)}
    assert drawn == {"timeline"}
    assert not any(isinstance(draw(CASES["nothing yet"]), Drawn) for _, _, _, draw in FIGURE_TABLE)


def test_equal_looking_choices_stay_apart_and_in_their_order():
    content = draw_slices(CASES["odd choices"])
    panel = next(axis for axis in content.figure.select_xaxes() if "alert" in axis.title.text)
    assert list(panel.categoryarray)[:5] == ["True", "1", "'1'", "None", "2.5"]
    assert SPACE.keys[0] == "lr"


def test_ticks_are_written_out_and_fit_side_by_side():
    assert log_ticks([15, 480])["ticktext"] == ["10", "20", "50", "100", "200", "500", "1000", "2000", "5000"]
    assert log_ticks([1e-6, 1.0], 4)["ticktext"] == ["1e-06", "0.0001", "0.01", "1"]
    for room in (8, 20, 80):
        ticks = few_ticks([str(2**k) for k in range(15)], room)
        assert sum(len(text) + 2 for text in ticks["ticktext"]) <= room
        assert [str(2**k) for k in ticks["tickvals"]] == ticks["ticktext"]
    assert few_ticks(["<b>"], 10)["ticktext"] == ["&lt;b&gt;"]
    assert short("model.very_long_name", 10) == "…long_name"


def test_far_out_is_what_lies_three_times_the_quartiles_distance_beyond_them():
    assert fence([*range(101)]) == (0, 100)
    assert fence([*range(101), 225, 240]) == (0, 225)
    assert fence([5.0]) == (5.0, 5.0)
