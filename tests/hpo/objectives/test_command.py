"""A program as objective: the words and the file that it is given, its code, and its process."""

import json
import sys
import time
from pathlib import Path

import psutil
import pytest
import yaml

from hpo.cli.main import main
from hpo.objectives.command import code_files, describe_search
from hpo.trials.space.reader import space_from_dict
from hpo.workers.objective.source_files import RUN, digests_of_run
from hpo.workers.training.tasks import Payload
from hpo.workers.training.worker import outcome_of, run_task
from tests.hpo.cli.commands import hpo, refused
from tests.studies import composed, rows

# Writes down what it was given, and what its file says.
PROGRAM = """\
import json, sys
words = sys.argv[1:]
text = "".join(open(word).read() for word in words if word.endswith((".yaml", ".json")))
with open("seen", "a") as file:
    file.write(json.dumps({"words": words, "text": text}) + "\\n")
print(json.dumps({"loss": 1.0}))
"""
# As Joey NMT, axolotl and nanoGPT have them; YAML reads 1e-3 as a text.
BASE = """\
name: small
data: {name: wmt, train: train.de}
training: {learning_rate: 1e-3, epochs: 30, use_amp: false}
model:
  encoder: {layers: 6, hidden: 512}
  betas: [0.9, 0.99]
optimizer: {name: adam, lr: 0.1, betas: [0.9, 0.99]}
"""
LOCAL = ("dispatch=local", "track=none")
QUICK = ("study.metric=loss", "study.direction=minimize", "strategy=grid", *LOCAL)
RATES = "+space.training.learning_rate={choices: [0.1, 1e-3]}"
FILE = "command.config=base.yaml"
SCALES = "study.scales=[{width: 8}, {width: 16}]"
LR, AMP = "space.lr=[1,2]", "space.amp=[true,false]"
CONTINUES = "command.continues=true"
ADAM = '{"name": "adam", "betas": [0.9, 0.99]}'
OPTIMIZERS = "space.optimizer={choices: [{name: adam, betas: [0.9, 0.99]}, sgd]}"
CONSTANTS = ("+amp=true", "+shape=[64,32]", "+note=two words", "+none=null")


@pytest.fixture(autouse=True)
def program():
    Path("train.py").write_text(PROGRAM)
    Path("base.yaml").write_text(BASE)


def typed(line, *words):
    return ["search", "objective=command", f"command.line={sys.executable} train.py {line}", *QUICK, *words]


def seen():
    return [json.loads(line) for line in Path("seen").read_text().splitlines()]


def words_of(line, *words):
    config = composed(*typed(line, *words)[1:]).config
    Path("seen").unlink(missing_ok=True)
    for point in space_from_dict(config.space).points():
        outcome = outcome_of(run_task(Payload(config.objective, config.trial_config(point), "loss")))
        assert outcome.error is None, outcome.error
    return [one["words"] for one in seen()]


def files(*words, line="{config}"):
    words_of(line, FILE, *words)
    return [yaml.safe_load(one["text"]) for one in seen()]


def python(code, *words):
    Path("train.py").write_text(code)
    return " ".join((sys.executable, "train.py", *words))


def run(line, metric="loss", settings=None, **task):
    config = {"command": {"line": line, **(settings or {})}, "lr": 0.5, "model": {"name": "big one"}, "none": None}
    return run_task(Payload("hpo.objectives.command:run_fold", config, metric, **task))


def test_each_value_is_one_word_as_it_is():
    code = "import sys, json; json.dump({'loss': 1}, sys.stdout); json.dump(sys.argv[1:], open('got', 'w'))"
    words = ("--lr={lr}", "{model.name}", "'two words {lr}'", "{{lr}}", "{task.seed}", "{none}", "$HOME;ls")
    assert outcome_of(run(python(code, *words), seed=7)).error is None
    assert json.loads(Path("got").read_text()) == ["--lr=0.5", "big one", "two words 0.5", "{lr}", "7", "", "$HOME;ls"]


