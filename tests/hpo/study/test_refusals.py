"""What words, files, configurations and requests cannot be: said by their key or file, by whoever reads them."""

import errno
import json
import os
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from hydra.errors import HydraException

import hpo
from hpo.config import documents, keys, study_config
from hpo.config.composing import compose, overrides
from hpo.errors import HpoError, StudyError
from hpo.machine import machine_faults
from hpo.study import coordinate_check, larger_scale
from hpo.study.basis import changes, environment
from hpo.study.preparing import checks, preparation, scales
from hpo.study.reproduce import again, recorded
from hpo.study.storage.copy import copy_study
from hpo.study.winner import final_model
from hpo.trials.goal import Goal
from hpo.trials.table import read_rows
from hpo.trials.trial import Outcome
from tests.studies import STRATEGIES, StudyFolder, StudyRun, config_from_dict, prepared, refuses, rows, toy_config


def written(content):
    Path("x.yaml").write_bytes(content)
    return Path("x.yaml")


def pipe():
    os.mkfifo("pipe")
    return Path("pipe")


def config(strategy="random", space=None, toy=(), **study):
    tree = toy_config(strategy, space, 2, f"{__name__}:score", width=8)
    tree["toy"] |= dict(toy)
    tree["study"] |= study
    return config_from_dict(tree)


def prepare(*given, **study):
    return preparation.prepare_study(config(*given, **study))


def ladder(**settings):
    return prepare(STRATEGIES["ladder"] | settings, scales=[{"toy.momentum": 0.1}, {"toy.momentum": 0.2}])


def costs(**functions):
    objective = SimpleNamespace(refuse_bad_config=lambda _: None, **functions)
    return scales.costs_of_scales(config_from_dict(toy_config("ladder")), objective)


def changed(name="config.yaml", fields=None):
    """Return the study without a file, or with other fields of it."""
    path = Path("runs/toy", name)
    path.write_text(json.dumps(json.loads(path.read_text()) | fields)) if fields else path.unlink()
    return StudyFolder(path.parent)


def unpack(**winner):
    folder = changed("report.json", {"winner": winner}).path
    return recorded.unpack_report(folder / "report.json", folder, "best")


def study():
    return prepared(Path("runs/toy"), toy_config(trials=2))


def reproduce(**cells):
    files, row = SimpleNamespace(allowed=[], report={}), rows(study().folder.trials_path)[0] | cells
    return again.reproduce(recorded.Recorded(files, study(), [row], None, is_same_study=True), "all", None, print)


def climb(before, now):
    return larger_scale.config_at_larger_scale(prepared(Path("runs/toy"), before.to_dict()), now, ())


def on_full_disk():
    with machine_faults("record: cannot be written", Path("study.db")):
        raise OSError(errno.ENOSPC, "No space left on device", "study.db")


def score(task):
    return 1.0


def output_sizes(task):
    return {step: {str(task["config"]["width"]): 1.0} for step in task["steps"]}


