"""A training that is a command line."""

import json
import sys
import time
from pathlib import Path

import psutil
import pytest

from hpo.cli.main import main
from hpo.objectives.command import check, code_files, describe_search
from hpo.workers.objective.source_files import RUN, digests_of_run
from hpo.workers.training.tasks import Payload
from hpo.workers.training.worker import outcome_of, run_task
from tests.studies import rows

LOCAL = ("dispatch=local", "track=none")


def outcome(line, **task):
    config = {"command": {"line": line}, "lr": 0.5, "model": {"name": "big one"}, "none": None}
    payload = Payload(**{"objective": "hpo.objectives.command:run_fold", "config": config, "metric": "loss"} | task)
    return outcome_of(run_task(payload))


def python(code, *words):
    Path("trains.py").write_text(code)
    return " ".join((sys.executable, "trains.py", *words))


def test_each_value_is_one_word_as_it_stands():
    said = outcome(
        python(
            "import sys, json; json.dump({'loss': 1}, sys.stdout); json.dump(sys.argv[1:], open('got', 'w'))",
            *("--lr={lr}", "{model.name}", "'two words {lr}'", "{{lr}}", "{task.seed}", "{none}", "$HOME;ls"),
        ),
        seed=7,
    )
    assert said.error is None
    assert json.loads(Path("got").read_text()) == ["--lr=0.5", "big one", "two words 0.5", "{lr}", "7", "", "$HOME;ls"]


def test_lines_of_json_are_its_curve():
    code = "print('for people'); print('3')\nfor e in (1, 2): print('{\"loss\": %s, \"epoch\": %s}' % (1 / e, e * 10))"
    said = outcome(python(code))
    assert [dict(point) for point in said.curve] == [{"epoch": 10, "loss": 1.0}, {"epoch": 20, "loss": 0.5}]


@pytest.mark.parametrize(
    ("score", "direction", "expected"),
    [("best", "maximize", 0.9), ("best", "minimize", 0.4), ("last", "maximize", 0.4)],
)
def test_its_score_is_the_best_or_the_last_of_its_curve(score, direction, expected):
    code = 'for n, x in enumerate((.5, .9, .4)): print(\'{"val": {"loss": %s}, "number": %s}\' % (x, n))'
    said = outcome(python(code), metric="val/loss", score=score, direction=direction)
    assert said.metrics == {"val/loss": expected, "number": [0.5, 0.9, 0.4].index(expected)}


def test_a_line_without_the_metric_takes_nothing_back():
    for score in ("best", "last"):
        said = outcome(python("print('{\"loss\": 2}'); print('{\"size\": 3}')"), score=score)
        assert said.metrics == {"loss": 2, "size": 3}


def test_a_line_with_a_warning_is_for_people():
    line = python(
        'print(\'{"warning": "few data"}\'); print(\'{"loss": 1}\'); print(\'{"a": "%s"}\' % (\'x\' * 10**5))'
    )
    config = {"command": {"line": line}}
    messages = [*run_task(Payload("hpo.objectives.command:run_fold", config, "loss"))]
    assert [message["warning"][:14] for message in messages if "warning" in message] == ["few data", "a line of JSON"]
    assert [message["point"] for message in messages if "point" in message] == [{"epoch": 1, "loss": 1}]


def test_all_that_it_writes_is_passed_on_as_it_comes(capsys):
    code = (
        "import sys, time; print('for people'); print('a fault', file=sys.stderr)\n"
        "print('{\"loss\": 1}', flush=True); time.sleep(60)"
    )
    messages = run_task(Payload("hpo.objectives.command:run_fold", {"command": {"line": python(code)}}, "loss"))
    next(messages)
    messages.close()
    assert capsys.readouterr() == ('for people\n{"loss": 1}\n', "a fault\n")


def test_what_a_stopped_command_has_started_ends_too():
    code = (
        "import subprocess, sys, time; p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "open('child', 'w').write(str(p.pid)); print('{\"loss\": 1}', flush=True); time.sleep(60)"
    )
    messages = run_task(Payload("hpo.objectives.command:run_fold", {"command": {"line": python(code)}}, "loss"))
    next(messages)
    child = psutil.Process(int(Path("child").read_text()))
    messages.close()
    gone, _ = psutil.wait_procs([child], timeout=20)
    assert gone or child.status() == psutil.STATUS_ZOMBIE