@pytest.mark.parametrize(("line", "words", "expected"), [
    ("run {flag:amp} end", ["space.amp=[true,false]"], ["run --amp end", "run end"]),
    ("run {flag:plain:--no-amp} end", ["space.plain=[true,false]"], ["run --no-amp end", "run end"]),
    ("{args}", ["space.lr=[0.1]", "space.optim.layers=[3]", *CONSTANTS],
     ["--amp=true --shape=[64, 32] --note=two words --lr=0.1 --layers=3"]),
    ("--rate {lr} {args} {flag:amp}",  # {args} has what has no other place; keys with one last part are whole
     ["space.encoder.layers=[1]", "space.decoder.layers=[2]", "space.amp=[true]", "space.lr=[0.5]", "+wd=1"],
     ["--rate 0.5 --wd=1 --encoder.layers=1 --decoder.layers=2 --amp"]),
    ("--lr {training.lr} {args}", ["space.training.lr=[1]", "+model.lr=2"], ["--lr 1 --model.lr=2"]),
    ("{args} {optimizer}", [OPTIMIZERS], [ADAM, "sgd"]),
    ("{args}", [OPTIMIZERS, "+nested.rate=1"], [f"--rate=1 --optimizer={ADAM}", "--rate=1 --optimizer=sgd"]),
    ("{lr}", ["+base=1", "+lr=${base}", "space.base=[1,2]"], ["1", "2"]),
    ("{args} {width}", ["space.lr=[1,2]", "+width=4", SCALES], ["--lr=1 8", "--lr=1 16", "--lr=2 8", "--lr=2 16"]),
])  # fmt: skip
def test_each_value_has_its_place_in_the_line(line, words, expected):
    assert [" ".join(given) for given in words_of(line, *words)] == expected


def test_each_trial_has_its_own_copy_of_the_file_with_its_values():
    read, base = files(RATES, "+training.epochs=3", line="--config {config}"), yaml.safe_load(BASE)
    base["training"]["epochs"] = 3
    assert [tree["training"]["learning_rate"] for tree in read] == [0.1, 0.001]
    assert [{**tree, "training": {**tree["training"], "learning_rate": "1e-3"}} for tree in read] == [base, base]
    paths = [Path(one["words"][1]) for one in seen()]
    assert (len({*paths}), [(path.name, path.exists()) for path in paths]) == (2, [("base.yaml", False)] * 2)
    assert yaml.safe_load(Path("base.yaml").read_text()) == yaml.safe_load(BASE)


@pytest.mark.slow
def test_the_values_in_the_file_are_the_default_and_are_tried_first_and_a_stranger_sees_the_file(capsys, monkeypatch):
    rate = "+space.training.learning_rate={low: 1e-5, high: 1.0, log: true}"
    words = (rate, "+space.training.epochs={low: 1, high: 50}", "space.amp=[true,false]", "strategy=random")
    assert main(typed("{config} {flag:amp}", FILE, *words, "study.trials=1")) == 0
    (only,) = seen()
    assert "--amp" not in only["words"]
    assert yaml.safe_load(only["text"])["training"] == {"learning_rate": 0.001, "epochs": 30, "use_amp": False}
    frozen = yaml.safe_load(Path("runs/command/config.yaml").read_text())
    assert (frozen["training"], main(["reproduce", "command"])) == ({"learning_rate": 0.001, "epochs": 30}, 0)
    assert main(["train", "--config", "runs/command/best.yaml"]) == 0
    assert [one["text"] for one in seen()] == [only["text"]] * 3
    monkeypatch.setenv("XDG_STATE_HOME", str(Path("state").absolute()))
    assert "command.config='base.yaml'" in refused(capsys, "reproduce", "command")


def test_a_mapping_of_the_file_is_replaced_as_a_whole_and_a_key_of_the_study_is_the_files_where_it_is_searched():
    read = files("+space.optimizer={choices: [{name: sgd, momentum: 0.9}, {name: adam, lr: 0.1}, null]}")
    assert [tree["optimizer"] for tree in read] == [{"name": "sgd", "momentum": 0.9}, {"name": "adam", "lr": 0.1}, None]
    assert [tree["data"]["name"] for tree in read] == ["wmt"] * 3
    read = files("+space.data.name={choices: [wmt14, wmt17]}")
    assert [tree["data"] for tree in read] == [{"name": name, "train": "train.de"} for name in ("wmt14", "wmt17")]


def test_a_file_in_json_and_its_folder():
    Path("base.json").write_text(json.dumps({"lr": 0.5, "task": {"name": "x"}}))
    words = ("{config} --config-dir {config.dir} {args}", "command.config=base.json", "space.lr=[0.25]", "+more=1")
    (given,) = words_of(*words)
    assert given[1:] == ["--config-dir", str(Path(given[0]).parent), "--more=1"]
    assert json.loads(seen()[0]["text"]) == {"lr": 0.25, "task": {"name": "x"}}


