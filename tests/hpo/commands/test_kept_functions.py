"""A function that is kept with its study: what makes it another, and who reads it."""

import functools
import importlib
import json
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

import hpo
from hpo.cli.main import main
from hpo.study.files.folder import StudyFolder
from tests.hpo.cli.commands import hpo as command
from tests.hpo.commands.searched import found


@pytest.mark.quick("set", "partial")
@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["array", "path", "set", "method", "partial", "module", "module inside", "typed"])
def test_what_a_function_uses_makes_it_another(kind):
    """A change of it is another study, or is refused; a function that uses the same is the same."""

    def uses(value):
        Path("own_scale.py").write_text(f"SCALE = {value}\n")

        class Scale:
            def by(self):
                return value

        def module_inside(config):
            import own_scale

            return own_scale.SCALE

        wraps = {
            "array": lambda held: lambda config: float(held[0]),
            "path": lambda held: lambda config: float(held.name),
            "set": lambda held: lambda config: float(max(held)),
            "method": lambda held: held.by,
            "partial": lambda held: held,
        }
        held = {
            "array": np.array([value]), "path": Path(str(value)), "set": {value, 0}, "method": Scale(),
            "partial": functools.partial(lambda factor, config: factor, value),
        }  # fmt: skip
        if kind == "typed":
            exec(f"def typed(config): return {value} * config['lr']", variables := {})
            return variables["typed"]
        if kind == "module inside":
            return module_inside
        if kind == "module":
            monkeypatched = importlib.import_module("own_scale")
            importlib.reload(monkeypatched)
            return lambda config: monkeypatched.SCALE
        if kind == "method":
            return lambda config: held["method"].by()
        return wraps[kind](held[kind])

    sys.path.insert(0, str(Path.cwd()))
    try:
        study = found(uses(1), trials=2)
        assert found(uses(1), trials=2).name == study.name
        with pytest.raises(hpo.HpoError, match=r"the code of the function changed|code: own_scale\.py"):
            found(uses(2), trials=4, name=study.name)
    finally:
        sys.path.remove(str(Path.cwd()))
        sys.modules.pop("own_scale", None)


def test_a_kept_function_is_read_again_by_its_study_alone():
    def train(config, trial):
        return config["lr"] + trial.seed % 7

    study = found(train, trials=3)
    again = study.reproduce("all").table
    assert (again["recorded"] == again["reproduced"]).all()
    (study.folder / "objective.pkl").unlink()
    with pytest.raises(hpo.HpoError, match="was given from Python and is stored only in its study's folder"):
        hpo.load(study.name).resume(5, progress=False)


@pytest.mark.slow
def test_the_report_says_that_a_kept_function_is_needed():
    study = found(lambda config: config["lr"])
    study.report(title="why?")
    report = json.loads((study.folder / "report.json").read_text())
    assert any("was given from Python and is stored in objective.pkl" in caution for caution in report["cautions"])
    assert report["study"]["title"] == "why?"
    assert main([*shlex.split(report["study"]["rerun"])[1:], "dispatch=local", "track=none"]) == 0
    assert main(["reproduce", study.name]) == 0
    with pytest.raises(hpo.HpoError, match="start a study from Python"):
        hpo.search(StudyFolder(study.folder).config().to_dict(), name="other")


def test_a_strangers_function_is_not_read():
    def train(config):
        return config["lr"]

    study = found(train, trials=2)
    path = study.folder / "objective.pkl"
    path.write_bytes(path.read_bytes().replace(b"lr", b"lx"))
    for use in (lambda: hpo.load(study.name).best, lambda: hpo.load(study.name).reproduce()):
        with pytest.raises(hpo.HpoError, match="was not made here"):
            use()


@pytest.mark.slow
def test_from_an_archive_a_strangers_goes_on_by_the_commands_that_its_refusal_names(monkeypatch, capsys, tmp_path):
    found(lambda config: config["lr"], trials=2, name="mine").archive("mine.tar.gz")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another"))
    with pytest.raises(hpo.HpoError, match="the study was only copied") as refusal:
        hpo.unarchive("mine.tar.gz", "theirs")
    trusts, goes_on = re.findall("`hpo ([^`]*)`", str(refusal.value))
    assert command(capsys, *trusts.split())[0] == 0
    assert command(capsys, *goes_on.split(), "study.trials=3")[0] == 0