def test_what_it_leaves_running_holds_up_no_trial():
    """Even where that prints without end; what the command itself has printed is read whole."""
    code = (
        "import subprocess; print('x' * 200_000); print('10 %\\r{\"loss\": 1}\\r\\n{\"loss\": 2}', flush=True)\n"
        "p = subprocess.Popen(['yes'])\nopen('child', 'w').write(str(p.pid))"
    )
    before, began = psutil.Process().num_fds(), time.perf_counter()
    said = outcome(python(code))
    took = time.perf_counter() - began
    psutil.Process(int(Path("child").read_text())).kill()
    assert (said.error, said.metrics, took < 20) == (None, {"loss": 2}, True)
    assert psutil.Process().num_fds() == before


def test_they_are_read_while_it_runs():
    code = "import time; print('{\"loss\": 1}', flush=True); time.sleep(60)"
    messages = run_task(Payload("hpo.objectives.command:run_fold", {"command": {"line": python(code)}}, "loss"))
    began = time.perf_counter()
    assert next(messages)["point"]["loss"] == 1
    messages.close()
    assert time.perf_counter() - began < 30


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("raise ValueError('too hot')", "exit code 1: ValueError: too hot (after "),
        ("import sys; sys.exit('one\\ntwo\\nthree\\nfour')", "exit code 1: four (after two | three)"),
        ("import sys; sys.exit(3)", "exit code 3: it printed nothing"),
        ("import sys; print('no such data\\n'); sys.exit(3)", "exit code 3: no such data"),
        ("print('done')", "printed no line of JSON"),
    ],
)
def test_a_fault_is_the_trials_error_in_one_line(code, error):
    said = outcome(python(code))
    assert error in said.error
    # A traceback of the toolkit's own says nothing of it.
    assert said.details is None


def test_a_command_that_cannot_be_run_is_the_trials_error():
    assert "'nothing-like-it' cannot be run: No such file or directory" in outcome("nothing-like-it {lr}").error
    assert "this trial has no value for {decay}" in outcome("train {decay}").error


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (None, "must be a command"),
        ("train {lr", "cannot be read"),
        ("train 'lr", "cannot be read"),
        ("train {task.sead}", "did you mean 'seed'"),
        ("train {task.amounts}", "must not have {task.amounts}; did you mean 'amount'"),
    ],
)
def test_a_command_that_cannot_be_read_is_refused(line, error):
    with pytest.raises(Exception, match=error):
        check({"command": {"line": line}})


def test_the_files_that_it_names_are_code():
    for name in ("train.py", "small.yaml", "out.csv", "run.sh"):
        Path(name).touch()
    Path("data").mkdir()
    Path("results.json").write_text("of the last time")
    assert code_files({"command": {"line": "python train.py --config=small.yaml {lr} data results.json none \0"}}) == [
        "small.yaml",
        "train.py",
    ]
    assert code_files({"command": {"line": f"./run.sh 'o{{{{ut.csv' {Path.cwd()}/train.py"}}) == [
        "./run.sh",
        f"{Path.cwd()}/train.py",
    ]
    assert code_files({"command": {"line": f"{sys.executable} -c 1"}}) == []


MODULES = {
    "lib.py": "",
    "beside.py": "import unread",
    "single.py": "import beside",
    "pkg/__init__.py": "",
    "pkg/__main__.py": "from . import inner",
    "pkg/inner.py": "",
    "pkg/other.py": "",
    "scripts/train.py": "import near, lib, numpy",
    "scripts/near.py": "",
    "src/far/run.py": "import lib",
    "data/a.txt": "",
    "small.yaml": "",
}
PACKAGE = ["pkg/__init__.py", "pkg/__main__.py", "pkg/inner.py", "pkg/other.py"]
SCRIPT = ["lib.py", "scripts/near.py", "scripts/train.py"]