@pytest.mark.parametrize(("line", "words", "says"), [
    ("{flag:amp}", ["space.amp=[1,2]"], "amp: must be true or false for {flag:amp} in command.line, given 1"),
    ("{flag:amp}", ["space.ammp=[true,false]"], "did you mean 'amp'?"),
    ("{lr} {decay}", [LR], "'decay', which is neither searched nor in the configuration"),
    ("{lr", [LR], "command.line: cannot be read"),
    ("--amp={flag:amp}", [AMP], "{flag:amp} must be a separate word, given '--amp={flag:amp}'"),
    ("--all={args}", [LR, "+lr=1"], "{args} must be a separate word"),
    ("{lr} {task.sead}", [LR], "must not have {task.sead}; did you mean 'seed'"),
    ("{lr:.2e}", [LR], "must have placeholders without a format, given {lr:.2e}; write {lr}"),
    ("{config}", [RATES, "command.config=3"], "config: must be the path of a file in YAML or JSON, given 3"),
    ("{lr}", [LR, "command.pattern={loss: 'loss [0-9.]+'}"], "command.pattern.loss: must have one group"),
    ("{lr}", [LR, "command.pattern={loss: 3}"], "command.pattern.loss: must be a regular expression, given 3"),
    ("{lr}", [LR, CONTINUES], "command.continues: has no effect, because command.line has no {task.resume_d"),
    ("{lr} {task.resume_dir}", [LR, "command.continues=1"], "continues: must be true or false, given 1"),
    ("{config}", ["+space.training.lerning_rate=[1]", FILE], "did you mean 'training.learning_rate'"),
    ("{config}", [RATES, "+training.epoch=3", FILE], "training.epoch: is not a key of base.yaml, and command.line"),
    ("{lr}", [LR, FILE], "command.config: has no effect, because command.line"),
    ("{config}", [RATES], "command.config: is missing, but command.line has {config}"),
    ("{config}", [RATES, "command.config=bass.yaml"], "command.config: bass.yaml: cannot be read: No such file"),
    ("{lr}", [LR, AMP, "+amp=true"], "amp: command.line has no {amp}; add"),
    ("{lr}", [LR, "command.pattern={loss: 'loss ([0-9.]+'}"], "pattern.loss: is not a valid regular expression"),
    ("{lr}", [LR, "command.pattern={step: '(.)'}"], "command.pattern: must have a regular expression for a metr"),
    ("{lr} {task.folder}", [LR, "command.result=../out.json"], "result: must be the name of a file in {task"),
    ("{lr} {task.amount}", [LR], "command.line: {task.amount} needs command.continues=true"),
    ("{lr} {task.amount} {task.resume_dir}", [LR, CONTINUES], "grid sets no amounts of training, but the obj"),
    ("{lr}", [LR, "strategy=asha", "strategy.max_amount=4"], "asha continues trainings, so the objective needs"),
])  # fmt: skip
def test_what_a_program_cannot_take_is_refused(capsys, line, words, says):
    assert says in refused(capsys, *typed(line, *words))
    assert not Path("runs").exists()


def test_a_missing_command_is_refused(capsys):
    assert "command.line: must be a command, such as" in refused(capsys, "search", "objective=command", LR, *QUICK)


MODULES = {
    **{"beside.py": "import unread", "single.py": "import beside", "pkg/__main__.py": "from . import inner"},
    **{"scripts/train.py": "import near, lib, numpy", "src/far/run.py": "import lib"},
    **dict.fromkeys(("lib.py", "pkg/__init__.py", "pkg/inner.py", "pkg/other.py", "scripts/near.py"), ""),
    **dict.fromkeys(("data/a.txt", "small.yaml", "elsewhere/away.py", "out.csv", "run.sh"), ""),
    "results.json": "of the last time",
}
PACKAGE = ["pkg/__init__.py", "pkg/__main__.py", "pkg/inner.py", "pkg/other.py"]
SCRIPT = ["lib.py", "scripts/near.py", "scripts/train.py"]


