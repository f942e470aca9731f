"""What people type whose training is a program: flags, lists of arguments, a file of its own in YAML or JSON."""

import json
import sys
from pathlib import Path

import pytest
import yaml

from hpo.cli.main import main
from hpo.config.composing.compose import compose_config
from hpo.config.study_config import config_from_dict
from hpo.study.preparing.preparation import prepare_study
from hpo.trials.space.reader import space_from_dict
from hpo.workers.training.tasks import Payload
from hpo.workers.training.worker import outcome_of, run_task
from tests.hpo.cli.commands import refused
from tests.studies import rows

# Writes down what it was given, and what its file says; its score is the learning rate.
PROGRAM = """\
import json, sys
said = sys.argv[1:]
text = "".join(open(word).read() for word in said if word.endswith((".yaml", ".json")))
with open("seen", "a") as file:
    file.write(json.dumps({"said": said, "text": text}) + "\\n")
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
QUICK = ("study.metric=loss", "study.direction=minimize", "dispatch=local", "track=none", "strategy=grid")
SCALES = "study.scales=[{width: 8}, {width: 16}]"
RATES = "+space.training.learning_rate={choices: [0.1, 1e-3]}"


@pytest.fixture(autouse=True)
def program():
    Path("train.py").write_text(PROGRAM)
    Path("base.yaml").write_text(BASE)


def typed(line, *words):
    return ["search", "objective=command", f"command.line={sys.executable} train.py {line}", *QUICK, *words]


def seen():
    return [json.loads(line) for line in Path("seen").read_text().splitlines()]


def said(line, *words):
    """Return what the program is given in each trial of this search, which is composed and checked as it is typed."""
    config = prepare_study(config_from_dict(compose_config("search", typed(line, *words)[1:]))).config
    space = space_from_dict(config.space)
    Path("seen").unlink(missing_ok=True)
    for point in space.points():
        outcome = outcome_of(run_task(Payload(config.objective, config.trial_config(point), "loss")))
        assert outcome.error is None, outcome.error
    return [one["said"] for one in seen()]


def files(*words, line="{config}"):
    """Return what the program reads in each trial."""
    said(line, "command.config=base.yaml", *words)
    return [yaml.safe_load(one["text"]) for one in seen()]


# Flags.


@pytest.mark.parametrize(
    ("flag", "key", "given"),
    [
        ("{flag:amp}", "amp", "--amp"),
        ("{flag:use_amp}", "use_amp", "--use_amp"),
        ("{flag:training.amp}", "training.amp", "--amp"),
        ("{flag:plain:--no-amp}", "plain", "--no-amp"),
    ],
)
def test_a_flag_is_there_or_not(flag, key, given):
    assert said(f"run {flag} end", f"space.{key}=[true,false]") == [["run", given, "end"], ["run", "end"]]


@pytest.mark.nightly
def test_a_flag_must_be_true_or_false(capsys):
    err = refused(capsys, *typed("{flag:amp}", "space.amp=[1,2]"))
    assert "amp: must be true or false for {flag:amp} in command.line, given 1" in err
    err = refused(capsys, *typed("{flag:amp} {lr}", "+amp=yes-please", "space.lr=[1,2]"))
    assert "amp: must be true or false for {flag:amp} in command.line, given 'yes-please'" in err
    assert "did you mean 'amp'?" in refused(capsys, *typed("{flag:amp}", "space.ammp=[true,false]"))
    err = refused(capsys, *typed("--amp={flag:amp}", "space.amp=[true,false]"))
    assert "{flag:amp} must be a separate word, given '--amp={flag:amp}'" in err


# All values at once.


def test_all_values_are_key_value_pairs():
    words = ("space.lr=[0.1]", "space.optim.layers=[3]", "+amp=true", "+shape=[64,32]", "+note=two words", "+none=null")
    (given,) = said("{args} --seed={task.seed}", *words)
    assert given[:-1] == ["--amp=true", "--shape=[64, 32]", "--note=two words", "--lr=0.1", "--layers=3"]


def test_two_keys_with_one_last_part_are_whole_and_what_stands_elsewhere_is_left_out():
    words = ("space.encoder.layers=[1]", "space.decoder.layers=[2]", "space.amp=[true]", "space.lr=[0.5]", "+wd=1")
    (given,) = said("--rate {lr} {args} {flag:amp}", *words)
    assert given == ["--rate", "0.5", "--wd=1", "--encoder.layers=1", "--decoder.layers=2", "--amp"]


def test_all_values_are_words_of_their_own(capsys):
    assert "{args} must be a separate word" in refused(capsys, *typed("--all={args}", "space.lr=[1,2]", "+lr=1"))


@pytest.mark.nightly
def test_a_mapping_that_is_searched_is_one_value():
    space = "space.optimizer={choices: [{name: adam, betas: [0.9, 0.99]}, sgd]}"
    adam = '{"name": "adam", "betas": [0.9, 0.99]}'
    assert said("{args} {optimizer}", space) == [[adam], ["sgd"]]
    assert said("{args}", space, "+nested.rate=1") == [
        ["--rate=1", f"--optimizer={adam}"],
        ["--rate=1", "--optimizer=sgd"],
    ]


def test_a_key_that_is_called_args_or_config_is_a_key():
    given = said("{args} x{args} {config}", "space.args=[1,2]", "space.config=[small]")
    assert given == [["1", "x1", "small"], ["2", "x2", "small"]]


# A file of its own.


def test_each_trial_has_its_own_copy_of_the_file_with_its_values():
    read = files(RATES, "+training.epochs=3", line="--config {config}")
    base = yaml.safe_load(BASE)
    base["training"]["epochs"] = 3
    assert [tree["training"]["learning_rate"] for tree in read] == [0.1, 0.001]
    assert [{**tree, "training": {**tree["training"], "learning_rate": "1e-3"}} for tree in read] == [base, base]
    paths = [Path(one["said"][1]) for one in seen()]
    assert len({*paths}) == 2
    assert [(path.name, path.exists()) for path in paths] == [("base.yaml", False)] * 2
    assert yaml.safe_load(Path("base.yaml").read_text()) == yaml.safe_load(BASE)


def test_the_values_in_the_file_are_the_default_and_are_tried_first():
    rate = "+space.training.learning_rate={low: 1e-5, high: 1.0, log: true}"
    words = (rate, "+space.training.epochs={low: 1, high: 50}", "space.amp=[true,false]")
    assert (
        main(typed("{config} {flag:amp}", "command.config=base.yaml", *words, "study.trials=1", "strategy=random")) == 0
    )
    (only,) = seen()
    assert "--amp" not in only["said"]
    assert yaml.safe_load(only["text"])["training"] == {"learning_rate": 0.001, "epochs": 30, "use_amp": False}
    frozen = yaml.safe_load(Path("runs/command/config.yaml").read_text())
    assert frozen["training"] == {"learning_rate": 0.001, "epochs": 30}


@pytest.mark.nightly
def test_a_mapping_of_the_file_is_replaced_as_a_whole():
    adam = "{name: adam, lr: 0.1, betas: [0.9, 0.99]}"
    space = f"+space.optimizer={{choices: [{{name: sgd, momentum: 0.9}}, {adam}, null]}}"
    assert main(typed("{config}", "command.config=base.yaml", space)) == 0
    read = [yaml.safe_load(one["text"])["optimizer"] for one in seen()]
    assert read == [{"name": "adam", "lr": 0.1, "betas": [0.9, 0.99]}, None, {"name": "sgd", "momentum": 0.9}]
    assert main(["reproduce", "command"]) == 0
    Path("seen").unlink()
    assert main(["train", "--config", "runs/command/best.yaml"]) == 0
    assert yaml.safe_load(seen()[0]["text"])["optimizer"] in read


def test_a_key_that_the_study_has_too_is_the_files_where_it_is_searched():
    assert [tree["data"]["name"] for tree in files(RATES)] == ["wmt", "wmt"]
    read = files("+space.data.name={choices: [wmt14, wmt17]}")
    assert [tree["data"] for tree in read] == [{"name": name, "train": "train.de"} for name in ("wmt14", "wmt17")]


def test_a_file_in_json_and_its_folder():
    Path("base.json").write_text(json.dumps({"lr": 0.5, "task": {"name": "x"}}))
    words = ("command.config=base.json", "space.lr=[0.25]")
    (given,) = said("{config} --config-dir {config.dir} {args}", *words, "+more=1")
    assert given[1:] == ["--config-dir", str(Path(given[0]).parent), "--more=1"]
    assert json.loads(seen()[0]["text"]) == {"lr": 0.25, "task": {"name": "x"}}


@pytest.mark.quick("words[012]-*")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ["{config}", "+space.training.lerning_rate=[0.1,0.2]", "command.config=base.yaml"],
            "training.lerning_rate: base.yaml has no such key, and command.line has no {training.lerning_rate}; "
            "did you mean 'training.learning_rate'?",
        ),
        (
            ["{config}", RATES, "+training.epoch=3", "command.config=base.yaml"],
            "training.epoch: base.yaml has no such key, and command.line has no {training.epoch}; "
            "did you mean 'training.epochs'?",
        ),
        (["{lr}", "space.lr=[1,2]", "command.config=base.yaml"], "command.config: has no effect, because command.line"),
        (["{config}", RATES], "command.config: is missing, but command.line has {config}"),
        (["{config}", RATES, "command.config=bass.yaml"], "command.config: bass.yaml: cannot be read: No such file"),
        (
            ["{config}", RATES, "command.config=3"],
            "command.config: must be the path of a file in YAML or JSON, given 3",
        ),
        (["{config}", RATES, "command.config=train.py"], "command.config: train.py:4:31: is not valid YAML"),
        (
            ["{lr}", "space.lr=[1,2]", "space.amp=[true,false]", "+amp=true"],
            "amp: command.line has no {amp}; write",
        ),
        (["{lr} {flag:fp16}", "space.lr=[1,2]", "space.amp=[true,false]"], "amp: command.line has no {amp}"),
        (["{lr}", "space.lr=[1,2]", "+width=8", SCALES], "width: command.line has no {width}"),
        (["{config}", RATES, "command.confg=base.yaml"], "did you mean 'command.config'?"),
    ],
)
def test_what_has_no_place_is_refused(capsys, words, says):
    assert says in refused(capsys, *typed(*words))
    assert not Path("runs").exists()


@pytest.mark.nightly
def test_a_key_that_others_refer_to_need_not_stand_in_the_line(capsys):
    assert main(typed("{lr}", "+base=1", "+lr=${base}", "space.base=[1,2]")) == 0
    assert [given["said"] for given in seen()] == [["1"], ["2"]]


@pytest.mark.slow
@pytest.mark.parametrize("line", ["--lr={lr} --width={width}", "{args}"])
def test_a_search_over_scales_goes_on_and_each_scale_is_in_the_words(line):
    assert main(typed(line, "space.lr=[1,2]", "+width=8", SCALES, "study.trials=3")) == 0
    assert main(["resume", "command", "study.trials=4"]) == 0
    assert {tuple(sorted(given["said"])) for given in seen()} == {
        (f"--lr={lr}", f"--width={width}") for lr in (1, 2) for width in (8, 16)
    }


@pytest.mark.nightly
def test_a_change_of_the_file_is_noticed_and_the_same_words_go_on(capsys):
    words = typed("{config}", RATES, "command.config=base.yaml")
    assert main([*words, "study.trials=1"]) == 0
    assert main([*words, "study.trials=2"]) == 0
    assert len(rows(Path("runs/command/trials.csv"))) == 2
    capsys.readouterr()
    Path("base.yaml").write_text(BASE.replace("512", "256"))
    assert "code: base.yaml (run) was " in refused(capsys, "resume", "command", "study.trials=3")


def test_a_strangers_file_is_shown(capsys, monkeypatch):
    assert main(typed("{config}", RATES, "command.config=base.yaml")) == 0
    monkeypatch.setenv("XDG_STATE_HOME", str(Path("state").absolute()))
    assert "command.config='base.yaml'" in refused(capsys, "reproduce", "command")


# What is read of a program's output: real logs, a file, a state.

# As nanoGPT prints: it goes on from its checkpoint, and evaluates there once more.
NANO = """\
import argparse, json, pathlib
parser = argparse.ArgumentParser()
parser.add_argument("--learning_rate", type=float)
parser.add_argument("--max_iters", type=int)
parser.add_argument("--out_dir", type=pathlib.Path)
given = parser.parse_args()
state = given.out_dir / "ckpt.json"
start = json.loads(state.read_text()) if state.exists() else 0
print(f"starts at {start}")
for step in range(start, given.max_iters + 1):
    loss = abs(given.learning_rate - 0.3) + 1 / (step + 1)
    if step % 250 == 0:
        print(f"step {step}: train loss {loss:.4f}, val loss {loss + 0.1:.4f}", flush=True)
        state.write_text(json.dumps(step))
    if step % 50 == 0:
        print(f"iter {step}: loss {loss:.4f}, time 33.10ms, mfu -100.00%")
