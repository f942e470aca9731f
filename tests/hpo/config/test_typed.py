"""What users type and write: objectives, keys with dots, metrics, words that are nearly right, and spaces."""

import os
import signal
import sys
from pathlib import Path

import pytest
import yaml

import hpo as toolkit
from hpo.cli.main import main
from hpo.commands.given.settings import compose_search
from hpo.config.directions import known_direction
from hpo.errors import ConfigError, HpoError, SpaceError
from hpo.integrations.defaults import default_strategy
from hpo.session import session
from hpo.trials.space.reader import space_from_dict
from hpo.trials.space.written import as_meant, explicit_space
from model.tasks.directions import DIRECTIONS
from tests.hpo.cli.commands import hpo, refused
from tests.hpo.commands.searched import found, note, noted
from tests.studies import refuses

TRAINER = """
def train(config, trial):
    trial.report(epoch=1, score=config["lr"])
    return {"score": config["lr"]}
def silent(config, trial):
    trial.report(epoch=1, score=0.5)
    trial.report(epoch=2, score=config["lr"])
def score(config):
    return {"score": config["lr"]}
def own(config):
    assert set(config) <= {"lr", "model"}, config
    return config["lr"]
"""
RUN = ("study.trials=2", "dispatch=local", "track=none", "report.figures=false")
CALLED = "objective=typed_trainer:train(config, trial)"


@pytest.fixture(autouse=True)
def trainer(monkeypatch):
    monkeypatch.syspath_prepend(str(Path.cwd()))
    monkeypatch.delitem(sys.modules, "typed_trainer", raising=False)
    Path("typed_trainer.py").write_text(TRAINER)


@pytest.mark.slow
def test_an_objective_of_a_configuration_gets_its_own_keys_alone(capsys):
    typed = ("objective=typed_trainer:own(config)", "+lr=0.25")
    _, out, err = hpo(capsys, "search", *typed, "space.lr=[0.25,0.5]", *RUN)
    assert "study own: 2 trials, score (maximize)" in out, err
    assert "winner: trial" in out
    chosen = toolkit.compose(*typed, "model=decoder", "study.metric=loss")
    assert (chosen["model"]["shape"], chosen["study"]["direction"]) == ("decoder", "minimize")
    assert toolkit.compose(*typed, "data=digits")["training"]["epochs"] == 15
    assert refused(capsys, "search", *typed, "training.epochs=3").startswith("error: training.epochs: there is no such")


@pytest.mark.slow
def test_an_objective_is_trained_once(capsys):
    silent = ("objective=typed_trainer:silent(config, trial)", "+lr=0.25")
    line = """command.line=echo '{{"score": {lr}}}'"""
    for typed, score in (
        ([*silent], "score = 0.5"),
        ([*silent, "study.score=last"], "score = 0.25"),
        (["objective=command", line, "+lr=3", "study.metric=score"], "score = 3"),
    ):
        code, out, err = hpo(capsys, "train", *typed)
        assert (code, score in out, err) == (0, True, "")
    assert "'best' or 'last'" in refused(capsys, "train", *silent, "study.score=first")
    for group in ("dispatch=local", "+dispatch=local", "track=none"):
        assert ": has no effect in `hpo train`" in refused(capsys, "train", group)


@pytest.mark.parametrize(("typed", "says"), [
    (["space.lr=[0.1,0.2]"], "space.lr: the trainer has no such key; remove it; did you mean 'training.lr'?"),
    (["lr=0.1"], "lr: there is no such key; did you mean 'training.lr'?"),
    (["objective=typed_trainer:train(config, trail)"], "objective: must be package.module:function, given"),
    (["objective=typed_trainer.py:train"], "must name a module, such as typed_trainer:train, not a file"),
    ([CALLED, "space.lr=[0.01,0.1]"], "'lr'; give it a default with +lr=0.01"),
    ([CALLED, "space.split=[0.1,0.2]"], "'split'; give it a default with +objective_config.split=0.1"),
    ([CALLED, "+objective_config.split=1", "+lr=1"], "lr: must be below objective_config, like all keys of"),
    ([CALLED, "+split=0.1"], "for a key of your own with this name, write +objective_config.split"),
    (["space.training.lr=0.1,0.2"], "space.training.lr: takes one value, given several; write a list as [a,b]"),
    (["training.lr=choice(1,2)"], "takes one value, given choice(1,2); to search this key, set space.training.lr"),
    (["space.training.lr=tag(a,range(1,3))"], "the tag 'a' has no effect"),
    (["space.training.lr=range(3,3)"], "space.training.lr: has no values, given range(3,3)"),
])  # fmt: skip
def test_typed_words_that_are_nearly_right_are_refused_with_what_to_write(capsys, typed, says):
    assert says in refused(capsys, "search", *typed, "dispatch=local", "track=none", is_silent=True)


