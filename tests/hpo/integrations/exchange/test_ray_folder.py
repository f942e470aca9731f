"""Ray Tune's result folders as imports: what counts as finished, and that no pickle is read."""

import json
import os
import pickle
from pathlib import Path

from hpo.errors import DataError, DocumentError
from hpo.integrations.exchange.ray_folder import read_ray
from tests.hpo.cli.commands import hpo
from tests.studies import refuses, rows


class Bomb:
    def __reduce__(self):
        return os.mkdir, ("exploded",)


def write_trial(number, params, results=(), error=None):
    folder = Path(f"sweep/train_{number:05}")
    folder.mkdir(parents=True)
    (folder / "params.json").write_text(json.dumps(params))
    (folder / "result.json").write_text("".join(json.dumps(result) + "\n" for result in results))
    for name in ("params.pkl", "error.pkl"):
        (folder / name).write_bytes(pickle.dumps(Bomb()))
    if error:
        (folder / "error.txt").write_text(f"Traceback (most recent call last):\n  somewhere\n{error}\n\n")
    return folder


def test_how_each_trial_ended(capsys):
    result = {"loss": 0.5, "nested": {"acc": 0.25}, "done": False, "time_total_s": 2.0}
    write_trial(0, {"lr": 0.1, "model": {"layers": 2}}, [result | {"loss": 0.9}, result, {"time_total_s": 5.0}])
    write_trial(1, {"lr": 0.2, "opt": {"name": "sgd"}}, [result], error="RuntimeError: no luck")
    write_trial(2, {"lr": 0.3}, [result])
    write_trial(3, {"lr": 0.4, "opt": None}, [result | {"done": True}])
    write_trial(4, {"lr": 0.5}, [result | {"loss": float("nan")}])
    write_trial(5, {"lr": 0.6, "sizes": [1, 2]}, [{"done": True}])
    write_trial(6, {"lr": 0.7}, [result], error="a first try that failed")
    states = {0: "TERMINATED", 1: "ERROR", 2: "RUNNING", 3: "RUNNING", 4: "TERMINATED", 6: "TERMINATED"}
    trials = [{"relative_logdir": f"train_{number:05}", "status": status} for number, status in states.items()]
    saved = json.dumps({"trial_data": [[json.dumps(each), "{}"] for each in trials]})
    Path("sweep/experiment_state-2026.json").write_text(saved)
    Path("sweep/tuner.pkl").write_bytes(pickle.dumps(Bomb()))
    half = Path("sweep/train_00003/result.json")
    half.write_bytes(half.read_bytes() + '{"loss": 0.25, "name": "größe'.encode()[:-3])
    code, out, _ = hpo(capsys, "import", "sweep", "--ray", "sweep", "--metric", "loss", "--direction", "minimize")
    assert (code, "6 trials, 3 failed, 1 unfinished left out" in out) == (0, True)
    # A choice that is a mapping in some trials alone, too.
    assert "lists or mappings: opt, opt.name, sizes" in out
    table = {row["lr"]: row for row in rows(Path("runs/sweep/trials.csv"))}
    scores = {"0.1": "0.5", "0.4": "0.5", "0.7": "0.5", "0.2": "", "0.5": "", "0.6": ""}
    assert {lr: row["score"] for lr, row in table.items()} == scores
    assert "no luck" in table["0.2"]["error"]
    assert (table["0.1"]["model.layers"], table["0.7"]["model.layers"]) == ("2", "")
    assert ",5.0," in Path("runs/sweep/trials.csv").read_text()
    assert not Path("exploded").exists()


def test_without_states_the_results_and_errors_decide():
    write_trial(0, {"lr": 0.1}, [{"nested": {"acc": 0.25}, "own/f1": 0.25, "done": True}])
    write_trial(1, {"lr": 0.2}, [{"nested": {"acc": 0.75}, "done": False}])
    write_trial(2, {"lr": 0.3}, error="RuntimeError: no luck")
    for metric in ("nested/acc", "nested.acc", "own/f1"):
        read = read_ray(Path("sweep"), metric, None)
        assert ([attempt.score for attempt in read.attempts], read.num_unfinished) == ([0.25, None], 1)


def test_what_cannot_be_read_is_named():
    write_trial(0, {"lr": 0.1}, [{"loss": 1.0, "done": True}])
    refuses(DataError, "no result has 'los'; did you mean 'loss'", read_ray, Path("sweep"), "los", None)
    refuses(DataError, r"no trial with a params.json", read_ray, Path("sweep/train_00000"), "loss", None)
    refuses(DataError, r"^ray: there is no folder gone", read_ray, Path("gone"), "loss", None)
    for text, says in (("{", r"params.json:1:2: is not JSON"), ("[1]", "must be a JSON object, given a list")):
        Path("sweep/train_00000/params.json").write_text(text)
        refuses(DocumentError, says, read_ray, Path("sweep"), "loss", None)
