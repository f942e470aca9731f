"""What is read of a program's output: lines, logs of well-known trainers, files, a state, and its errors."""

import json
from pathlib import Path

import pytest

from hpo.cli.main import main
from hpo.workers.training.worker import outcome_of
from tests.hpo.cli.commands import hpo
from tests.hpo.objectives.test_command import python, run, typed
from tests.studies import rows

# As nanoGPT prints: it goes on from its checkpoint, and evaluates there once more.
NANO = """\
import pathlib, sys
state = pathlib.Path(sys.argv[3], "step")
start = int(state.read_text()) if state.exists() else 0
print(f"starts at {start}")
for step in range(start, int(sys.argv[2]) + 1, 250):
    print(f"step {step}: train loss 1.0000, val loss {abs(float(sys.argv[1]) - 0.3) + 1 / (step + 1):.4f}", flush=True)
    state.write_text(str(step))
"""
HUGGING_FACE = """\
{'loss': 1.5, 'grad_norm': nan, 'epoch': 1.0}
{'eval_loss': 1.25, 'eval_runtime': 0.1, 'epoch': 1.0}
{'loss': 1.5, 'grad_norm': nan, 'epoch': 2.0}
{'eval_loss': 0.75, 'eval_runtime': 0.1, 'epoch': 2.0}
{'train_runtime': '1.3', 'train_loss': '0.6', 'epoch': '2'}
{'eval_loss': 0.75, 'epoch': 2.0}
"""
NO_METRIC = "print('begins')\nprint('is done')"
BAD_FILES = "import os, sys; os.chdir(sys.argv[1]); [open(name, 'w').write('3') for name in ('a.csv', 'b.json')]"


def read(line, metric="loss", settings=None, **task):
    outcome = outcome_of(run(line, metric, settings, **task))
    assert outcome.error is None, outcome.error
    return [{**point} for point in outcome.curve], dict(outcome.metrics)


def printing(text):
    return python(f"print({text!r})")


@pytest.mark.parametrize(("lines", "num_points", "metrics"), [
    ([{"loss": 1.0, "epoch": 10}, {"loss": 0.5, "epoch": 20}], 2, {"loss": 0.5}),
    ([{"loss": 1.0, "step": 100}, {"loss": 0.5, "step": 200}, {"size": 3}], 2, {"loss": 0.5, "size": 3}),
])  # fmt: skip
def test_lines_of_json_are_the_curve_and_the_result(lines, num_points, metrics):
    command = printing("\n".join(["for people", "3", *map(json.dumps, lines)]))
    assert read(command, direction="minimize") == (lines[:num_points], metrics)


def test_the_log_of_hugging_face_is_read():
    points, metrics = read(printing(HUGGING_FACE), "eval_loss", direction="minimize")
    assert [(point["epoch"], point.get("eval_loss")) for point in points] == [(1, 1.25), (2, 0.75)]
    assert metrics["eval_loss"] == 0.75
    assert not any("train_loss" in point for point in points)


@pytest.mark.parametrize(("line", "expected"), [
    ('valid | {"epoch": 3, "loss": "4.1"} | done', {"epoch": 3, "loss": 4.1}),
    ("{'loss': nan, 'epoch': 1.0, 'best': -inf}", {"epoch": 1.0}),
    ("10:00 {'loss': np.float64(0.5), 'on': True}", {"epoch": 1, "loss": 0.5, "on": 1}),
    ('a {b} {"val": 1} {"loss": 2, "more": true}', {"epoch": 1, "loss": 2}), ('a config: {"lr": 1, "epoch": 3}', None),
])  # fmt: skip
def test_json_and_dicts_are_read_anywhere_in_a_line(line, expected):
    points = [message["point"] for message in run(printing(line)) if "point" in message]
    assert points == [expected] * (expected is not None)


def test_of_several_values_of_an_epoch_the_first_counts_in_curve_and_score_and_a_warning_says_so():
    text = '{"lr": 0.1, "epochs": 1}\n{"epoch": 1, "loss": 3}\n{"epoch": 1, "loss": 1}\n{"epoch": 2, "loss": 2}'
    (warning,) = [each["warning"] for each in run(printing(text), "loss") if "warning" in each]
    assert warning.startswith("epoch 1 has several values of 'loss', and only the first counts; print")
    points, metrics = read(printing(text), direction="minimize")
    assert ([point["loss"] for point in points], metrics["loss"], metrics["lr"]) == ([3, 2], 2, 0.1)


def test_a_pattern_that_leaves_out_the_exponent_reads_the_whole_number():
    points, _ = read(printing("loss=9.8e-05, acc 1\nloss=2"), settings={"pattern": {"loss": "loss=([0-9.]+)"}})
    assert [point["loss"] for point in points] == [9.8e-05, 2.0]


def test_a_line_with_a_warning_is_for_people():
    code = 'print(\'{"warning": "few data"}\'); print(\'{"loss": 1}\'); print(\'{"a": "%s"}\' % (\'x\' * 10**5))'
    messages = [*run(python(code))]
    assert [message["warning"][:14] for message in messages if "warning" in message] == ["few data", "a line of JSON"]
    assert [message["point"] for message in messages if "point" in message] == [{"epoch": 1, "loss": 1}]


def test_a_pattern_reads_both_streams_and_a_place_holds_for_the_lines_that_follow():
    code = "import logging; logging.basicConfig(level=20); logging.info('check acc=0')\n"
    code += "for epoch in (1, 2): logging.info('Epoch %d/2', epoch); logging.info('acc=%s', epoch / 4)\n"
    code += "logging.info('in the end acc=0.125')"
    points, metrics = read(python(code), "acc", {"pattern": {"acc": "acc=([0-9.]+)", "epoch": "Epoch ([0-9]+)/"}})
    assert (points, metrics) == ([{"epoch": 1, "acc": 0.25}, {"epoch": 2, "acc": 0.5}], {"acc": 0.5})


