"""Callbacks that are given from Python, and the command of `study.on_trial`."""

import json
import logging
import sys
from pathlib import Path

import pytest

import hpo
from tests.hpo.cli.commands import refused
from tests.hpo.commands.searched import found, refuses


def train(config):
    assert config["lr"] != 0.4
    return {"score": config["lr"], "other": 1.0}


def search(lanes=1, **more):
    given = {"space": {"lr": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]}, "trials": 4, "metric": "score", "name": "called"}
    return found(train, **(given | {"settings": {"study.lanes": lanes}} | more))


@pytest.mark.slow
def test_it_is_called_with_each_trial_once_and_what_it_adds_is_a_user_action():
    calls = []

    def add(study, trial):
        calls.append(trial.number)
        assert trial.point == {"lr": trial.config["lr"]}
        assert study.best.score >= (trial.score or 0)
        if trial.number == 0:
            study.add({"lr": 0.4})

    study = search(callbacks=[add])
    assert calls == [0, 1, 2, 3]
    (added,) = json.loads((study.folder / "report.json").read_text())["added_points"]
    assert added["point"] == {"lr": 0.4}
    search(callbacks=[add])
    assert len(calls) == 4, "what is in the record is not called again"
    study.resume(6, callbacks=[add], progress=False)
    assert len(calls) == 6


@pytest.mark.parametrize("way", ["stop", "raise"])
def test_it_ends_the_search_whose_report_is_written(way):
    def end(study, trial):
        if trial.number == 1:
            if way == "raise":
                raise hpo.Stop
            study.stop()

    study = search(callbacks=[end])
    assert (len(study.trials), study.status.ended_by) == (2, "callback")
    assert "hpo resume called study.trials=6" in [step.command for step in study.status.next]
    assert "ended by a callback" in (study.folder / "report.md").read_text()
    if way == "stop":
        assert len(search(callbacks=[end]).trials) == 2, "the same call changes nothing"
        assert len(study.resume(5, progress=False).trials) == 5, "a larger budget goes on"


def test_a_fault_is_reported_once_and_ends_nothing(caplog):
    def faulty(study, trial):
        refuses("a callback can only end the whole search", study.stop, trial.number)
        raise ValueError("no connection")

    with caplog.at_level(logging.WARNING):
        assert len(search(callbacks=[faulty]).trials) == 4
    (line,) = [record.getMessage() for record in caplog.records if "callback" in record.getMessage()]
    assert line.startswith("the callback faulty raised ValueError at trial 0: no connection; the search goes on")
    for given in (faulty, [1]):
        refuses(r"callbacks: must be a list of functions f\(study, trial\)", search, callbacks=given, name="other")
    assert not Path("runs/other").exists()


def test_a_command_runs_when_a_trial_ends_and_no_shell_reads_it(caplog):
    code = "import sys\nopen('lines', 'a').write(' '.join(sys.argv[1:]) + '\\n')\nsys.exit(3)\n"
    Path("write.py").write_text(code)
    command = f"{sys.executable} write.py {{trial}} {{state}} {{study}} '$HOME; {{score}}'"
    with caplog.at_level(logging.WARNING):
        search(trials=2, settings={"study.on_trial": command})
    lines = Path("lines").read_text().splitlines()
    assert [line.partition(" called $HOME; ")[0] for line in lines] == ["0 complete", "1 failed"]
    (line,) = [record.getMessage() for record in caplog.records if "on_trial" in record.getMessage()]
    assert "RuntimeError at trial 0: the command ended with exit code 3; the search goes on" in line


@pytest.mark.parametrize(("command", "says"), [
    ('"tell {trail}"', "given {trail}; did you mean 'trial'?"),
    ('"tell \'x"', "must be a command that a shell can read"),
    # It needs no quotes inside of the shell's.
    ("no-such-program {trial} 'two words'", "installed program, given 'no-such-program'"),
])  # fmt: skip
def test_a_bad_command_is_refused(capsys, command, says):
    assert says in refused(capsys, "search", f"study.on_trial={command}", "dispatch=local", is_silent=True)
