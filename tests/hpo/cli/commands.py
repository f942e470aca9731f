"""Runs the command `hpo` in this process, as the console script does."""

import json
import re
from pathlib import Path

import pandas as pd
import yaml

from hpo.cli.main import main
from tests.studies import REPOSITORY

# A study of the digits that is over in seconds.
QUICK = (
    *("dispatch=local", "track=none", "report.figures=false", "training.epochs=2", "training.warmup_fraction=0"),
    *("model.num_layers=1", "model.d_model=16", "model.feed_forward_width=16", "space.training.lr=[0.001,0.01]"),
    *("~space.training.batch_size", "~space.model", "study.trials=2"),
)
# Measured scores of every point of a space, which a test copies to `table.csv` in its working directory.
TABLE = REPOSITORY / "tests" / "tables" / "svm_digits.csv"
TABLE_DATA = ("data=table", "data.path=table.csv", "data.metric=accuracy_*", "data.cost=seconds")
TABLE_DATA = (*TABLE_DATA, "dispatch=local", "report.figures=false")


def hpo(capsys, *arguments):
    """Return the exit code, standard output and standard error."""
    return main(list(arguments)), *capsys.readouterr()


def prints(capsys, *arguments, code=0):
    """Return what a command prints, which ends with this exit code."""
    ended, out, err = hpo(capsys, *arguments)
    assert ended == code, out + err
    return out


def searched(capsys, tree):
    """Run `hpo search` on a whole configuration, which has to succeed, and return the study's folder."""
    Path("toy.yaml").write_text(yaml.safe_dump(tree))
    code, out, err = hpo(capsys, "search", "--config", "toy.yaml")
    assert code == 0, out + err
    return Path("runs", tree["study"]["name"])


def printed(capsys, *arguments, code=0):
    """Run a command with `--json`, and return the one object and the standard error."""
    given, out, err = hpo(capsys, *arguments, "--json")
    assert (given, out.count("\n")) == (code, 1), out + err
    return json.loads(out), err


def documented(title):
    """Return the fields that docs/reference/json.md lists below a title."""
    part = re.split(r"\n##+ ", (REPOSITORY / "docs/reference/json.md").read_text().partition(f" {title}\n")[2])[0]
    return set(re.findall(r"^\| `(\w+)` \|", part, re.MULTILINE))


def change_row(path, number, **cells):
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    table.loc[table["number"] == str(number), list(cells)] = list(cells.values())
    table.to_csv(path, index=False)


def refused(capsys, *arguments, is_silent=False):
    """Return the line with which a command refuses its input: one, by exit code 2, and nothing else if `is_silent`."""
    capsys.readouterr()
    code, out, err = hpo(capsys, *arguments)
    assert (code, err.count("\n"), err.startswith("error: "), err[:-1].isprintable()) == (2, 1, True, True), out + err
    assert out == "" or not is_silent
    return err
