"""A search that is run again with something changed says what, in the user's own words."""

import subprocess
import sys
from pathlib import Path

import pytest

import hpo
from tests.hpo.commands.searched import HERE

CHANGED = [
    ({"lr": (0.0, 0.5)}, "space.lr was log 1e-05 to 0.01 and is now 0.0 to 0.5"),
    ({"lr": [0.1, 0.2]}, "space.lr was log 1e-05 to 0.01 and is now [0.1, 0.2]"),
    ({"lr": hpo.log(1e-5, 0.1)}, "space.lr was log 1e-05 to 0.01 and is now log 1e-05 to 0.1"),
    (
        {"lr": hpo.log(1e-5, 1e-2), "net": {"act": ["relu", "gelu"]}},
        "space.net.act was missing and is now ['relu', 'gelu']",
    ),
]


@pytest.mark.quick("space0-*")
@pytest.mark.nightly
@pytest.mark.parametrize(("space", "said"), CHANGED)
def test_a_changed_search_says_first_what_the_user_changed_in_his_own_words(space, said):
    def train(given):
        return given["lr"]

    arguments = {"trials": 1, "direction": "minimize", "settings": HERE, "progress": False, "name": "train"}
    hpo.search(train, {"lr": hpo.log(1e-5, 1e-2)}, **arguments)
    with pytest.raises(hpo.HpoError) as raised:
        hpo.search(train, space, **arguments)
    assert f"exists with another configuration: {said}; choose another" in str(raised.value)


@pytest.mark.nightly
def test_a_new_study_without_a_name_says_what_changed(capsys):
    def train(given):
        return given["C"]

    def found(space, function=train, **more):
        name = hpo.search(function, space, trials=1, direction="minimize", **{"settings": HERE, **more}).name
        return name, [line for line in capsys.readouterr().out.splitlines() if line.startswith("a new study")]

    assert found({"C": (0.0, 1.0)}) == ("train", [])
    assert found({"C": (0.0, 1.0)}) == ("train", [])
    assert found({"C": (0.0, 2.0)}) == ("train-2", ["a new study, train-2: space.C changed"])
    more = {"C": [1, 2, 3], "gamma": (0.0, 1.0)}
    assert found(more) == ("train-3", ["a new study, train-3: space.C, space.gamma changed"])
    assert found(more, seed=5) == ("train-4", ["a new study, train-4: seed= changed"])
    assert found({"C": (0.0, 2.0)}) == ("train-2", [])
    assert found({"C": (0.0, 3.0)}, progress=False) == ("train-5", [])
    before = train

    def train(given):
        return before(given) + 1

    assert found({"C": (0.0, 3.0)}, train) == ("train-6", ["a new study, train-6: the code of train changed"])
    assert found(more, train) == ("train-7", ["a new study, train-7: the code of train changed"])
    many = {"strategy": "tpe", "metric": "loss", "seed": 1, "score": "last"}
    said = "a new study, train-8: strategy=, seed=, metric= and 1 more changed"
    assert found(more, **many) == ("train-8", [said])


def test_a_refusal_names_arguments_as_they_are_typed_in_python():
    def train(given):
        return given["C"]

    def refusal(function=train, **more):
        with pytest.raises(hpo.HpoError) as raised:
            hpo.search(function, {"C": [1, 2]}, **{"trials": 1, "direction": "minimize", "settings": HERE, **more})
        return str(raised.value)

    hpo.search(train, {"C": [1, 2]}, name="a", trials=1, direction="minimize", settings=HERE, progress=False)
    assert refusal(seed=-1).startswith("seed: must be")
    assert "configuration: strategy= was 'random' and is now 'grid'; choose another name=" in refusal(
        name="a", strategy="grid"
    )
    assert "seed= was 0 and is now 7" in refusal(name="a", seed=7)
    assert "score= was 'best' and is now 'last'" in refusal(name="a", score="last")
    before = train

    def train(given):
        return before(given) + 1

    assert "started: the code of the function changed; undo this" in refusal(train, name="a")


@pytest.mark.slow
def test_failed_trials_are_tried_again_once_their_fault_is_fixed():
    def typed(*words):
        done = subprocess.run([sys.executable, "-m", "hpo", *words], check=False, capture_output=True, text=True)
        return done.stdout + done.stderr

    code = "import hpo\n\ndef train(config):\n    {}\n    return config['lr']\n"
    Path("mine.py").write_text(code.format("assert config['lr'] < 0.5"))
    hpo.search(
        "mine:train", {"lr": [0.1, 0.2, 0.6, 0.7]}, strategy="grid", direction="maximize", name="m", settings=HERE
    )
    Path("mine.py").write_text(code.format("pass"))
    assert "2 trials failed before this change; to train them again, run `hpo retry m`" in typed(
        "resume", "m", "--allow-changes"
    )
    assert "which use no budget" in typed("retry", "m")
    typed("resume", "m")
    study = hpo.load("m")
    assert list(study.trials.state[-2:]) == ["complete", "complete"]
    assert (len(study.trials), sum(study.trials.state == "failed")) == (6, 2), "those that failed stay as they are"
    assert study.best.score == 0.7