ROW, TWO = {"number": "0", "state": "complete", "score": "1"}, {"score": "maximize", "size": "minimize"}
NO_FILE, OLD, NEW = (
    changes.Basis(toy_config(), {"parts": {"a.csv": {"fingerprint": it}} if it else {}}, None)
    for it in ("", "old", "new")
)
REFERS, OTHERS = ({"toy": {"always": 2}, "references": {"toy.always": f"${{toy.{key}}}"}} for key in ("layers", "lr"))
BY_TRIALS, NAMED = STRATEGIES["asha"] | {"counts": "trials"}, config(scales=[{"width": 8}, {"width": 16}]).to_dict()


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize(("call", "says"), [
    (lambda: documents.read_yaml(written(b"!!map x")), "x.yaml:1:1: is not valid YAML: expected a mapping; correct it"),
    (lambda: documents.read_yaml(written(b"#" * 2**25 + b"\n")), "x.yaml: is larger than 32 MiB; give another file"),
    (lambda: documents.read_yaml(pipe()), "pipe: is a pipe, which may never end; give a file"),
    (lambda: overrides.parse_override("lr=glob(*)"), "lr: takes one value, given glob(*); give one"),
    (lambda: overrides.read_values(["+a=1"]), "command line: must be key=value, given '+a=1'"),
    (lambda: overrides.read_values(["a=1", "a=2"]), "a: must occur only once, given a=1 and a=2"),
    (lambda: hpo.compose(["a=3"]), "separate strings, such as hpo.compose('data=digits', 'study.trials=3'), given"),
    (lambda: keys.refuse_unknown([1], {}, "keys"), "keys: must be a dict of values by dotted key, given [1]"),
    (lambda: study_config.refuse_unwritable({"a": "\ud800"}), r"a: must be valid Unicode, given '\ud800' with a lone"),
    (lambda: read_rows(written(b"a,b\n1\n"), ()), "x.yaml:2: each row must have 2 fields, one per column of the"),
    (lambda: hpo.choices("a", a=1), "space: the name of a choice must not be the value of another choice, given 'a'"),
    (lambda: environment.read_environment(written(b"{}")), "x.yaml: has no key 'python'; restore the file"),
    (lambda: StudyFolder(written(b"") / "x").make(), "x.yaml/x: cannot be created: Not a directory; check"),
    (on_full_disk, "record: cannot be written: No space left on device: study.db"),
    (lambda: hpo.train("data=digits", "training.seed=-1"), "seed: must be a whole number of at least 0, given -1"),
    (lambda: prepare(winner="one_standard_error"), "study.winner: one_standard_error needs several trainings per"),
    (lambda: prepare("ladder", {"study": [1, 2]}), "space.study: is reserved in a study with study.scales; use"),
    (lambda: ladder(first=BY_TRIALS), "strategy.first.counts: must be 'configurations', given 'trials'; a ladder"),
    (lambda: scales.ladder_settings({}), "strategy.name: is missing; give it a value"),
    (lambda: costs(describe_cost=1, cost=lambda *_: 2.0), "the cost must grow from scale to scale, but scale 2 costs"),
    (lambda: climb(config(), config(toy={"layers": 9})), "toy.layers: cannot be changed, because it is searched at ev"),
    (lambda: climb(config(**REFERS), config(**OTHERS)), "toy.always: refers to a searched key, so its value"),
    (lambda: coordinate_check.check_coordinates(NAMED, "width", print), "must use the same layer names at every scale"),
    (lambda: checks.refuse_unknown_metrics(Goal({"f": ""}), {"metrics": {"f1": ""}}, SimpleNamespace(module="toys")),
     "study.metric: must be one of f1, given 'f'; did you mean 'f1'?; the objective reports no"),
    (lambda: changes.refuse_other_data(NO_FILE, NEW, "toy"), "have changed since the study's start (changed: a.csv)"),
    (lambda: changes.refuse_other_data(OLD, NEW, "toy"), "have changed since the study's start (changed: a.csv)"),
    (lambda: preparation.known_study(str(changed("described.json"))), "toy/described.json: is missing; restore the"),
    (lambda: StudyRun.read(changed("described.json")), "runs/toy/described.json: is missing; restore the file"),
    (lambda: copy_study(changed("study.db"), "new"), "toy/study.db is missing; `hpo resume toy` restores the record"),
    (lambda: recorded.read_files(changed("trials.csv")), "runs/toy/trials.csv: is missing; restore the file, or write"),
    (lambda: unpack(values={}), "report.json: winner.values is empty, so there is no score to compare with; give"),
    (lambda: unpack(values={"fold_0": 1}), "is not a report of this toolkit (KeyError: 'point'); give another file"),
    (lambda: [*recorded.changed_code({"study": {"code": 3}}, study())], "or an instance of Code, given 3"),
    (lambda: recorded.Recorded(None, None, [], None, False).trials("all"), "trials.csv: no trial is complete, so"),
    (lambda: recorded.recorded_winner([ROW | {"number": "x"}], {}, config().study), "literal for int() with base 10:"),
    (lambda: recorded.recorded_winner([ROW], {}, config(metrics=TWO).study), "trials.csv: has no column 'size';"),
    (lambda: reproduce(number="x"), "trials.csv: trial 'x': invalid literal for int() with base 10: 'x'; restore the"),
])  # fmt: skip
def test_it_is_refused_in_one_line(call, says):
    refuses(HpoError, re.escape(says), call)


def test_a_record_elsewhere_is_not_copied_and_a_model_whose_training_fails_names_its_trial(toy, monkeypatch):
    monkeypatch.setattr(final_model, "lacks_model", lambda *_: True)
    monkeypatch.setattr(final_model, "outcomes", lambda *_: [(None, Outcome(error="no memory"))])
    with pytest.raises(StudyError, match=r"^training the model of trial 1 again failed: no memory$"):
        final_model.make_final_model(study(), StudyRun.read(toy), None, print)
    toy.freeze(config(storage="sqlite:///team.db"))
    says = r"^copy: the record is in the database study\.storage, so the study cannot be copied"
    refuses(StudyError, says, copy_study, toy, "new")


def test_an_interrupt_that_hydra_takes_for_an_error_is_one(monkeypatch):
    def interrupted(*_, **__):
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as error:
            raise HydraException("stopped") from error

    monkeypatch.setattr(compose, "compose", interrupted)
    with pytest.raises(KeyboardInterrupt):
        compose.compose_config("search", [])