@pytest.mark.parametrize(("line", "files"), [
    ("python lib.py --config=small.yaml {lr} data results.json none \0", ["lib.py", "small.yaml"]),
    ("./run.sh 'o{{ut.csv' $PWD/lib.py", ["./run.sh", "$PWD/lib.py"]), ("python -c 1", []),
    ("python -m single {lr}", ["beside.py", "single.py"]), ("python -u -m pkg --lr {lr}", PACKAGE),
    ("torchrun scripts/train.py {lr}", SCRIPT),
    ("accelerate launch --config_file=small.yaml --module single", ["beside.py", "single.py", "small.yaml"]),
    ("python pkg", PACKAGE), ("python -m far.run", ["lib.py", "src/far/run.py"]),
    ("env PYTHONPATH=elsewhere python -m away", ["elsewhere/away.py"]),
])  # fmt: skip
def test_files_and_modules_that_it_names_are_code_and_so_is_what_python_files_import(monkeypatch, line, files):
    for name, text in MODULES.items():
        Path(name).parent.mkdir(exist_ok=True, parents=True)
        Path(name).write_text(text)
    monkeypatch.setenv("PYTHONPATH", "src")
    config = {"command": {"line": line.replace("$PWD", str(Path.cwd()))}}
    found = [name.removesuffix(RUN) for name in digests_of_run(code_files(config), Path.cwd())]
    assert found == [name.replace("$PWD", str(Path.cwd())) for name in files]
    assert any("do not notice" in note for note in describe_search(config)["notes"]) == (not files)


def test_a_secret_in_the_line_is_noted_by_its_name_and_not_shown():
    given = "--api-key sk-1234567 WANDB_API_KEY=abcdefgh --key 64 --token $TOKEN --password {lr} --secret=xyz"
    notes = describe_search({"command": {"line": f"python -c 1 {given}"}})["notes"]
    assert [note.split()[4] for note in notes if "value of" in note] == ["--api-key", "WANDB_API_KEY", "--secret"]
    assert not {"1234567", "abcdefgh", "xyz"} & set("".join(notes).split())


@pytest.mark.parametrize(("line", "says"), [
    ("pyhton lib.py {lr}", "pyhton cannot be run on this machine"),
    ("python trian.py {lr}", "there is no file trian.py on this machine"), ("python lib.py --hook absent.py {lr}", ""),
    ("bin/python -m absent {lr}", "the module absent is neither in the working directory nor on PYTHONPATH"),
])  # fmt: skip
def test_a_program_script_or_module_that_is_missing_here_is_noted_before_the_search(line, says):
    Path("bin").mkdir()
    Path("lib.py").touch()
    Path("bin/python").touch(mode=0o755)
    notes = describe_search({"command": {"line": line}})["notes"]
    assert (len(notes), says in "".join(notes)) == (bool(says), True)


TRAINS = """\
import json, pathlib, sys
pathlib.Path("log.txt").open("a").write("trained")
if sys.argv[1] == "2.0" and pathlib.Path("edit").exists():
    pathlib.Path("edit").unlink()
    script = pathlib.Path("train.py")
    script.write_text(script.read_text().replace("1 * float", "1000 * float"))
print(json.dumps({"loss": 1 * float(sys.argv[1])}))
"""


@pytest.mark.slow
def test_a_script_that_changes_while_the_search_runs_stops_it(capsys):
    python(TRAINS)
    Path("edit").touch()
    code, out, err = hpo(capsys, *typed("{lr} log.txt", "space.lr=[1.0, 2.0, 3.0]"))
    assert code == 1
    assert "objective: train.py has changed while the search runs" in out + err
    assert "code: train.py (run) was " in refused(capsys, "resume", "command")
    python(TRAINS)
    assert main(["resume", "command"]) == 0
    assert sorted(float(row["score"]) for row in rows(Path("runs/command/trials.csv"))) == [1, 2, 3]


@pytest.mark.slow
def test_what_a_stopped_command_has_started_ends_too():
    code = "import subprocess, time; p = subprocess.Popen(['sleep', '60'])\n"
    code += "open('child', 'w').write(str(p.pid)); print('{\"loss\": 1}', flush=True); time.sleep(60)"
    messages = run(python(code))
    assert next(messages)["point"]["loss"] == 1  # read while the command runs
    child = psutil.Process(int(Path("child").read_text()))
    messages.close()
    gone, _ = psutil.wait_procs([child], timeout=20)
    assert gone or child.status() == psutil.STATUS_ZOMBIE


def test_what_it_leaves_running_holds_up_no_trial():
    code = "import subprocess; print('x' * 200_000); print('10 %\\r{\"loss\": 1}\\r\\n{\"loss\": 2}', flush=True)\n"
    code += "p = subprocess.Popen(['yes'])\nopen('child', 'w').write(str(p.pid))"
    before, began = psutil.Process().num_fds(), time.perf_counter()
    outcome = outcome_of(run(python(code)))
    took = time.perf_counter() - began
    psutil.Process(int(Path("child").read_text())).kill()
    assert (outcome.error, outcome.metrics, took < 20) == (None, {"loss": 2}, True)
    assert psutil.Process().num_fds() == before
