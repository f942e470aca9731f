"""What the toolkit's own objectives without a network return: of a table, of a command, of ask-and-tell."""

import contextlib
import itertools
import json
import sys
import tempfile
from pathlib import Path

from hpo.objectives import command, outside, table
from hpo.workers.training.tasks import Payload
from tests.studies import shipped

_PROGRAM = """
import json, sys
for epoch in (1, 2):
    print("for people"); print(json.dumps({"loss": 1 / epoch, "step": epoch, "words": len(sys.argv)}))
print(json.dumps({"loss": 0.25, "told": sys.argv[1:]}))
"""
_LOGS = """
import pathlib, sys
for step in (0, 250):
    print(f"step {step}: train loss 2, val loss {1 / (step + 1)}")
    print(f"iter {step}: loss 2.5 | valid | {{'epoch': {step}, 'loss': '{step + 3}'}}")
pathlib.Path(sys.argv[1], "result.csv").write_text("loss, size\\n1,2\\n0.5,3\\n")
"""
_STEPS = {"loss": "(?:val|iter.*) loss ([0-9.]+)", "train": "train loss ([0-9]+)", "step": "^step ([0-9]+)"}


def _write_table():
    curves, rows = [], ["layers,width,kind,loss,loss_2,size,hours"]
    for layers, width in itertools.product((1, 2, 4), (8, 16, 32)):
        if (layers, width) != (4, 8):
            loss = layers / width
            rows.append(f"{layers},{width},relu,{loss},{loss + 0.5},{layers * width},{width / 8}")
            along = [loss / epoch for epoch in range(1, 5)]
            curves.append(json.dumps({"layers": layers, "width": width, "losses": along}))
    Path("table.csv").write_text("\n".join(rows) + "\n")
    Path("curves.jsonl").write_text("\n".join(curves) + "\n")


def _look_up(point, task, **data):
    _write_table()
    section = shipped("table", "data")["data"] | {"path": "table.csv", "metric": "loss", "columns": ["layers", "width"]}
    section |= {"where": {}} | data
    config = {"data": section, **point}
    asked = {"config": config, "metric": "loss", "direction": "minimize", "fold": 0, "amount": None} | task
    found = table.describe_search(config)
    there = {"cost": table.describe_cost(config), "space": found["space"], "folds": found["folds"]}
    return _told(table.run_fold(asked)) | there


def _run(line, program=_PROGRAM, **settings):
    Path("program.py").write_text(program)
    settings |= {"line": f"{sys.executable} program.py {line}"}
    tree = {"command": shipped("command", "data")["command"] | settings}
    tree |= {"lr": 0.5, "model": {"name": "a b"}, "fast": True}
    return _told(command.run_fold(Payload(command.__name__, tree, "loss", "minimize", seed=7, fold=1).task(tree)))


def _ask():
    with contextlib.suppress(RuntimeError):
        outside.run_fold({"study": "x"})
        raise AssertionError
    return {"continues": outside.CONTINUES, "search": outside.describe_search({})}


def _told(steps):
    points = []
    try:
        while True:
            points.append(next(steps))
    except StopIteration as stop:
        return {"curve": points, "result": stop.value}
    except LookupError as error:
        return {"curve": points, "error": type(error).__name__}


def cases():
    there, absent = {"layers": 2, "width": 16}, {"layers": 4, "width": 8}
    curves = {"curves": "curves.jsonl", "curve": "losses"}
    return {
        "hpo.objectives.table": {
            "a row": lambda: _look_up(there, {}),
            "two folds": lambda: _look_up(there, {"fold": 1}, metric=["loss", "loss_2"]),
            "its cost": lambda: _look_up(there, {}, cost="hours"),
            "further metrics": lambda: _look_up(there, {"metrics": ["loss", "size"], "limited": ["hours"]}),
            "an absent row": lambda: _look_up(absent, {}, absent="fail"),
            "the nearest row": lambda: _look_up(absent, {}, absent="nearest"),
            "its curve": lambda: _look_up(there, {}, cost="hours", **curves),
            "a part of its curve": lambda: _look_up(there, {"amount": 3, "trained": 1}, cost="hours", **curves),
        },
        "hpo.objectives.command": {
            "values": lambda: _run("--lr={lr} {model.name} {task.seed} {{lr}}"),
            "all values": lambda: _run("{args}"),
            "flags": lambda: _run("{flag:fast} {task.fold}"),
            "patterns": lambda: _run("{task.folder}", _LOGS, pattern=_STEPS),
            "dicts in lines": lambda: _run("{task.folder}", _LOGS),
            "a file": lambda: _run("{task.folder}", _LOGS, pattern=_STEPS, result="result.csv"),
            "a state": lambda: _run("{task.amount:3}", continues=True),
        },
        "hpo.objectives.outside": {"what it says of itself": _ask},
    }


def run(made):
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        return json.loads(json.dumps(made()))