def test_the_directions_of_a_few_names_are_known_and_any_other_must_be_given():
    names = {"loss": "minimize", "error": "minimize", "perplexity": "minimize", "score": "maximize"}
    splits = {f"{split}{name}": names[name] for split in ("val_", "eval/", "test_", "dev_") for name in names}
    for metric, direction in (DIRECTIONS | names | splits).items():
        assert known_direction(metric) == direction, metric
    for metric in ("val_bpb", "fid", "logloss", "kl", "runtime", "val_val_loss", "loss_scale", "f1"):
        assert known_direction(metric) is None
    with pytest.raises(ConfigError, match=r"study\.direction: .*study\.metric=fid .* add study\.direction=minimize or"):
        toolkit.compose("study.metric=fid")
    assert toolkit.compose("study.metrics={fid: minimize}")["study"]["direction"] == "minimize"


def test_an_interrupt_before_the_first_training_says_so_and_leaves_nothing(capsys, monkeypatch):
    make = session.make_dispatcher
    monkeypatch.setattr(session, "make_dispatcher", lambda *to: (os.kill(os.getpid(), signal.SIGINT), make(*to))[1])
    with pytest.raises(KeyboardInterrupt):
        hpo(capsys, "search", "objective=typed_trainer:score(config)", "+lr=0.1", "space.lr=[0.1,0.2]", *RUN)
    said = "\nstopped before any training began\nto begin again, run the same command\n"
    assert (capsys.readouterr().err, Path("runs").exists()) == (said, False)


def test_a_dotted_name_is_one_key_unless_the_configuration_has_it_nested():
    def last(space, config):
        found(lambda config: note(config) or config["x"], space=space, config=config, trials=1)
        return noted()[-1]

    assert set(last({"optim.lr": toolkit.log(1e-5, 1e-2), "x": [1]}, None)) == {"optim.lr", "x"}
    assert list(last({"optim.lr": [1, 2], "x": [1]}, {"optim": {"lr": 2}})["optim"]) == ["lr"]
    assert last({"optim": {"lr": [1]}, "x": [1]}, {"optim.lr": 2}) == {"optim.lr": 1, "x": 1}
    refuses(HpoError, r"config: 'optim\.lr' is given twice", last, {"x": [1]}, {"optim.lr": 2, "optim": {"lr": 2}})
    says = r"config\.optim: must be a dict, as in the space, given 3"
    refuses(HpoError, says, last, {"optim": {"lr": [1]}}, {"optim": 3})


def test_the_inside_of_a_list_is_not_searched_and_made_a_key_next_to_it():
    for space in ({"layers.0.w": [0.1, 0.2]}, {"layers": {"0": {"w": [0.1, 0.2]}}}):
        says = r"^space\.layers\.0\.w: is inside a list; search 'layers' as a whole, with choices$"
        refuses(HpoError, says, found, lambda config: 1.0, space=space, config={"layers": [{"w": 5}]})
    assert not Path("runs").exists()


def read(text):
    return space_from_dict(as_meant(yaml.safe_load(text)))


def test_rows_for_each_layer_and_an_optimizer_are_one_value_each():
    def objective(config):
        assert type(config["layers"]) is list
        config["layers"].append(0)  # A trial may change what it gets.
        return len(config["layers"]) + (config["optimizer"] is None)

    adam = {"name": "adam", "betas": [0.9, 0.99]}
    space = {"layers": [[64, 32], [128]], "optimizer": {"choices": [{"name": "sgd"}, adam, None]}}
    default = {"layers": [64, 32], "optimizer": adam}
    study = found(objective, space=space, config=default, strategy="grid", trials=6, direction="minimize", name="rows")
    assert set(study.trials["state"]) == {"complete"}
    assert study.trials["optimizer"][0] == adam, "the default is tried first"
    assert study.best.config == {"layers": [128], "optimizer": {"name": "sgd"}}, "replaced as a whole, not merged"
    assert '"[64,32]","{""betas"":[0.9,0.99],""name"":""adam""}"' in (study.folder / "trials.csv").read_text()
    assert (main(["reproduce", "rows"]), toolkit.load("rows").best) == (0, study.best)