@pytest.mark.parametrize(
    ("line", "files"),
    [
        ("python -m single {lr}", ["beside.py", "single.py"]),
        ("python -u -m pkg --lr {lr}", PACKAGE),
        ("python -m pkg.inner", PACKAGE),
        ("uv run python -m single", ["beside.py", "single.py"]),
        ("torchrun --nproc_per_node 2 -m pkg.inner data", PACKAGE),
        ("torchrun -m --nproc_per_node 2 single", ["beside.py", "single.py"]),
        ("torchrun scripts/train.py {lr}", SCRIPT),
        ("accelerate launch scripts/train.py -m single_model", SCRIPT),
        ("accelerate launch --config_file=small.yaml --module single", ["beside.py", "single.py", "small.yaml"]),
        ("python -m installed.launcher scripts/train.py", SCRIPT),
        ("python pkg", PACKAGE),
        ("python -W ignore -mpkg.inner", PACKAGE),
        ("python3 -um single", ["beside.py", "single.py"]),
        ("python -m far.run", ["lib.py", "src/far/run.py"]),
        ("env PYTHONPATH=elsewhere python -m away", ["elsewhere/away.py"]),
    ],
)
def test_a_module_is_code_and_so_is_what_python_files_import(monkeypatch, line, files):
    for name, text in (MODULES | {"elsewhere/away.py": ""}).items():
        Path(name).parent.mkdir(exist_ok=True, parents=True)
        Path(name).write_text(text)
    monkeypatch.setenv("PYTHONPATH", "src")
    config = {"command": {"line": line}}
    found = digests_of_run(code_files(config), Path.cwd())
    assert [name.removesuffix(RUN) for name in found] == files
    assert not describe_search(config)["notes"]


@pytest.mark.parametrize(
    "line", ["bin/python -m absent {lr}", "python -m pkg --config small.yaml", "torchrun -m {net}.run"]
)
def test_a_module_that_is_not_found_is_said(line):
    for folder in ("pkg", "bin"):
        Path(folder).mkdir()
    Path("bin/python").touch(mode=0o755)
    Path("small.yaml").touch()
    (note,) = describe_search({"command": {"line": line}})["notes"]
    assert "neither in the working directory nor on PYTHONPATH" in note
    assert f"the module {line.partition('-m ')[2].split()[0]} is" in note


def test_a_module_that_changed_refuses_a_resume(capsys):
    line = f"{sys.executable} -m single {{lr}}"
    Path("single.py").write_text("import beside, sys; print('{\"loss\": %s}' % (beside.FACTOR * float(sys.argv[1])))")
    Path("beside.py").write_text("FACTOR = 1")
    words = ["search", "objective=command", f"command.line={line}", "space.lr=[1.0, 2.0, 3.0]", "strategy=grid"]
    assert main([*words, "study.trials=2", "study.metric=loss", "study.direction=minimize", *LOCAL]) == 0
    Path("beside.py").write_text("FACTOR = 7")
    assert main(["resume", "command", "study.trials=3"]) == 2
    assert "code: beside.py (run) was " in capsys.readouterr().err


TRAINS = """\
import json, pathlib, sys
pathlib.Path("log.txt").open("a").write("trained")
if sys.argv[1] == "2.0" and pathlib.Path("edit").exists():
    pathlib.Path("edit").unlink()
    script = pathlib.Path("trains.py")
    script.write_text(script.read_text().replace("1 * float", "1000 * float"))
print(json.dumps({"loss": 1 * float(sys.argv[1])}))
"""


@pytest.mark.slow
def test_a_script_that_changes_while_the_search_runs_stops_it_and_is_compared_ever_after(capsys):
    line = python(TRAINS, "{lr}", "log.txt")
    words = ["search", "objective=command", f"command.line={line}", "space.lr=[1.0, 2.0, 3.0]", "strategy=grid"]
    words += ["study.metric=loss", "study.direction=minimize", *LOCAL]
    Path("edit").touch()
    assert main(words) == 1
    said = capsys.readouterr()
    assert "objective: trains.py has changed while the search runs" in said.out + said.err
    assert main(["resume", "command"]) == 2
    assert "code: trains.py (run) was " in capsys.readouterr().err
    edited = Path("trains.py").read_text()
    python(TRAINS)
    # What trainings write is no code, although the command names it.
    assert main(["resume", "command"]) == 0
    found = [float(row["score"]) for row in rows(Path("runs/command/trials.csv"))]
    assert sorted(found) == [1, 2, 3]
    capsys.readouterr()
    python(edited)
    assert main(["reproduce", "command"]) == 1
    assert "code: trains.py (run) was " in capsys.readouterr().out


