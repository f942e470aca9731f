"""What the commands do, from Python: a method of `Study` has the signature of its command; and the list of studies."""

import contextlib
import inspect
import json
import os
import re
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pandas as pd
import pytest

import hpo
from hpo.cli.described import describe
from hpo.cli.main import FUNCTIONS, function_of, main
from hpo.commands.arguments import write_output
from hpo.commands.evaluation import Evaluation
from hpo.commands.remove import remove
from hpo.commands.show import FIELDS, studies
from hpo.commands.study import Study
from hpo.config.documents import json_line
from hpo.study.files.status import read_status
from tests.hpo.cli import commands
from tests.hpo.commands.searched import HERE, found, refuses
from tests.hpo.study.test_status import KEPT
from tests.studies import REPOSITORY, StudyFolder


def table():
    words = ("data=table", f"data.path={commands.TABLE}", "data.metric=accuracy_*", "dispatch=local")
    return hpo.compose(*words, "study.trials=8", "study.name=looked_up")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    with contextlib.chdir(folder):
        hpo.search(table(), settings=HERE | {"study.finalists": 2}, progress=False)
    return folder


@pytest.fixture
def study(made):
    shutil.copytree(made / "runs", "runs")
    return hpo.load("looked_up")


@pytest.mark.slow
def test_a_function_is_compared_with_the_arguments_of_a_search_and_its_report_says_so():
    given = {"space": {"x": (0.0, 1.0)}, "trials": 3, "metric": "gain", "direction": "maximize"}
    compare = {"strategies": ["random", {"name": "evolutionary", "population": 4}], "repeats": 2}
    offer = "hpo.compare_strategies(train, space, "

    def train(config, trial):
        return {"gain": config["x"] + trial.seed % 7}

    compared = hpo.compare_strategies(train, **given, **compare, settings={"dispatch": "local"})
    assert (compared.folder.name, compared.pairs.budget.tolist()) == ("compare-train", [3])
    with pytest.raises(hpo.HpoError, match=r"the function changed .* choose another name"):
        hpo.compare_strategies(lambda config: 1.0, **given, **compare, name="compare-train")
    for name in ("train", "other"):
        report = found(train, **given, name=name).report().page.with_suffix(".json").read_text()
        assert (offer in report) == (name == "other"), "a comparison that there is already is not offered"


@pytest.mark.slow
def test_the_command_that_a_report_recommends_for_a_comparison_is_not_refused(study):
    says = json.loads((study.folder / "report.json").read_text())["comparison"]["missing"]
    assert main([*says.partition("repeat it: hpo ")[2].split(), "--repeats", "1"]) == 0


def test_what_the_commands_refuse_is_refused_from_python(study):
    compared = hpo.compose("objective=toys:raises", "data=none", "model=none", "training=none", "+space.x=[1,2]")
    fails = ("objective=toys:raises", "data=none", "model=none", "training=none", "study.metric=score")
    Path("old.csv").write_text("score,lr\n1.0,0.1\n")
    for call, says in (
        (lambda: study.extend({"data.pth": "x"}), "changes: there is no 'data.pth'; did you mean 'data.path'"),
        (lambda: study.resume(9, name="copy", progress="quiet"), "progress: must be auto, json, none, True or False"),
        (lambda: study.reproduce(tolerance=-1), "tolerance: must be at least 0 and below 1, given -1"),
        (lambda: study.reproduce(folds=[[0]]), "folds: must be a list of fold numbers, such as [0, 1], given [[0]]"),
        (lambda: study.report(figures="no"), "report.figures: must be a valid boolean, given 'no'"),
        (lambda: hpo.import_trials("old", csv="old.csv", direction="up"), "direction: must be maximize or minimize"),
        (lambda: hpo.import_trials("old", csv="old.csv", keys="lr"), "keys: must be a list of columns, given 'lr'"),
        (lambda: hpo.import_trials("old", csv="a.csv", optuna="sqlite:///a.db"), "given optuna, csv"),
        (lambda: hpo.compare_studies("looked_up"), "names: must be a list of studies, given 'looked_up'"),
        (lambda: hpo.train("training.epoch=1"), "did you mean"),
        (lambda: hpo.train(*fails, progress=False), "train: the training failed: ValueError at toys.py"),
        (lambda: study.extend({"study.seed": 1}, best=0), "best: must be 1 or more, given 0"),
        (lambda: study.resume(9, ["study.trials=8"]), "study.trials=8 is given as an override, and study.trials"),
        (lambda: study.resume(6, settings={"study.trials": 8}), "study.trials: must be set once, given 6 as "),
        (lambda: study.extend(best=3, trials=[0]), "best: has no effect if the trials are given"),
        (lambda: hpo.scale_table("data=digits", over="hight"), "over: must be width or depth, given 'hight'"),
        (lambda: hpo.load(3), "there is no '3'"),
        (lambda: hpo.compare_studies([study, hpo.load(study)]), "the studies must have different names, given 'looke"),
        (lambda: hpo.reproduce(study, tolerance=2), "tolerance: must be at least 0"),
        (lambda: hpo.compare_strategies(max, strategies="grid"), "strategies: must be a list or a dict, such as"),
        (lambda: hpo.compare_strategies(max, strategies=["tpe", {"name": "tpe"}]), "strategies: 'tpe' is listed twice"),
        (lambda: hpo.compare_strategies(compared, strategies={"../a": "grid", "b": "tpe"}), "'-', given '../a'"),
        (lambda: study.retry(99), "trial: trial 99 does not exist; give a failed trial that has no retry (none)"),
        (lambda: study.plot("contours"), "figure: contours has nothing to show: "),
        (lambda: Evaluation(study, {}, Path(), None).front, "to score the whole front, test with `front=True`"),
        (lambda: write_output(Path("no/x"), ""), "output: 'no/x' cannot be written: No such file or directory"),
    ):
        refuses(re.escape(says), call)
    assert not Path("runs/old").exists()


