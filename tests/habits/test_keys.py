"""Keys that Python's users write: with dots, inside of lists, and numbers."""

from pathlib import Path

import pytest

import hpo
from hpo.cli.main import main
from hpo.config.keys import flatten, replaced, without
from tests.hpo.commands.searched import found, note, noted


def test_a_dotted_name_is_one_key_unless_the_configuration_has_it_nested():
    def train(config):
        note(config)
        return config["x"]

    def last(space, config):
        found(train, space=space, config=config, trials=1)
        return noted()[-1]

    assert set(last({"optim.lr": hpo.log(1e-5, 1e-2), "x": [1]}, None)) == {"optim.lr", "x"}
    assert list(last({"optim.lr": [1, 2], "x": [1]}, {"optim": {"lr": 2}})["optim"]) == ["lr"]
    assert last({"optim": {"lr": [1]}, "x": [1]}, {"optim.lr": 2}) == {"optim.lr": 1, "x": 1}
    with pytest.raises(hpo.HpoError, match=r"config: 'optim\.lr' is given twice"):
        last({"x": [1]}, {"optim.lr": 2, "optim": {"lr": 2}})
    with pytest.raises(hpo.HpoError, match=r"config\.optim: must be a dict, as in the space, given 3"):
        last({"optim": {"lr": [1]}}, {"optim": 3})


def test_keys_with_dots_are_found_changed_and_removed_where_they_stand():
    tree = {"a.b": {"c": 1}, "a": {"b": {"d": 2}, "e.f": 3}}
    assert replaced(tree, {"a.b.c": 5, "a.b.d": 6, "a.e.f": 7, "x.y": 8}) == {
        **{"a.b": {"c": 5}, "a": {"b": {"d": 6}, "e.f": 7}, "x": {"y": 8}}
    }
    assert without(without(tree, "a.b.c"), "a.e.f") == {"a.b": {}, "a": {"b": {"d": 2}}}
    assert without(tree, "a.x") == tree
    assert list(flatten(tree)) == ["a.b.c", "a.b.d", "a.e.f"]


HERE = {"direction": "minimize", "settings": {"dispatch": "local", "track": "none"}, "progress": False}


@pytest.mark.parametrize("space", [{"layers.0.w": [0.1, 0.2]}, {"layers": {"0": {"w": [0.1, 0.2]}}}])
def test_a_part_of_a_list_is_not_searched_and_made_a_key_beside_it(space):
    says = r"^space\.layers\.0\.w: is inside a list; search 'layers' as a whole, with choices$"
    with pytest.raises(hpo.HpoError, match=says):
        hpo.search(lambda c: 1.0, space, config={"layers": [{"w": 5}]}, trials=2, **HERE)
    assert not Path("runs").exists()


def test_the_command_line_says_the_same_of_a_part_of_a_list(capsys):
    Path("obj.py").write_text("def f(config):\n    return 1.0\n")
    arguments = ["objective=obj:f", "+layers=[{w: 5}]", "space.layers.0.w=[0.1,0.2]", "study.direction=minimize"]
    assert main(["search", *arguments, "dispatch=local", "track=none"]) == 2
    assert "space.layers.0.w: is inside a list; search 'layers' as a whole, with choices" in capsys.readouterr().err
    assert not Path("runs").exists()


def test_a_key_with_dots_beside_a_list_is_one_key_of_the_users():
    study = hpo.search(lambda c: c["optim.lr"], {"optim.lr": [1, 2]}, config={"optim": [1]}, trials=2, **HERE)
    assert study.best.config == {"optim": [1], "optim.lr": 1}


@pytest.mark.parametrize(
    ("space", "says"),
    [
        ({"layers": {1: [2, 3], 2: [4, 5]}}, "space.layers: must have strings as keys, given 1; write '1'"),
        ({1: [2, 3]}, "space: must have strings as keys, given 1; write '1'"),
        ({"a": {"b": {None: hpo.log(1, 2)}}}, "space.a.b: must have strings as keys, given None; write 'None'"),
    ],
)
def test_a_number_as_a_name_in_a_space_is_refused_as_the_function_would_get_a_text(space, says):
    with pytest.raises(hpo.HpoError) as error:
        hpo.search(lambda c: 1.0, space, trials=2, **HERE)
    assert str(error.value) == says
    assert not Path("runs").exists()


def test_numbers_stay_keys_of_a_mapping_that_is_a_choice_or_a_constant():
    def train(config):
        return config["x"][1] + config["y"][2]

    study = hpo.search(train, {"x": [{1: 2}, {1: 3}]}, config={"y": {2: 3}}, trials=2, **HERE)
    assert study.best.score == 5


def test_the_winner_has_the_tuples_and_numbers_as_keys_that_the_function_got():
    def train(config):
        return config["v"][1] * config["net"]["units"].index(2)

    space, config = {"net.units": [(1, 2), (2, 1)], "x": [1, 2]}, {"v": {1: 2}, "net": {"act": "relu"}}
    best = hpo.search(train, space, config=config, trials=4, name="named", **HERE).best
    assert best.config == {"v": {1: 2}, "net": {"act": "relu", "units": (2, 1)}, "x": best.point["x"]}
    assert (best.point["net.units"], train(best.config)) == ((2, 1), best.score)
    assert hpo.load("named").best == best