def test_a_study_of_commands(capsys):
    line = python("import sys; print('{\"loss\": %s}' % (float(sys.argv[1]) - 1) ** 2)", "{lr}")
    words = ["search", "objective=command", f"command.line={line}", "space.lr=[1.0, 2.0, 3.0]", "strategy=grid"]
    words += ["study.metric=loss", "study.direction=minimize"]
    assert main([*words, *LOCAL]) == 0
    assert sorted(float(row["score"]) for row in rows(Path("runs/command/trials.csv"))) == [0, 1, 4]
    assert main(["reproduce", "command"]) == 0
    assert main([*words, "study.name=other", "space.lrr=[1, 2]", *LOCAL]) == 2
    assert "did you mean 'lr'" in capsys.readouterr().err


def test_its_log_is_what_it_wrote_and_its_failure_says_the_last_lines(capsys):
    code = "import sys; print('begins'); print('{\"loss\": 1}'); print('a', 'b', sep='\\n', file=sys.stderr); 1 / 0"
    words = ["search", "objective=command", f"command.line={python(code, '{lr}')}", "space.lr=[1.0]", "strategy=grid"]
    main([*words, "study.metric=loss", *LOCAL])
    capsys.readouterr()
    assert main(["logs", "command", "0"]) == 0
    logged = capsys.readouterr().out
    for text in ("begins", '{"loss": 1}', "a\nb\n", "ZeroDivisionError"):
        assert text in logged
    assert main(["show", "command", "--trial", "0"]) == 0
    shown = capsys.readouterr().out
    assert "in <module>" in shown
    assert "hpo/objectives" not in shown


def test_a_name_that_nothing_gives_a_value_is_refused(capsys):
    words = ("search", "objective=command", "command.line=train {lr} {decay}", "space.lr=[1.0, 2.0]", *LOCAL)
    assert main([*words, "study.metric=loss"]) == 2
    assert "'decay', which is neither searched nor in the configuration" in capsys.readouterr().err
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({}, "printed no line of JSON"),
        ({"pattern": {"loss": "loss ([0-9.]+)"}}, "no line of the command's output matches command.pattern.loss"),
        ({"result": "out.json"}, "command.result: the program wrote no out.json into {task.folder}"),
        ({"result": "bad.json"}, "command.result: bad.json cannot be read: Expecting value"),
        ({"result": "bad.csv"}, "command.result: bad.csv cannot be read: it must have a row of column names"),
    ],
)
def test_what_cannot_be_read_is_said_with_the_last_line(settings, error):
    code = "import pathlib, sys; print('begins'); print('is done')\n"
    code += "for name in ('bad.json', 'bad.csv'): pathlib.Path(sys.argv[1], name).write_text('loss')"
    config = {"command": {"line": python(code, "{task.folder}"), **settings}}
    said = outcome_of(run_task(Payload("hpo.objectives.command:run_fold", config, "loss"))).error
    assert error in said
    assert said.endswith("its last line was 'is done'")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('valid | {"epoch": 3, "loss": "4.1"} | done', {"epoch": 3, "loss": 4.1}),
        ("{'loss': nan, 'epoch': 1.0, 'best': -inf}", {"epoch": 1.0}),
        ("10:00 {'loss': np.float64(0.5), 'on': True}", {"epoch": 1, "loss": 0.5, "on": 1}),
        ('a {b} {"val": 1} {"loss": 2, "more": true}', {"epoch": 1, "loss": 2}),
        ('{"loss": "2", "note": "x"}', {"epoch": 1, "loss": 2}),
        ('a config: {"lr": 1, "epoch": 3}', None),
        ("a set: {'loss'}", None),
    ],
)
def test_json_and_dicts_are_read_anywhere_in_a_line(line, expected):
    config = {"command": {"line": python(f"print({line!r})")}}
    messages = run_task(Payload("hpo.objectives.command:run_fold", config, "loss"))
    assert [message["point"] for message in messages if "point" in message] == [expected] * (expected is not None)