def test_what_another_process_did_to_a_study_is_said(monkeypatch, study):
    folder, other = StudyFolder(study.folder), StudyFolder(Path("runs/other"))
    for name in ("first", "first/inner", "other"):
        shutil.copytree("runs/looked_up", f"runs/{name}")
    with other.lock():
        for holder, says in {"7 on elsewhere": "now: process 7 ", f"{2**30} on {os.uname()[1]}": "not running"}.items():
            Path("runs/other/driver.lock").write_text(f"process {holder}")
            refuses(says, lambda: hpo.load("other").stop(now=True))
        refuses("callbacks: has no effect while the study", hpo.load("other").resume, 9, callbacks=[print])
    refuses("inner; already removed before the error: removed", lambda: remove(["first", "runs/first/inner"], yes=True))
    shutil.rmtree(other.path)
    monkeypatch.setattr("hpo.commands.remove.delete_study", lambda *_: hpo.load("nobody"))
    refuses("; the study's folder is unchanged; to remove only the folder, ", lambda: remove(["looked_up"], yes=True))
    folder.described_path.rename("described")
    refuses("runs/looked_up/described.json: is missing; restore the file", study.export, "sqlite:///there.db")
    Path("described").rename(folder.described_path)
    (study.folder / "report.json").unlink()
    commands.change_row(folder.trials_path, 0, state="running")
    refuses("replay: runs/looked_up/trials.csv has no finished trial to compare with", study.replay)


@pytest.mark.slow
def test_a_study_is_replayed_reproduced_of_its_report_alone_compared_and_exported(study, tmp_path):
    assert len(study.replay("dispatch=local", "track=none", progress=False)) == 0
    assert len(hpo.load("looked_up-replay").trials) == 8
    assert set(study.report_schema()["required"]) <= set(json.loads((study.folder / "report.json").read_text()))
    again = hpo.reproduce(shutil.copy(study.folder / "report.json", tmp_path / "report.json"), folds=[0]).table
    assert (again["name"].tolist(), again["holds"].all()) == (["fold_0"], True)
    assert set(hpo.compare_studies([study, Path("runs/looked_up-replay")]).pairs.fold) == {"fold_0", "fold_1", "fold_2"}
    assert study.export(url := f"sqlite:///{tmp_path / 'there.db'}").trials == 8
    assert len(pd.read_csv(hpo.import_trials("back", optuna=url))) == 8
    given = {"csv": "runs/looked_up/trials.csv", "keys": list(study.best.point), "direction": "maximize"}
    assert len(pd.read_csv(hpo.import_trials("old", **given))) == 8


def test_a_search_runs_in_another_thread_too():
    with ThreadPoolExecutor() as pool:
        study = pool.submit(lambda: hpo.search(table(), settings=HERE, progress=False)).result()
    assert len(study.trials) == 8


