"""What a report says is what a reproduction checks: every number that its trainings give, and the rest is named."""

import json
import re
import shutil
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest

import hpo as toolkit
from hpo.errors import StudyError
from hpo.report.reproduced import (
    is_number,
    leaves,
    refuse_contradictions,
    refuse_other_study,
    reported_numbers,
    unchecked,
)
from hpo.study.files.folder import StudyFolder
from hpo.study.reproduce.again import Repetition, reproduce
from hpo.study.reproduce.recorded import read_files, read_recorded
from tests.hpo.cli.commands import hpo, refused
from tests.studies import run_toy, toy_config


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Make a study with three folds once; return its folder."""
    folder = tmp_path_factory.mktemp("made") / "runs" / "made"
    tree = toy_config("random", trials=4, objective="tests.toy_data:noisy")
    tree |= {"study": tree["study"] | {"name": "made"}, "split": tree["split"] | {"folds": 3}}
    run_toy(folder, tree)
    return folder


@pytest.fixture
def place(made, monkeypatch, tmp_path):
    """Go where a copy of the study lies; return its folder."""
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(made, tmp_path / "runs" / "made")).relative_to(tmp_path)


def changed(folder, key, value):
    """Change one value of the report; return it as a file of its own, too."""
    report = json.loads((folder / "report.json").read_text())
    put(report, key, value)
    for path in (folder / "report.json", Path("mailed.json")):
        path.write_text(json.dumps(report))


def put(tree, key, value):
    """Write a value, or what a function makes of the one before, at a dotted key; names may have dots themselves."""
    for name in tree if isinstance(tree, dict) else map(str, range(len(tree))):
        place = name if isinstance(tree, dict) else int(name)
        if key == name:
            tree[place] = value(deepcopy(tree[place])) if callable(value) else value
        elif key.startswith(f"{name}."):
            put(tree[place], key.removeprefix(f"{name}."), value)


@pytest.mark.quick("best_so_far.trials.-1.score-made")
@pytest.mark.slow
@pytest.mark.parametrize("study", ["made", "mailed.json"])
@pytest.mark.parametrize(
    "key",
    [
        *("winner.score", "winner.n", "winner.standard_deviation", "top.0.score", "best_so_far.trials.-1.score"),
        *("best_so_far.seconds.-1.score",),
    ],
)
def test_a_number_that_its_trainings_do_not_give_is_said_and_ends_in_exit_code_1(capsys, place, study, key):
    report = json.loads((place / "report.json").read_text())
    if "-1" in key:
        key = key.replace("-1", str(len(report["best_so_far"]["trials"]) - 1))
    changed(place, key, lambda value: value + 1)
    code, out, _ = hpo(capsys, "reproduce", study)
    assert code == 1
    assert f"report.json: {key} is " in out
    assert out.count("<-- not reproduced") == 1
    assert "not reproduced: 0 of 3 trainings differ, and 1 of " in out


def test_a_value_that_the_trainings_do_not_give(capsys, place):
    changed(place, "winner.values", lambda values: values | {"fold_1": 7.5})
    out = hpo(capsys, "reproduce", "made")[1]
    assert "report.json: winner.values.fold_1 is 7.5, the trainings give " in out


def test_where_only_some_folds_are_trained_the_others_are_as_recorded(capsys, place):
    code, out, _ = hpo(capsys, "reproduce", "made", "--folds", "1")
    assert (code, "compared with the recorded values" in out) == (0, True)
    changed(place, "winner.score", 0.93)
    code, out, _ = hpo(capsys, "reproduce", "made", "--folds", "1")
    assert (code, "winner.score is 0.93, the recorded values give " in out) == (1, True)


def test_what_a_tolerance_allows_for_trainings_it_does_not_for_a_headline(capsys, place):
    changed(place, "winner.score", lambda score: score * 1.001)
    assert hpo(capsys, "reproduce", "made", "--tolerance", "0.1")[0] == 1


@pytest.mark.parametrize("study", ["made", "mailed.json"])
@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("format", 99, "its format is 99, not 1: it was made by a later version"),
        ("winner.score", float("nan"), "winner.score must be a finite number below 1e300, given nan"),
        ("study.seed", 7, "study.seed is 7, but the configuration of the study has 0"),
        ("winner.values", lambda values: values | {"fold_9": 0.5}, "winner.values.fold_9 is no task of the study"),
        ("winner.point", lambda point: point | {"toy.depth": 9}, "winner.point is not the point of trial"),
        ("metric.direction", "minimize", "metric.direction is 'minimize'"),
    ],
)
def test_what_contradicts_the_study_is_refused_by_name(capsys, place, study, key, value, says):
    changed(place, key, value)
    # The format is compared first, by the path of the file.
    path = study if study.endswith(".json") else "runs/made/report.json"
    file = path if key == "format" else "report.json"
    assert f"error: {file}: {says}" in refused(capsys, "reproduce", study)


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("study.budget.trials", 400, "study.budget.trials is 400, but the configuration of the study has 4"),
        ("strategy.name", "tpe", "strategy.name is 'tpe', but the configuration of the study has 'random'"),
        ("fixed.toy.always", 9, "fixed.toy.always is 9, but the configuration"),
        ("space_size", 7, "space_size is 7, but the study has "),
        ("data.split.folds.1.train", 7, "data.split.folds.1.train is 7, but the study has "),
        ("data.size", 7, "data.size is 7, but the study has "),
        ("winner.run.trial", 77, "winner.run.trial is 77"),
        ("config.toy.always", 9, "config.toy.always is 9, but the configuration of the study has "),
        ("top.1.point", {}, "top.1.point is not the point of trial "),
        ("winner.score", 10**301, "winner.score must be a finite number below 1e300, given 1000"),
        ("counts.proposed", 10**301, "counts.proposed must be a finite number below 1e300, given 1000"),
        ("cost.wall_seconds", float("inf"), "cost.wall_seconds must be a finite number below 1e300, given inf"),
        ("winner.values.fold_0", "nan", "winner.values.fold_0 must be a finite number below 1e300, given 'nan'"),
        ("winner.values.fold_0", 1e308, "winner.values.fold_0 must be a finite number below 1e300, given 1e+308"),
        ("winner.values.fold_0", None, "winner.values.fold_0 must be a finite number below 1e300, given None"),
        ("winner.values", {}, "winner.values.fold_"),
        ("winner.values", None, "winner.values.fold_"),
        ("winner.score", True, "winner.score must be a finite number below 1e300, given True"),
    ],
)
def test_what_a_report_repeats_in_another_way_or_is_no_number_is_refused(recorded, key, value, says):
    report = deepcopy(dict(recorded.files.report))
    put(report, key, value)
    with pytest.raises(StudyError, match=re.escape(f"report.json: {says}")):
        refuse(recorded, report)


@pytest.mark.nightly
def test_no_number_of_a_report_is_silently_false(recorded):
    """Each is refused, differs from what was compared, or lies below a key that is named as not checked."""
    numbers = [(key, value) for key, value in leaves(recorded.files.report) if is_number(value)]
    assert len(numbers) > 100
    silent = []
    for key, value in numbers:
        report = deepcopy(dict(recorded.files.report)) | {"of_a_later_version": [{"at": 1}]}
        put(report, key, value + 1)
        report["study"]["of_a_later_version"] = 3
        try:
            edited = refuse(recorded, report)
        except StudyError:
            continue
        figures = reported_numbers(edited, as_recorded(edited))
        named = unchecked(edited, figures)
        assert {"of_a_later_version", "study.of_a_later_version"} <= {*named}
        if all(figure.holds for figure in figures) and not any(f"{key}.".startswith(f"{name}.") for name in named):
            silent.append(key)
    assert silent == []
    assert len(named) < 20


@pytest.fixture(scope="module")
def recorded(made):
    """Read the study once."""
    return replace(read_recorded(read_files(StudyFolder(made))), is_same_study=True)


def refuse(recorded, report):
    """Return the study with another report, where that contradicts nothing."""
    refuse_contradictions(report, recorded.study.config)
    edited = replace(recorded, files=replace(recorded.files, report=report))
    refuse_other_study(edited)
    return edited


def as_recorded(recorded):
    """Return trainings of the winner with the recorded scores."""
    layout, row = recorded.study.layout, recorded.winner
    values = {layout.name(index): float(row[layout.name(index)]) for index in range(layout.size)}
    return [Repetition(int(row["number"]), name, value, value, None) for name, value in values.items()]


@pytest.mark.parametrize(("key", "value"), [("winner.values.fold_0", "nan"), ("winner.amount", 10**301)])
def test_what_is_no_number_in_a_report_alone_is_refused_in_one_line(capsys, place, key, value):
    changed(place, key, value)
    assert f"error: report.json: {key} is " in refused(capsys, "reproduce", "mailed.json")


@pytest.mark.parametrize("text", ["nan", "1e999", "1e308", ""])
def test_what_is_no_score_in_trials_csv_is_refused(recorded, text):
    row = {**recorded.winner, "fold_0": text}
    with pytest.raises(StudyError, match=r"trials.csv: trial \d+: fold_0 must be a finite number, given "):
        reproduce(replace(recorded, rows=[row], winner=row), "best", None, print)


def test_a_winner_that_is_no_trial_of_the_study_is_refused(capsys, place):
    changed(place, "winner.number", 77)
    assert "winner.number is 77, but no complete trial has this number" in refused(capsys, "reproduce", "made")


def test_what_does_not_follow_from_the_trainings_is_named(capsys, place):
    code, out, _ = hpo(capsys, "reproduce", "made")
    assert code == 0
    (line,) = (line for line in out.splitlines() if line.startswith("not checked: "))
    assert {"top,", "cost", "winner.num_parameters,"} & {*line.split()} >= {"top,"}
    assert "reproduced: all 3 trainings, and " in out
    code, out, _ = hpo(capsys, "reproduce", "made", "--trial", "all")
    (line,) = (line for line in out.splitlines() if line.startswith("not checked: "))
    assert (code, "top" in line) == (0, False)


def test_from_python_a_number_that_differs_is_a_row_and_the_unchecked_are_named(place):
    changed(place, "winner.score", 0.93)
    found = toolkit.reproduce("made", progress=False)
    assert not found.is_reproduced
    assert list(found.table[~found.table["holds"]]["name"]) == ["report.json: winner.score"]
    assert "cost" in found.not_checked


@pytest.mark.slow
def test_the_checklist_says_whether_a_reproduction_was_tried_and_what_it_found(capsys, place):
    def told():
        assert hpo(capsys, "report", "made", "--checklist")[0] == 0
        lines = {(place / name).read_text() for name in ("checklist.md", "report.md", "report.html")}
        plain = [re.sub(r"`|</?code>", "", text) for text in lines]
        (found,) = {re.search(r"Reproduction: (.*?)\.(?:\n|</p>)", text)[1] for text in plain}
        return found.partition("; changed since: ")[0]

    assert told() == "not tried (hpo reproduce made)"
    winner = json.loads((place / "report.json").read_text())["winner"]["number"]
    assert hpo(capsys, "reproduce", "made")[0] == 0
    assert re.fullmatch(rf"tried on [\d-]{{10}}: all 3 trainings of trial {winner} equal to the last bit", told())
    changed(place, "winner.score", 0.93)
    assert hpo(capsys, "reproduce", "made", "--trial", "all", "--folds", "1")[0] == 1
    assert told().endswith("equal to the last bit; 1 different number in the report")
    assert "all 4 trainings of 4 trials, on fold 1 alone" in told()
    (place / "reproduction.json").write_text("{}")
    assert "reproduction.json: the file is not a result of `hpo reproduce`; remove" in refused(capsys, "report", "made")


@pytest.mark.slow
def test_a_finding_is_noted_only_where_the_study_was_made(capsys, monkeypatch, place):
    shutil.copy(place / "report.json", "mailed.json")
    assert hpo(capsys, "report", "made", "--publish")[0] == 0
    for study in ("mailed.json", "studies/made"):
        assert hpo(capsys, "reproduce", study)[0] == 0
    monkeypatch.setenv("XDG_STATE_HOME", str(Path("state").absolute()))
    assert hpo(capsys, "reproduce", "made", "--trust")[0] == 0
    assert not list(Path.cwd().rglob("reproduction.json"))
