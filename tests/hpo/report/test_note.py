"""The note on a study's page: bounded whatever the space, and plain text stays plain text."""

import re
from dataclasses import replace

import pytest

from hpo.study.results.run import StudyRun
from hpo.study.view.making import view_of
from hpo.track.note import study_note
from hpo.track.views import fill_in
from hpo.trials.goal import finished
from hpo.trials.record.record import memory_record
from hpo.trials.trial import Outcome, Trial
from tests.studies import prepared, toy_config


def note(study, trials, state="ended"):
    view = view_of(StudyRun.of(study, memory_record(study.goal, study.layout, trials)), state)
    return study_note(view), view


def test_a_study_that_begins_says_what_it_searches(tmp_path):
    text, _ = note(prepared(tmp_path, toy_config()), [], "running")
    assert text.startswith("**No trial is finished yet.**")
    for words in ("Search by `random` in 3 hyperparameters", "0 of 12 trials", "hpo reproduce runs:/"):
        assert words in text


def test_a_study_of_failures_has_no_winner(tmp_path):
    failed = Trial(0, 0, {"toy.lr": 0.1}, {0: Outcome(error="no luck")}, "failed")
    text, view = note(prepared(tmp_path, toy_config()), [failed])
    assert view.why_none == "every trial failed, the first with: fold 0: no luck"
    assert text.startswith(f"**No winner:** {view.why_none}.")


def test_the_first_line_has_the_score_the_winner_and_how_to_reproduce_it(tmp_path):
    study = prepared(tmp_path, toy_config(objective="toy_data:score"))
    outcomes = {fold: Outcome({"score": score}) for fold, score in enumerate((0.1, 0.2, 0.3))}
    trials = [finished(Trial(0, 0, {"toy.lr": 3e-4}), outcomes, study.goal)]
    first, _, point, *_ = note(study, trials)[0].splitlines()
    best = "[trial 0](@@trial 0@@), score 0.2000 ± 0.1000** over 3 trainings"
    assert first.startswith(f"**Winner: {best}; again with `hpo reproduce ")
    assert point == "`toy.lr=3e-4`"
    assert note(study, trials, "running")[0].startswith(f"**Best so far: {best}")


def rows(text):
    lines = [line for line in text.splitlines() if line.startswith("| [")]
    numbers = [int(line.partition("]")[0].removeprefix("| [")) for line in lines]
    return numbers, [cell.strip() for cell in lines[0].split("|")[2:-1]]


def test_the_best_five_were_trained_longest_first_and_a_missing_value_is_empty(tmp_path):
    study = prepared(tmp_path, toy_config())
    points = [{"toy.layers": n, "toy.lr": 3e-4} for n in range(9)]
    points[7] = {"toy.layers": 7, "toy.width": 8}
    trials = [Trial(n, 0, point, amount=4 if n > 6 else 1) for n, point in enumerate(points)]
    trials = [finished(each, {0: Outcome({"score": each.number / 10})}, study.goal) for each in trials]
    expected = [8, 7, 6, 5, 4], ["&emsp;0.8000 to 4", "&emsp;8", "&emsp;3e-4", "&emsp;"]
    assert rows(note(study, trials)[0]) == expected


def test_of_several_metrics_the_chosen_one_has_all_the_front_its_first_members_and_limits_how_many(tmp_path):
    goal = {"metrics": {"score": "maximize", "size": "minimize"}, "limits": {"cost": 3.0}, "choose": "knee"}
    study = prepared(tmp_path, toy_config(study=toy_config()["study"] | goal))
    numbers = [(0.5, 20, 1), (0.4, 30, 1), (0.9, 90, 2), (0.1, 10, 3), (0.95, 5, 4)]
    outcomes = [Outcome(dict(zip(("score", "size", "cost"), each, strict=True))) for each in numbers]
    trials = [finished(Trial(n, 0, {"toy.layers": n}), {0: outcome}, study.goal) for n, outcome in enumerate(outcomes)]
    text, view = note(study, trials)
    head, _, chosen, limits, _ = text.split("\n\n", 4)
    assert head.startswith("**Winner: [trial 0](@@trial 0@@), score 0.5000, size 20")
    front = "The Pareto front: [3 trials](@@table@@-front)."
    assert chosen == f"Chosen as the knee of the front. {front}"
    assert limits == "Limits: cost ≤ 3; kept by 4 of 5 complete trials."
    assert rows(text)[0] == [each.trial for each in view.front]


def test_the_longest_note_fits_into_a_tag(tmp_path):
    names, keys = ([f"{letter * 80}{n}" for n in range(20)] for letter in "mn")
    tree = toy_config(space={"toy": {key: {"choices": ["v" * 300, "w" * 300]} for key in keys}})
    tree["toy"] |= dict.fromkeys(keys, "v" * 300)
    tree["study"] |= {"metrics": dict.fromkeys(names[:4], "maximize"), "limits": dict.fromkeys(names, -1e-300)}
    tree["study"] |= {"metric": names[0], "choose": dict.fromkeys(names[:4], 0.123456)}
    study = prepared(tmp_path, tree)
    point = {f"toy.{key}": "v" * 300 for key in keys}
    outcome = {0: Outcome({name: 1.23456e-100 * (1 + place) for place, name in enumerate(names)})}
    text, _ = note(study, [finished(Trial(n, 0, point), outcome, study.goal) for n in range(5)])
    page = f"#/experiments/123456/runs/{'r' * 32}"
    assert len(fill_in(text, "r" * 32, f"{page}?key={'s' * 32}", dict.fromkeys(range(5), page))) < 5000


@pytest.mark.parametrize("text", ["**bold**", "[x](http://evil)", "<script>", "`code`", "a_b_c", "# head"])
def test_names_of_data_are_plain_text(tmp_path, text):
    study = prepared(tmp_path, toy_config(objective="toy_data:score"))
    shown, view = note(replace(study, described=replace(study.described, name=text)), [], "running")
    assert view.data == text
    name = shown.partition("Data: ")[2].partition(" (development 81, test 9)")[0]
    assert re.sub(r"\\([\\`*_\[\]<>#])", "", name) == re.sub(r"[\\`*_\[\]<>#]", "", text)