@pytest.mark.parametrize(("text", "values"), [
    ("{x: {low: 1, high: 8}}", list(range(1, 9))), ("{x: {low: 1, high: 8, integer: false}}", []),
    ("{x: {low: 0, high: 1, points: 3}}", [0.0, 0.5, 1.0]), ("{x: {low: 1, high: 8, step: 3}}", [1, 4, 7]),
    ("{x: {low: 0, high: 0.3, step: 0.1}}", [0.0, 0.1, 0.2, 0.3]),
    # PyYAML takes 1e-5 for a text.
    ("{x: [1e-5, 0.001, 0.1]}", [1e-5, 0.001, 0.1]), ("{x: {low: 0, high: 1e-1, step: 5e-2}}", [0.0, 0.05, 0.1]),
])  # fmt: skip
def test_whole_numbers_steps_and_texts_that_are_numbers(text, values):
    read_values = list(read(text)["x"].values)
    assert (read_values, list(map(type, read_values))) == (values, list(map(type, values)))


def test_a_value_listed_twice_is_said_once_and_counts_once(caplog):
    assert read("{x: [1, 2, 2, 4, 2.0]}")["x"].values == (1, 2, 4)
    (record,) = caplog.records
    assert record.getMessage() == "space.x: values are listed twice and count once: 2"
    assert read("{x: {choices: [[1], [1], a]}}")["x"].values == ([1], "a")


@pytest.mark.parametrize(("text", "words"), [
    ("{x: {choices: [[1, 2], '[1,2]']}}", r"x.choices: .*the text '\[1,2\]' is the JSON of another choice"),
    ("{x: {choices: [{1: a}]}}", "x.choices: .*keys of a mapping must be texts"),
    ("{x: {choices: [[.inf]]}}", "x.choices: .*finite numbers"),
    ("{x: {low: 1, high: 8, step: 1, log: true}}", "cannot be combined with 'log'"),
    ("{x: {low: 1, high: 8, step: 0}}", r"step: must be a number above 0 and at most high - low, given 0"),
    ("{x: {low: 1, high: 8, step: 0.5, integer: true}}", "whole number if integer is true"),
    ("{x: [1e-5, 1e-4]}", r"texts that look like numbers.*1\.0e-5.*v1"),
    ("{x: {low: 0, high: 1, integer: true}, first: [{x: 0.77}]}", r"x=0.77 is not .* \(whole numbers 0 to 1\)"),
    ("{' x': [1, 2]}", "the key ' x' must not begin or end with blanks; write 'x'"),
])  # fmt: skip
def test_a_dimension_that_cannot_be_is_refused_by_name(text, words):
    refuses(SpaceError, rf"space.*{words}", read, text)


@pytest.mark.parametrize("value", [0.5, 0.0, 3.0, 1, None, "off"])
def test_whole_ends_around_a_fraction_are_a_range_of_fractions(value):
    config, ends = {"net": {"x": value}}, {"low": 0, "high": 1}
    typed = as_meant({"net": {"x": ends}}, config)["net"]["x"]
    given = [explicit_space({"net": {"x": space}}, config)["net"]["x"] for space in ((0, 1), toolkit.log(1, 8))]
    by_default = as_meant({"x": {**ends, "default": value}})["x"]
    assert {fields.get("integer", False) for fields in (typed, *given, by_default)} == {value != 0.5}
    assert as_meant({"net": {"x": {**ends, "integer": True}}}, config)["net"]["x"]["integer"]
    tree = {"a": (0, 1), "net": {"b": toolkit.log(1, 8)}, "c": toolkit.choices(2, "x")}
    assert default_strategy("random", tree).space == space_from_dict(explicit_space(tree, {}))


def real(low, high, log=False, integer=False):
    return {"low": low, "high": high, "log": log, "integer": integer}


@pytest.mark.parametrize(("typed", "expected"), [
    ("interval(0.1,0.9)", real(0.1, 0.9)), ("int(interval(1,8))", real(1, 8, integer=True)),
    ("tag(log,interval(1e-5,0.1))", real(1e-5, 0.1, log=True)), ("choice(0.3,0.1)", {"choices": [0.3, 0.1]}),
    ("range(1,5)", {"low": 1, "high": 4, "step": 1}), ("range(0,1,0.25)", {"low": 0, "high": 0.75, "step": 0.25}),
])  # fmt: skip
def test_what_hydras_sweepers_search_is_a_dimension(typed, expected):
    assert compose_search(["space=none", f"space.training.lr={typed}"])["space"]["training"] == {"lr": expected}
