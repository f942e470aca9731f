"""What a search learns from imported tables, and says of them. The tables are in `tests/hpo/integrations/exchange`."""

import json
import re
from pathlib import Path

import pytest

from hpo.cli.main import main
from hpo.errors import ConfigError, HpoError
from hpo.study.files.imports import read_imports
from hpo.trials.goal import Goal
from hpo.trials.space.reader import space_from_dict
from tests.hpo.cli.commands import prints, refused
from tests.hpo.commands.searched import found

LR = [0.1, 0.2, 0.3]


def imported(*rows, name="old"):
    Path(f"{name}.csv").write_text("\n".join([*rows, ""]))
    assert main(["import", name, "--csv", f"{name}.csv"]) == 0


def learning(strategy="tpe", space=None, imports="old", fill=None, trials=1, config=None):
    settings = {"study.imports": imports} | ({"study.imports_fill": fill} if fill else {})
    given = {"name": "new", "strategy": strategy, "progress": "auto", "settings": settings, "config": config}
    return found(lambda config: config["lr"], space=space or {"lr": LR}, trials=trials, **given)


def test_rows_of_one_point_are_its_repeats_and_what_is_used_is_said(capsys):
    imported("lr,score", "0.1,0.95", "0.1,0.5", "0.1,0.5", "0.2,0.6", "7,0.9")
    trials = read_imports(["old"], space_from_dict({"lr": LR}), Goal({"score": "maximize"})).trials
    assert [(dict(t.point), t.score) for t in trials] == [({"lr": 0.1}, pytest.approx(0.65)), ({"lr": 0.2}, 0.6)]
    study = learning()
    said = "4 of 5 finished trials of runs/old/trials.csv are imported as repeats of 2 points, 1 not in this space"
    assert f"study.imports: {said}; strategy=tpe learns from the imported trials" in capsys.readouterr().out
    report = json.loads((study.folder / "report.json").read_text())
    counts = {"finished": 5, "used": 4, "outside": 1, "shorter": 0, "filled": 0, "ignored": []}
    assert report["imports"] == [{"source": "runs/old/trials.csv", **counts}]
    assert said in (study.folder / "report.md").read_text()


def two_sweeps():
    imported("lr,score", "0.1,0.9", "0.2,0.5", "7,0.9", name="sweeps")
    imported("lr,drop,score", "0.1,0.1,0.7", "0.1,0.2,0.6", "0.2,,0.5")
    return {"lr": [0.1, 0.2], "drop": [0.1, 0.2]}


def test_hyperparameters_that_vary_but_are_not_searched_are_named(capsys):
    imported("lr,opt,batch,score", "0.1,sgd,8,0.95", "0.2,adam,8,0.5")
    learning()
    said = "are imported, ignoring opt (varied in these trials, but not searched by this study); strategy=tpe learns"
    assert said in capsys.readouterr().out


@pytest.mark.slow
def test_several_sweeps_are_learned_from_and_what_they_lack_is_filled_in(capsys):
    study = learning(space=two_sweeps(), imports=["sweeps", "old"], fill={"drop": 0.1})
    said = "2 of 3 finished trials of runs/sweeps/trials.csv are imported, 1 not in this space, 2 completed by "
    said += "study.imports_fill; 3 of 3 finished trials of runs/old/trials.csv are imported, 1 completed by "
    said += "study.imports_fill; the imported trials have 3 different points"
    assert f"study.imports: {said}; strategy=tpe learns from the imported trials" in capsys.readouterr().out
    # The two of one point count with their mean, whichever study they are of.
    names, *rows = [line.split(",") for line in (study.folder / "imports.csv").read_text().splitlines()]
    assert names == ["state", "score", "lr", "drop"]
    expected = [(pytest.approx(0.8), "0.1", "0.1"), (0.5, "0.2", "0.1"), (0.6, "0.1", "0.2")]
    assert [(float(score), lr, drop) for _, score, lr, drop in rows] == expected
    said = prints(capsys, "search", "--replay", "new", "track=none", "dispatch=local")
    assert "all 1 trials are the same as" in said


@pytest.mark.parametrize(("names", "fill", "says"), [
    (["sweeps"], {}, r"sweeps/trials.csv has no column 'drop'; .*--rename OLD=drop`; .*imports_fill=\{drop: VALUE\}"),
    (["sweeps"], {"drop": 0.7}, r"imports_fill.drop: must be in its range \(0.1, 0.2\), given 0.7"),
    (["old"], {"drop": 0.1, "lr": 0.1}, r"imports_fill.lr: has no effect"),
    (["old", "runs/old"], {"drop": 0.1}, r"'old' and 'runs/old' are the same table; give one of them"),
    (["bad.csv"], {"drop": 0.1}, r"bad.csv:2: score must be a finite number up to 1e\+100, given 'good'"),
    (["short.csv"], {"drop": 0.1}, r"space and was trained for the largest amount in its table; import"),
])  # fmt: skip
def test_what_several_sweeps_cannot_say_is_refused(names, fill, says):
    Path("short.csv").write_text("number,state,score,amount,lr\n0,complete,1,9,5.0\n1,complete,1,3,0.1\n")
    Path("bad.csv").write_text("state,score,lr\ncomplete,good,0.1\n")
    with pytest.raises((ConfigError, HpoError), match=says):
        read_imports(names, space_from_dict(two_sweeps()), Goal({"score": "maximize"}), fill)


def test_a_strategy_that_does_not_learn_from_imports_is_said_not_to_and_an_imported_default_to_be_tried_neither(capsys):
    imported("lr,score", "0.1,0.95")
    study = learning("random", trials=2, config={"lr": 0.1})
    said = capsys.readouterr().out
    assert "strategy=random does not learn from the imported trials, and does not propose their" in said
    assert "space.first" not in said
    assert "tried first" not in (study.folder / "report.md").read_text()


def test_of_scales_and_of_several_metrics_each_is_a_column_of_its_own():
    Path("one.csv").write_text("state,score,lr\ncomplete,1,0.1\n")
    scales = space_from_dict({"lr": LR, "study": {"scale": {"values": [1, 2], "default": 1}}})
    with pytest.raises(ConfigError, match=r"imports_fill\.study\.scale: has no effect, because trials without a scale"):
        read_imports(["one.csv"], scales, Goal({"score": "maximize"}), {"study.scale": 1})
    with pytest.raises(HpoError, match=r"one\.csv has no column 'size'; its columns are state, score, lr"):
        read_imports(["one.csv"], space_from_dict({"lr": LR}), Goal({"score": "maximize", "size": "minimize"}))


def test_an_import_is_listed_and_is_no_study(capsys):
    imported("lr,score", "0.1,0.95")
    assert main(["list", "--where", "state=imported"]) == 0
    assert re.search(r"\nold +imported +1/1 +0.9500 .* old.csv ", capsys.readouterr().out)
    assert "start a study that learns from them: hpo search study.imports=old" in refused(capsys, "show", "old")