def test_a_pattern_reads_both_streams_and_a_place_holds_for_the_lines_that_follow():
    code = (
        "import logging; logging.basicConfig(level=20); logging.info('check acc=0')\n"
        "for epoch in (1, 2): logging.info('Epoch %d/2', epoch); logging.info('acc=%s', epoch / 4)\n"
        "logging.info('in the end acc=0.125')"
    )
    config = {"command": {"line": python(code), "pattern": {"acc": "acc=([0-9.]+)", "epoch": "Epoch ([0-9]+)/"}}}
    said = outcome_of(run_task(Payload("hpo.objectives.command:run_fold", config, "acc")))
    assert [{**point} for point in said.curve] == [{"epoch": 1, "acc": 0.25}, {"epoch": 2, "acc": 0.5}]
    assert said.metrics == {"acc": 0.5}


def test_lines_of_one_report_may_name_its_place_once():
    lines = ['{"step": 1}', '{"loss": 2}', '{"step": 2, "size": 3}', '{"loss": 1, "more": false}', '{"size": 4}']
    config = {"command": {"line": python(f"print({chr(10).join(lines)!r})", "{task.resume_dir}"), "continues": True}}
    said = outcome_of(run_task(Payload("hpo.objectives.command:run_fold", config, "loss", "minimize")))
    assert [{**point} for point in said.curve] == [{"step": 1, "loss": 2}, {"step": 2, "size": 3, "loss": 1}]
    assert said.metrics == {"loss": 1, "size": 3}


def test_what_a_pattern_finds_that_is_no_number_is_a_fault():
    config = {"command": {"line": python("print('loss -')"), "pattern": {"loss": "loss (.)"}}}
    said = outcome_of(run_task(Payload("hpo.objectives.command:run_fold", config, "loss")))
    assert said.error == "command.pattern.loss: must match a number, given '-' in the line 'loss -'"


def test_a_folder_of_a_training_is_empty_at_first_and_gone_after_it():
    code = "import os, sys; print(os.listdir(sys.argv[1])); open('was', 'w').write(sys.argv[1]); print('{\"loss\": 1}')"
    assert outcome(python(code, "{task.folder}")).error is None
    assert not Path(Path("was").read_text()).exists()


def test_what_a_program_writes_into_its_own_dir_is_kept_and_a_text_is_a_note():
    code = "import sys; open(sys.argv[1] + '/plot', 'w').write('x'); print('{\"loss\": 1, \"model\": \"here\"}')"
    said = outcome(python(code, "{task.dir}"), files_dir="files/trial_0000")
    assert (said.error, said.notes) == (None, {"model": "here"})
    assert Path("files/trial_0000/plot").read_text() == "x"


def test_a_program_goes_on_from_its_state_after_a_crash():
    """Its last attempt wrote a state and was killed."""
    code = (
        "import pathlib, sys; state = pathlib.Path(sys.argv[1], 'at')\n"
        "start = int(state.read_text()) if state.exists() else 0\n"
        "for step in range(start + 1, int(sys.argv[2]) + 1):\n"
        '    state.write_text(str(step)); print(\'{"loss": %s, "step": %s}\' % (1 / step, step), flush=True)\n'
        "    if step == 2 and not start: 1 / 0"
    )
    config = {"command": {"line": python(code, "{task.resume_dir} {task.amount}"), "continues": True}}
    payload = Payload("hpo.objectives.command:run_fold", config, "loss", "minimize", amount=4, resume_dir="state")
    first = outcome_of(run_task(payload))
    assert "ZeroDivisionError" in first.error
    again = outcome_of(run_task(payload))
    assert (again.error, again.metrics) == (None, {"loss": 0.25})
    assert [point["step"] for point in again.curve] == [1, 2, 3, 4]


def test_a_step_is_the_place_of_a_line_without_an_epoch_and_a_summary_at_the_end_has_none():
    code = 'for s in (100, 200): print(\'{"loss": %s, "step": %s}\' % (1 / s, s))\nprint(\'{"size": 3}\')'
    said = outcome(python(code), direction="minimize")
    assert [dict(point) for point in said.curve] == [{"loss": 0.01, "step": 100}, {"loss": 0.005, "step": 200}]
    assert said.metrics == {"loss": 0.005, "size": 3}