def test_the_report_is_written_with_the_options_that_are_given(study):
    page = study.report(publish=True, checklist=True, latex=True, figures=True, title="Which kernel?").page
    assert json.loads(page.with_suffix(".json").read_text())["study"]["title"] == "Which kernel?"
    assert {"checklist.md", "tables.tex"} <= {path.name for path in study.folder.iterdir()}
    assert "best-so-far" in page.read_text()
    assert "best-so-far" not in study.report(figures=False).page.read_text()


def test_what_was_published_is_read_and_does_not_go_on(study):
    study.report(publish=True)
    published = hpo.load("studies/looked_up")
    files = {path.name for path in published.folder.iterdir()}
    assert "report.json" in files
    for go_on in (lambda: published.add(study.best.point), published.resume, published.report):
        refuses("studies/looked_up was published without its record", go_on)
    assert {path.name for path in published.folder.iterdir()} == files


# The shell's `watch` runs until the search has ended; Python's shows the page in a cell and returns. `hpo train` trains
# any configuration, `Study.train` the winner.
METHODS = [name for name in FUNCTIONS if callable(getattr(Study, name, None)) and name not in {"watch", "train"}]


def shape(parameters):
    return [(each.name, each.kind, each.default) for each in parameters]


@pytest.mark.parametrize("name", METHODS)
def test_a_method_has_the_signature_of_its_command(name):
    # A shell has a function of its own where Python has no prompt, or needs no option that says which of two things.
    of_shell = function_of(name)
    method, function = getattr(Study, name), getattr(sys.modules[of_shell.__module__], name, of_shell)
    _, *of_function = inspect.signature(function).parameters.values()
    _, *of_method = inspect.signature(method).parameters.values()
    shell_only = {each.name for each in describe(function).parameters if each.word.is_shell_only}
    assert shape(of_method) == shape(each for each in of_function if each.name not in shell_only)
    described = inspect.getdoc(method).partition("\nArgs:\n")[2].partition("\n\n")[0]
    assert set(re.findall(r"^ {4}(\w+): ", described, re.MULTILINE)) <= {each.name for each in of_method}


PUBLISHED = REPOSITORY / "studies"


@pytest.fixture
def runs(tmp_path):
    """Return a folder with studies of every state but running, and with folders that are no studies."""
    runs = tmp_path / "runs"
    same = {"format": 1, "state": "ended", "metrics": {"loss": "minimize"}, "budget": 4, "best": 0, "done": 4}
    for place, name in enumerate(("clock", "folds", "halving")):
        shutil.copytree(KEPT, runs / name)
        values = same | {"name": name, "strategy": name, "begun": 1e9 + place, "trials": {"complete": 4}}
        failed = {"state": "failed", "error": "no memory\x1b[31m", "scores": {}}
        values |= failed if name == "folds" else {"scores": {"loss": 0.5 - place / 10}}
        (runs / name / "status.json").write_text(json.dumps(values))
        (runs / name / "study.db").write_bytes(b"no database")
        (runs / name / "config.yaml").write_text("no: study")
    (runs / "compare-a").mkdir()
    (runs / "a file").touch()
    shutil.copytree(KEPT, runs / "foreign")
    (runs / "foreign/status.json").write_text("hello")
    (runs / "link").symlink_to(runs / "clock")
    os.utime(runs / "foreign", (1e8, 1e8))
    return runs


def names(*arguments, **options):
    return [view.study for view in studies(*arguments, **options).studies]


def test_every_study_is_listed_the_newest_first_whatever_its_state(runs):
    found = {view.study: view for view in studies(runs).studies}
    states = {"link": "unreadable", "halving": "ended", "folds": "failed", "clock": "ended", "foreign": "unreadable"}
    assert [(name, view.state) for name, view in found.items()] == [*states.items()]
    assert ("status.json" in found["foreign"].error, "is a link" in found["link"].error) == (True, True)
    assert found["halving"].size == sum(path.stat().st_size for path in (runs / "halving").rglob("*") if path.is_file())


@pytest.mark.parametrize(("where", "expected"), [
    ("strategy!=halving and state!=unreadable", ["folds", "clock"]), ("score<0.4", ["halving"]),
    ("date>=2001 and date<2002", ["halving", "folds", "clock"]), ("error~memory", ["folds"]),
    ("(name~c or name='halving') and score!=none", ["halving", "clock"]),
    ("date<2001-09-08 or date>'2100-01-01 10'", ["foreign"]), ("not score<0.4", ["link", "folds", "clock", "foreign"]),
    ("name=clock or name=folds and score<0", ["clock"]), ("score=none and not state=unreadable", ["folds"]),
    ("not name=clock and name=clock or score<0.4", ["halving"]),
])  # fmt: skip
def test_conditions(runs, where, expected):
    assert names(runs, where=where) == expected