@pytest.mark.parametrize(("name", "text", "expected"), [
    ("result.json", '{"eval": {"acc": "0.5"}, "name": "x"}', {"eval/acc": 0.5}),
    ("out/all.csv", "epoch, eval/acc ,size\n1,0.25,3\n2,0.5,\n", {"eval/acc": 0.5}),
])  # fmt: skip
def test_a_file_has_the_result_and_lines_the_curve(name, text, expected):
    code = f"""\
import pathlib, sys
print('epoch 1 loss 1')
path = pathlib.Path(sys.argv[1], {name!r})
path.parent.mkdir(exist_ok=True)
path.write_text({text!r})
pathlib.Path('folder').write_text(sys.argv[1])"""
    settings = {"pattern": {"loss": "loss ([0-9.]+)", "epoch": "epoch ([0-9]+)"}, "result": name}
    points, metrics = read(python(code, "{task.folder}"), "eval/acc", settings)
    assert (points, metrics) == ([{"epoch": 1, "loss": 1.0}], {"loss": 1.0, **expected})
    assert not Path(Path("folder").read_text()).exists()


def test_what_a_program_writes_into_its_own_dir_is_kept_and_a_text_is_a_note():
    code = "import sys; open(sys.argv[1] + '/plot', 'w').write('x'); print('{\"loss\": 1, \"model\": \"here\"}')"
    outcome = outcome_of(run(python(code, "{task.dir}"), files_dir="files/trial_0000"))
    assert (outcome.error, outcome.notes, Path("files/trial_0000/plot").read_text()) == (None, {"model": "here"}, "x")


@pytest.mark.slow
def test_asha_continues_the_trainings_of_a_program_and_a_full_training_has_its_own_amount():
    Path("train.py").write_text(NANO)
    line = "{lr} {task.amount:1000} {task.resume_dir}"
    patterns = "command.pattern={val_loss: 'val loss ([0-9.]+)', step: '^step ([0-9]+)'}"
    words = ["command.continues=true", patterns, "study.metric=val_loss", "+lr=0.3", "space.lr={low: 0.1, high: 0.5}"]
    asha = ["strategy=asha", "strategy.max_amount=1000", "strategy.min_amount=250", "strategy.eta=2"]
    assert main(typed(line, *words, "study.trials=5", *asha)) == 0
    assert {row["amount"] for row in rows(Path("runs/command/trials.csv"))} == {"250", "1000"}
    assert "starts at 250\n" in "".join(path.read_text() for path in Path("runs/command/logs").iterdir())
    assert main(["reproduce", "command"]) == 0
    assert main(typed(line, *words, "study.trials=1", "strategy=random", "study.name=full")) == 0
    assert "step 1000" in Path("runs/full/logs/trial_0000_fold_0.log").read_text()


@pytest.mark.parametrize(("code", "settings", "error"), [
    ("raise ValueError('too hot')", {}, "exit code 1: ValueError: too hot (after "),
    ("import sys; sys.exit('one\\ntwo\\nthree\\nfour')", {}, "exit code 1: four (after two | three)"),
    (NO_METRIC, {}, "printed no line of JSON"),
    ("import os; os.kill(os.getpid(), 9)", {}, "the command ended with signal SIGKILL: it printed nothing"),
    (NO_METRIC, {"pattern": {"loss": "loss (.)"}}, "no line of the command's output matches"),
    (NO_METRIC, {"result": "out.json"}, "command.result: the program wrote no out.json into {task.folder}"),
    (BAD_FILES, {"result": "a.csv"}, "command.result: a.csv cannot be read: the file must have a row of column"),
    (BAD_FILES, {"result": "b.json"}, "command.result: b.json must be a JSON object with numbers by name, given 3"),
    ("print('loss -')", {"pattern": {"loss": "loss (.)"}}, "pattern.loss: must match a number, given '-' in"),
])  # fmt: skip
def test_a_fault_is_the_trials_error_in_one_line(code, settings, error):
    outcome = outcome_of(run(python(code, "{task.folder}"), settings=settings))
    assert error in outcome.error
    assert "\n" not in outcome.error
    assert outcome.error.endswith("the last line of the output was 'is done'") or code != NO_METRIC
    assert outcome.details is None  # a traceback of the toolkit's own says nothing of it


def test_a_command_that_cannot_be_run_is_the_trials_error():
    assert "'nothing-like-it' cannot be run: No such file or directory" in outcome_of(run("nothing-like-it {lr}")).error
    assert "this trial has no value for {decay}" in outcome_of(run("train {decay}")).error
    assert "a full training has no value for {task.amount}; give a def" in outcome_of(run("train {task.amount}")).error


def test_its_log_is_what_it_wrote_and_its_failure_says_the_last_lines(capsys):
    python("import sys; print('begins'); print('{\"loss\": 1}'); print('a', 'b', sep='\\n', file=sys.stderr); 1 / 0")
    hpo(capsys, *typed("{lr}", "space.lr=[1.0]"))
    logged = hpo(capsys, "logs", "command", "0")[1]
    assert all(text in logged for text in ("begins", '{"loss": 1}', "a\nb\n", "ZeroDivisionError")), logged
    shown = hpo(capsys, "show", "command", "--trial", "0")[1]
    assert ("in <module>" in shown, "hpo/objectives" in shown) == (True, False)