"""
HUGGING_FACE = """\
import sys
rate = float(sys.argv[1])
for epoch in (1.0, 2.0):
    print({"loss": 1.5, "grad_norm": float("nan"), "epoch": epoch})
    print({"eval_loss": rate + 1 / epoch, "eval_runtime": 0.1, "epoch": epoch})
print({"train_runtime": "1.3", "train_loss": "0.6", "epoch": "2"})
print({"eval_loss": rate + 0.5, "epoch": 2.0})
"""
FAIRSEQ = """\
import sys
print("2026-11-29 10:00:00 | INFO | fairseq_cli.train | {'_name': None, 'common': {'seed': 1, 'log_interval': 100}}")
for epoch in (1, 2):
    print('2026 | INFO | train_inner | {"epoch": %d, "update": 0.5, "loss": "5.2"}' % epoch)
    loss = float(sys.argv[1]) + 1 / epoch
    print('2026 | INFO | valid | {"epoch": %d, "valid_loss": "%.3f", "valid_ppl": "17.1"}' % (epoch, loss))
    print('2026 | INFO | train | {"epoch": %d, "train_loss": "4.5"}' % epoch)
"""
NANO_PATTERNS = "command.pattern={val_loss: 'val loss ([0-9.]+)', step: '^step ([0-9]+)'}"
STATE = ("{task.resume_dir}", "command.continues=true", NANO_PATTERNS, "study.metric=val_loss")
NANO_LINE = "--learning_rate={lr} --max_iters={task.amount:1000} --out_dir={task.resume_dir}"


def curve_of(program, line, metric, *words, **task):
    """Return the curve and the metrics of one training, which is composed and checked as it is typed."""
    Path("train.py").write_text(program)
    tree = compose_config(
        "search", typed(f"{line} {{lr}}", "space.lr=[0.25,0.5]", f"study.metric={metric}", *words)[1:]
    )
    config = prepare_study(config_from_dict(tree)).config
    outcome = outcome_of(run_task(Payload(config.objective, config.trial_config({"lr": 0.25}), metric, **task)))
    assert outcome.error is None, outcome.error
    return [{**point} for point in outcome.curve], dict(outcome.metrics)


def test_the_log_of_hugging_faces_trainer_is_read():
    points, metrics = curve_of(HUGGING_FACE, "", "eval_loss", direction="minimize")
    assert [(point["epoch"], point.get("eval_loss")) for point in points] == [(1.0, 1.25), (2.0, 0.75)]
    assert metrics["eval_loss"] == 0.75


def test_the_log_of_fairseq_is_read():
    points, metrics = curve_of(FAIRSEQ, "", "valid_loss", direction="minimize")
    assert points == [
        {"epoch": 1, "valid_loss": 1.25, "valid_ppl": 17.1},
        {"epoch": 2, "valid_loss": 0.75, "valid_ppl": 17.1},
    ]
    assert metrics == {"valid_loss": 0.75, "valid_ppl": 17.1}


def test_the_log_of_nano_gpt_is_read_by_patterns():
    loss = (
        "command.pattern={val_loss: 'val loss ([0-9.]+)', loss: 'iter .*: loss ([0-9.]+)', step: '^[a-z]+ ([0-9]+):'}"
    )
    line = "--out_dir={task.folder} --max_iters 300 --learning_rate"
    points, metrics = curve_of(NANO, line, "val_loss", loss, direction="minimize")
    steps = [0, 50, 100, 150, 200, 250, 300]
    assert [point["step"] for point in points] == steps
    assert [point["step"] for point in points if "val_loss" in point] == [0, 250]
    assert (metrics["val_loss"], metrics.keys()) == (points[5]["val_loss"], {"val_loss", "loss"})


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("result.json", '{"eval": {"acc": "0.5"}, "name": "x"}', {"eval/acc": 0.5}),
        ("out/all.csv", "epoch, eval/acc ,size\n1,0.25,3\n2,0.5,\n", {"eval/acc": 0.5}),
    ],
)
def test_a_file_has_the_result_and_lines_the_curve(name, text, expected):
    program = "import pathlib, sys\nfor epoch in (1, 2): print('epoch', epoch, 'loss', 1 / epoch)\n"
    program += (
        f"path = pathlib.Path(sys.argv[1], {name!r}); path.parent.mkdir(exist_ok=True); path.write_text({text!r})"
    )
    patterns = "command.pattern={loss: 'loss ([0-9.]+)', epoch: 'epoch ([0-9]+)'}"
    words = ("study.direction=maximize", patterns, f"command.result={name}")
    points, metrics = curve_of(program, "{task.folder}", "eval/acc", *words)
    assert points == [{"epoch": 1, "loss": 1.0}, {"epoch": 2, "loss": 0.5}]
    assert metrics == {"loss": 0.5, **expected}


@pytest.mark.slow
def test_asha_trains_a_program_further_and_a_full_training_has_its_own_amount(capsys):
    Path("train.py").write_text(NANO)
    space = "space.lr={low: 0.1, high: 0.5}"
    words = [*STATE[1:], "+lr=0.3", space, "study.trials=5", "dispatch=local", "track=none"]
    asha = ["strategy=asha", "strategy.max_amount=1000", "strategy.min_amount=250", "strategy.eta=2"]
    line = f"command.line={sys.executable} train.py {NANO_LINE}"
    assert main(["search", "objective=command", line, *words, *asha]) == 0
    found = rows(Path("runs/command/trials.csv"))
    assert {row["amount"] for row in found} == {"250", "1000"}
    said = "".join(path.read_text() for path in Path("runs/command/logs").iterdir())
    assert "starts at 250\n" in said
    assert main(["reproduce", "command"]) == 0
    assert main(["search", "objective=command", line, *words, "strategy=random", "study.name=full"]) == 0
    assert "step 1000" in Path("runs/full/logs/trial_0000_fold_0.log").read_text()
    assert main(["train", "--config", "runs/command/best.yaml"]) == 0


@pytest.mark.quick("words[0-6]-*")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "words", "says"),
    [
        ("", ["command.pattern={loss: 'loss ([0-9.]+'}"], "command.pattern.loss: is not a valid regular expression"),
        ("", ["command.pattern={loss: 'loss [0-9.]+'}"], "command.pattern.loss: must have one group"),
        ("", ["command.pattern={step: 'step ([0-9]+)'}"], "command.pattern: must have a regular expression for a metr"),
        ("", ["command.pattern={lost: 'loss ([0-9]+)'}"], "study.metric: must be one of lost, given 'loss'"),
        ("", ["command.pattern={loss: 3}"], "command.pattern.loss: must be a regular expression, given 3"),
        ("", ["command.result=out.json"], "command.result: has no effect, because command.line has no {task.folder}"),
        (
            "{task.folder}",
            ["command.result=../out.json"],
            "command.result: must be the name of a file in {task.folder}",
        ),
        ("{task.folder}", ["command.result=out.txt"], "that ends in .json or .csv, given 'out.txt'"),
        ("{task.amount}", [], "command.line: {task.amount} needs command.continues=true"),
        (
            "",
            ["command.continues=true"],
            "command.continues: has no effect, because command.line has no {task.resume_d",
        ),
        ("{task.resume_dir}", ["command.continues=1"], "command.continues: must be true or false, given 1"),
        (
            "{task.amount} {task.resume_dir}",
            ["command.continues=true"],
            "grid trains without amounts, and the objective needs them: {task.amount} in command.line has no value",
        ),
        ("", ["strategy=asha", "strategy.max_amount=4"], "asha continues trainings, and for this the objective"),
    ],
)
def test_what_cannot_be_read_of_a_program_is_refused(capsys, line, words, says):
    assert says in refused(capsys, *typed(f"{line} {{lr}}", "space.lr=[1,2]", *words))
    assert not Path("runs").exists()
