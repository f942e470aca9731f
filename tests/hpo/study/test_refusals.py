"""What a study's files, its configuration or a request cannot be: said by its key or file, by whoever reads it."""

import json
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

import hpo
from hpo.config.study_config import config_from_dict
from hpo.errors import HpoError, StudyError
from hpo.study.basis.changes import Basis, refuse_other_data
from hpo.study.basis.environment import read_environment
from hpo.study.coordinate_check import check_coordinates
from hpo.study.extension import choose_trials
from hpo.study.files.folder import StudyFolder
from hpo.study.larger_scale import config_at_larger_scale
from hpo.study.preparing.checks import refuse_unknown_metrics
from hpo.study.preparing.preparation import known_study, prepare_study
from hpo.study.preparing.scales import costs_of_scales, ladder_settings
from hpo.study.reproduce.again import reproduce
from hpo.study.reproduce.recorded import Recorded, changed_code, read_files, recorded_winner, unpack_report
from hpo.study.results.run import StudyRun
from hpo.study.storage.copy import copy_study
from hpo.study.winner import final_model
from hpo.trials.goal import Goal
from hpo.trials.history import History
from hpo.trials.trial import Outcome
from tests.studies import STRATEGIES, prepared, rows, toy_config

SCALES = [{"toy.momentum": 0.1}, {"toy.momentum": 0.2}]


def tree(strategy="random", space=None, toy=(), **study):
    config = toy_config(strategy, space, 2)
    config["toy"] |= dict(toy)
    config["study"] |= study
    return config


def prepare(strategy="random", space=None, **study):
    return prepare_study(config_from_dict(tree(strategy, space, **study)))


def ladder_of(**changes):
    return prepare(STRATEGIES["ladder"] | changes, scales=SCALES)


def make(path):
    StudyFolder(Path(path)).make()


def costing(**costs):
    return SimpleNamespace(refuse_bad_config=lambda _: None, **costs)


OF_LADDER = config_from_dict(toy_config("ladder"))
LOST = Recorded(None, None, [], None, is_same_study=False)
ONE, TWO = (
    config_from_dict(tree(metrics=metrics)).study for metrics in (None, {"score": "maximize", "size": "minimize"})
)
COMPLETE = {"number": "0", "state": "complete", "score": "1"}
DATA = [Basis(toy_config(), {"parts": {"a.csv": {"fingerprint": name}}}, None) for name in ("old", "new")]
OF_F1 = ({"metrics": {"f1": ""}}, SimpleNamespace(module="toys"))


@pytest.mark.parametrize(("call", "given", "says"), [
    (read_environment, [Path("own.json")], "own.json: has no key 'python'; restore the file"),
    (refuse_other_data, [*DATA, "toy"], "study 'toy': the data have changed since the study's start (changed: a.csv)"),
    (choose_trials, [None, History(), 0, ()], "best: must be 1 or more, given 0"),
    (make, ["own.json/x"], "own.json/x: cannot be created: Not a directory; free the path, or use"),
    (refuse_unknown_metrics, [Goal({"f": "maximize"}), *OF_F1], "study.metric: must be one of f1, given 'f'; did you"),
    (partial(prepare, winner="one_standard_error"), [], "study.winner: one_standard_error needs several trainings"),
    (prepare, ["ladder", {"study": [1, 2]}], "space.study: is reserved in a study with study.scales; use another name"),
    (partial(ladder_of, first="hyperband"), [], "tpe, gp, cma_es, qmc, given 'hyperband'"),
    (partial(ladder_of, first=STRATEGIES["asha"] | {"counts": "trials"}), [], "first.counts: must be"),
    (ladder_settings, [STRATEGIES["ladder"] | {"trials": "x"}], "strategy.trials: must be a valid integer, given 'x'"),
    (costs_of_scales, [OF_LADDER, costing(describe_cost=None)], "give strategy.costs, such as [1, 4, 16]"),
    (costs_of_scales, [OF_LADDER, costing(describe_cost=1, cost=lambda *_: 2.0)], "scale 2 costs 1 times as much as"),
    (hpo.train, ["data=digits", "training.seed=-1"], "training.seed: must be a whole number of at least 0, given -1"),
    (LOST.trials, ["all"], "trials.csv: no trial is complete, so there is nothing to reproduce"),
    (recorded_winner, [[COMPLETE | {"number": "x"}], {}, ONE], "trials.csv: invalid literal for int() with base 10:"),
    (recorded_winner, [[COMPLETE], {}, TWO], "trials.csv: has no column 'size'; restore the file"),
])  # fmt: skip
def test_it_is_refused_in_one_line(call, given, says):
    Path("own.json").write_text("{}")
    with pytest.raises(HpoError) as refused:
        call(*given)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def without(name, read):
    Path("runs/toy", name).unlink()
    return read(StudyFolder(Path("runs/toy")))