def test_a_field_sorts_and_studies_without_a_value_come_last(runs):
    assert [names(runs, sort=by)[:2] for by in ("score", "-score")] == [["halving", "clock"], ["clock", "halving"]]
    assert set(names(runs, sort="-score")[2:]) == {"link", "folds", "foreign"}
    assert names(runs, sort="-name") == sorted(names(runs), reverse=True)
    refuses("sort: must be one of name", hpo.studies, sort="best_score")


@pytest.mark.parametrize(("where", "says"), [
    ("scor>0.9", "did you mean 'score'?"), ("score~0.9", "the operator after score must be one of =, !=, <"),
    ("score>x", "score must be a number, given 'x'"), ("score>1 '", "cannot be read"), ("score<1<2", "cannot be read"),
    ("strategy>a", "the operator after strategy must be one of =, !=, ~"),
    ("state=end", "given 'end'; did you mean 'ended'?"), ("", "FIELD OPERATOR VALUE"),
    ("date>yesterday", "date must be a time, such as 2026-11-27"), ("date>2026-13", "date must be a time, such as"),
    ("(" * 5000 + "score>1" + ")" * 5000, "FIELD OPERATOR VALUE"),
])  # fmt: skip
def test_a_condition_that_cannot_be_read_is_refused(capsys, where, says):
    assert says in commands.refused(capsys, "list", "--where", where, is_silent=True)


def test_one_is_found_by_its_tags(capsys, runs):
    assert commands.hpo(capsys, "note", "halving", "--tag", "phase=final", "--tag", "paper")[0] == 0
    for where in ("tags~paper", "tags~'phase=final'", "tags!=none"):
        assert names(runs, where=where) == ["halving"]


def test_one_that_is_removed_meanwhile_is_left_out(runs, monkeypatch):
    def removed(folder):
        shutil.rmtree(runs / "folds", ignore_errors=True)
        return read_status(folder)

    monkeypatch.setattr("hpo.study.view.from_status.latest_status", removed)
    assert "folds" not in names(runs)


def test_a_running_one_says_by_which_process(runs):
    with StudyFolder(runs / "clock").lock():
        (clock,) = studies(runs, "name=clock").studies
    assert (clock.state, clock.process.process, clock.process.host) == ("running", os.getpid(), os.uname().nodename)


def test_the_command_prints_a_line_a_study_and_one_object_for_programs(capsys, runs):
    code, out, err = commands.hpo(capsys, "list", "--sort", "-score")
    lines = out.splitlines()
    assert (code, err, "\x1b" in out) == (0, "", False)
    assert [line.split()[0] for line in lines[:3]] == ["study", "clock", "halving"]
    assert any(line.startswith("folds: no memory") for line in lines)
    (view,) = studies(Path("runs"), "score<0.4").studies
    listed = {"in": str(runs), "studies": [json.loads(json_line(view.to_dict()))]}
    assert commands.printed(capsys, "list", "--where", "score<0.4")[0] == listed


@pytest.mark.parametrize("width", [70, 200])
def test_at_a_terminal_the_table_is_as_wide_as_that(capsys, monkeypatch, width):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    header, *lines = re.sub("\x1b.*?m", "", commands.hpo(capsys, "list", "--in", str(PUBLISHED))[1]).splitlines()
    assert len(lines) == len(studies(PUBLISHED).studies)
    assert (max(map(len, lines)) <= width, "size" in header) == (True, width == 200)


def test_where_there_is_none(capsys):
    assert commands.hpo(capsys, "list") == (0, "no study in runs; start one with `hpo search`\n", "")
    assert "there is no folder nowhere" in commands.refused(capsys, "list", "--in", "nowhere", is_silent=True)
    assert ([*hpo.studies().table.columns], list(Path().iterdir())) == ([*FIELDS], [])


def test_published_ones_are_listed_and_python_gets_a_table():
    table = hpo.studies(PUBLISHED, where="name~digits", sort="name").table
    assert list(table["name"]) == sorted(path.parent.name for path in PUBLISHED.glob("digits*/config.yaml"))
    assert (set(table["state"]), set(table["date"].dt.year)) == ({"ended"}, {2026})