def reporting(fields, read):
    path = Path("runs/toy/report.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))
    return read(path)


def read_study_of(report):
    return read_files(StudyFolder(report.parent))


def unpack(report):
    return unpack_report(report, report.parent)


def read_known(folder):
    return known_study(str(folder.path))


def copy(folder):
    return copy_study(folder, "new")


def copy_of_a_storage():
    folder = StudyFolder(Path("runs/toy"))
    folder.freeze(config_from_dict(tree(storage="sqlite:///team.db")))
    return copy(folder)


def again(**cells):
    study, files = prepared(Path("runs/toy"), tree()), SimpleNamespace(allowed=[], report={})
    row = rows(study.folder.trials_path)[0] | cells
    return reproduce(Recorded(files, study, [row], None, is_same_study=True), "all", None, print)


def changes_of_code(report):
    return list(changed_code(report, prepared(Path("runs/toy"), tree())))


def climb(before, now):
    return config_at_larger_scale(prepared(Path("runs/toy"), before), config_from_dict(now), ())


def score(task):
    return 1.0


def output_sizes(task):
    return {step: {str(task["config"]["width"]): 1.0} for step in task["steps"]}


NAMED = tree(scales=[{"width": 8}, {"width": 16}]) | {"objective": f"{__name__}:score", "width": 8}
REFERS, OTHERWISE = (tree(toy={"always": 2}, references={"toy.always": f"${{toy.{to}}}"}) for to in ("layers", "width"))


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize(("call", "given", "says"), [
    (without, ["described.json", read_known], "runs/toy/described.json: is missing; restore the file"),
    (without, ["described.json", StudyRun.read], "runs/toy/described.json: is missing; restore the file"),
    (without, ["study.db", copy], "runs/toy/study.db is missing; `hpo resume toy` replaces the record by its backup"),
    (copy_of_a_storage, [], "copy: the record is in study.storage and cannot be copied; copy its trials with `hpo"),
    (without, ["trials.csv", read_files], "runs/toy/trials.csv: is missing; restore the file, or write it again with"),
    (reporting, [{"files": [1]}, read_study_of], "runs/toy/report.json: 'files' must map names to hashes, given [1]"),
    (reporting, [{"winner": {"values": {}}}, unpack], "report.json: winner.values is empty, so there is no score to"),
    (reporting, [{"winner": {"values": {"fold_0": 1}}}, unpack], "is not a report of this toolkit (KeyError:"),
    (changes_of_code, [{"study": {"code": 3}}], "report.json: study.code.: must be a dictionary or an instance of"),
    (partial(again, number="x"), [], "trials.csv: trial 'x': invalid literal for int() with base 10: 'x'; restore"),
    (partial(again, fold_0="x"), [], "trials.csv: trial 0: fold_0 must be a finite number, given 'x'"),
    (climb, [tree(), tree(toy={"layers": 9})], "toy.layers: cannot be changed, because it is searched at every"),
    (climb, [REFERS, OTHERWISE], "toy.always: refers to a searched key, so its value differs from trial to trial;"),
    (check_coordinates, [NAMED, "width", print], ".output_sizes must use the same layer names at every scale; no"),
])  # fmt: skip
def test_of_a_study_it_is_refused_in_one_line(call, given, says):
    with pytest.raises(HpoError) as refused:
        call(*given)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_training_of_the_winners_model_that_fails_names_the_trial(toy, monkeypatch):
    monkeypatch.setattr(final_model, "lacks_model", lambda *_: True)
    monkeypatch.setattr(final_model, "outcomes", lambda *_: [(None, Outcome(error="no memory"))])
    study = prepared(toy.path, tree())
    with pytest.raises(StudyError, match="^training the model of trial 1 again failed: no memory$"):
        final_model.make_final_model(study, StudyRun.read(toy), None, print)
