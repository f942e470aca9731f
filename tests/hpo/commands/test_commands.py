"""What the commands do, from Python."""

import contextlib
import json
import re
import shutil
import socket
import threading
import time
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pandas as pd
import pytest

import hpo
from hpo.cli.main import main
from tests.faults.mlflow_server import free_port
from tests.studies import REPOSITORY

QUIET = {"track": "none"}


@pytest.fixture
def table():
    """Return a configuration that looks scores up."""
    path = REPOSITORY / "tests/tables/svm_digits.csv"
    words = ["data=table", f"data.path={path}", "data.metric=accuracy_*", "study.trials=8", "study.name=looked_up"]
    return hpo.compose(*words, "dispatch=local")


@pytest.mark.nightly
def test_strategies_are_compared(table):
    strategies = {"random": "random", "small": {"name": "evolutionary", "population": 4}}
    compared = hpo.compare_strategies(table, strategies=strategies, repeats=3, at=[4], name="which")
    assert list(zip(compared.pairs.budget, compared.pairs.a, compared.pairs.b, strict=True)) == [
        (8, "random", "small"),
        (4, "random", "small"),
    ]
    assert (compared.folder / "comparison.html").exists()
    assert compared.sentence == "After 8 trials neither of the two is significantly better."
    standing, by_budget = compared.result["standings"][0], compared.standings.set_index(["budget", "label"])
    assert by_budget.mean_score[8, "random"] == standing["mean_score"]
    assert by_budget.mean_regret[8, "random"] == standing["mean_regret"]
    # Three pairs are too few for an interval.
    assert compared.intervals.mean_difference.equals(compared.pairs.mean_difference)
    assert compared.intervals[["mean_difference_low", "mean_difference_high"]].isna().all(axis=None)
    again = hpo.compare_strategies(table, strategies=strategies, repeats=3, at=[4], name="which")
    pd.testing.assert_frame_equal(again.pairs, compared.pairs)
    with pytest.raises(hpo.HpoError, match="must be 1 to 8"):
        hpo.compare_strategies(table, strategies=strategies, repeats=3, at=[9], name="other")
    with pytest.raises(hpo.HpoError, match="did you mean 'random'"):
        hpo.compare_strategies(table, strategies=["random", "randon"], repeats=2, name="other")


def test_a_function_is_compared_with_the_arguments_of_a_search_and_its_report_says_so():
    given = {"space": {"x": (0.0, 1.0)}, "trials": 3, "metric": "gain", "direction": "maximize"}

    def train(config, trial):
        return {"gain": config["x"] + trial.seed % 7}

    here = {"dispatch": "local"}
    compared = hpo.compare_strategies(train, **given, strategies=["random", "evolutionary"], repeats=2, settings=here)
    assert (compared.folder.name, compared.pairs.budget.tolist()) == ("compare-train", [3])
    study = hpo.search(train, **given, settings={**QUIET, **here}, progress=False)
    report = study.report().page.with_suffix(".json").read_text()
    assert "hpo.compare_strategies(train, space, strategies=" not in report, "it is there already"
    with pytest.raises(hpo.HpoError, match=r"function was .* choose another name"):
        hpo.compare_strategies(
            lambda config: 1.0, **given, strategies=["random", "evolutionary"], repeats=2, name="compare-train"
        )
    other = hpo.search(train, **given, settings={**QUIET, **here}, progress=False, name="other")
    assert "hpo.compare_strategies(train, space, strategies=[" in other.report().page.with_suffix(".json").read_text()


def test_the_command_that_a_report_recommends_for_a_comparison_is_not_refused(table):
    study = hpo.search(table, settings={**QUIET, "study.finalists": 2}, progress=False)
    said = json.loads(study.report().page.with_suffix(".json").read_text())["comparison"]["missing"]
    assert main([*said.partition("repeat it: hpo ")[2].split(), "--repeats", "1"]) == 0


@pytest.mark.nightly
def test_every_configuration_of_a_strategy_has_its_name(table):
    here = {"direction": "maximize", "settings": QUIET | {"dispatch": "local"}, "progress": False, "trials": 2}
    study = hpo.search(lambda config: config["x"], {"x": [1, 2, 3]}, strategy="evolutionary_plain", name="p", **here)
    settings = study.config["strategy"]
    assert (settings["name"], settings["candidates"]) == ("evolutionary", 1)
    compared = hpo.compare_strategies(table, strategies=["random", "evolutionary_plain"], repeats=2, name="plain")
    assert set(compared.pairs.b) == {"evolutionary_plain"}


def test_what_the_commands_refuse_is_refused_from_python(table):
    study = hpo.search(table, settings=QUIET, progress=False)
    Path("old.csv").write_text("score,lr\n1.0,0.1\n")
    for refused, says in (
        (lambda: study.extend({"data.pth": "x"}), "changes: there is no 'data.pth'; did you mean 'data.path'"),
        (lambda: study.extend({"study.seed": 1}, best=0), "best: must be 1 or more, given 0"),
        (lambda: study.resume(9, ["study.trials=8"]), "study.trials=8 is given as an override, and study.trials"),
        (lambda: study.resume(9, name="copy", progress="quiet"), "progress: must be auto, json, none, True or False"),
        (lambda: study.reproduce(tolerance=-1), "tolerance: must be at least 0 and below 1, given -1"),
        (lambda: hpo.import_trials("old", csv="old.csv", direction="up"), "direction: must be maximize or minimize"),
        (lambda: hpo.import_trials("old", csv="old.csv", keys="lr"), "keys: must be a list of columns, given 'lr'"),
        (lambda: hpo.import_trials("old"), "optuna, ray, csv: give one of them, given none"),
        (lambda: hpo.compare_studies("looked_up"), "names: must be a list of studies, given 'looked_up'"),
        (lambda: hpo.load(3), "there is no '3'"),
    ):
        with pytest.raises(hpo.HpoError, match=re.escape(says)):
            refused()
    assert not Path("runs/old").exists()


@pytest.mark.nightly
def test_a_search_is_replayed_and_a_report_alone_reproduced(table, tmp_path):
    study = hpo.search(table, settings=QUIET, progress=False)
    assert len(study.replay("dispatch=local", "track=none", progress=False)) == 0
    assert len(hpo.load("looked_up-replay").trials) == 8
    study.report()
    assert set(study.report_schema()["required"]) <= set(json.loads((study.folder / "report.json").read_text()))
    mailed = tmp_path / "report.json"
    shutil.copy(study.folder / "report.json", mailed)
    again = hpo.reproduce(mailed, folds=[0]).table
    assert (again["name"].tolist(), again["holds"].all()) == (["fold_0"], True)


def test_a_search_runs_in_another_thread_too(table):
    made = []

    def search():
        assert hpo.compose("study.trials=3")["study"]["trials"] == 3
        made.append(hpo.search(table, settings=QUIET, progress=False))

    thread = threading.Thread(target=search)
    thread.start()
    thread.join()
    assert len(made[0].trials) == 8


@pytest.mark.nightly
def test_studies_are_compared_exported_and_imported(table, tmp_path):
    import optuna

    one = hpo.search(table, settings=QUIET, progress=False)
    other = hpo.search(table, settings={**QUIET, "study.name": "other", "study.seed": 1}, progress=False)
    assert set(hpo.compare_studies([one.name, other.name]).pairs.fold) == {"fold_0", "fold_1", "fold_2"}
    url = f"sqlite:///{tmp_path / 'there.db'}"
    assert one.export(url).trials == 8
    assert optuna.load_study(study_name="looked_up", storage=url).best_value == one.best.score
    assert len(pd.read_csv(hpo.import_trials("back", optuna=url))) == 8
    keys = list(one.best.point)
    assert len(pd.read_csv(hpo.import_trials("old", csv="runs/other/trials.csv", keys=keys, direction="maximize"))) == 8
    with pytest.raises(hpo.HpoError, match="given optuna, csv"):
        hpo.import_trials("both", csv="a.csv", optuna=url)


def test_the_report_is_written_as_it_is_asked_for(table):
    study = hpo.search(table, settings=QUIET, progress=False)
    page = study.report(publish=True, checklist=True, latex=True, title="Which kernel?").page
    assert json.loads(page.with_suffix(".json").read_text())["study"]["title"] == "Which kernel?"
    assert {"checklist.md", "tables.tex"} <= {path.name for path in study.folder.iterdir()}
    published = hpo.load("studies/looked_up")
    there = {path.name for path in published.folder.iterdir()}
    assert "report.json" in there
    for go_on in (lambda: published.add(study.best.point), published.resume, published.report):
        with pytest.raises(hpo.HpoError, match="studies/looked_up was published without its record"):
            go_on()
    assert {path.name for path in published.folder.iterdir()} == there
    assert study.config["study"]["trials"] == 8


def test_figures_are_left_out_drawn_on_request_and_added_again(table):
    study = hpo.search(table, settings={**QUIET, "report.figures": False}, progress=False)
    trials = (study.folder / "trials.csv").read_bytes()
    page = study.folder / "report.html"
    assert "best-so-far" not in page.read_text()
    assert study.plot("best_so_far").data
    # The key may change when the same study is searched again.
    hpo.search(table, settings=QUIET, progress=False)
    assert "best-so-far" not in study.report(figures=False).page.read_text()
    assert "best-so-far" in study.report(figures=True).page.read_text()
    assert (study.folder / "trials.csv").read_bytes() == trials
    with pytest.raises(hpo.HpoError, match=r"report\.figures: must be a valid boolean, given 'no'"):
        study.report(figures="no")


def test_one_configuration_is_trained():
    metrics = hpo.train("training.epochs=1", "training.warmup_fraction=0", "model.d_model=8", "model.num_heads=1")
    assert {"accuracy", "loss"} <= metrics.keys()
    with pytest.raises(hpo.HpoError, match="did you mean"):
        hpo.train("training.epoch=1")


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore")
def test_a_study_is_sent_to_mlflow_later_and_shown_there(table, tmp_path):
    import mlflow

    study = hpo.search(table, settings=QUIET, progress=False)
    uri, port = f"sqlite:///{tmp_path / 'later.db'}", free_port()
    study.sync(uri)
    client = mlflow.MlflowClient(uri)
    assert len(client.search_runs([client.search_experiments()[0].experiment_id])) == 9
    server = hpo.open_ui(study.name, port=port, uri=uri)
    try:
        assert server.address.startswith(f"http://127.0.0.1:{port}/#/experiments/")
        wait_for(f"http://127.0.0.1:{port}/health")
        # It is served there already.
        assert hpo.open_ui(study.name, port=port, uri=uri).address == server.address
    finally:
        server.close()
    server = hpo.open_ui(study.name, port=port, uri=uri, password="open sesame, now")
    try:
        # Another process than the one that was started answers, and it ends with that one.
        assert refusal_of(f"http://127.0.0.1:{port}/") == 401
    finally:
        server.close()
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0
    with pytest.raises(hpo.HpoError, match="must have 12 characters or more"):
        hpo.open_ui(study.name, port=port, uri=uri, password="open")
    with pytest.raises(hpo.HpoError, match="has no runs yet"):
        hpo.open_ui(port=port)


def refusal_of(address):
    for _ in range(300):
        try:
            with urlopen(address, timeout=5):
                return None
        except HTTPError as refusal:
            return refusal.code
        except OSError:
            time.sleep(0.2)
    raise AssertionError(f"{address} does not answer")


def wait_for(address):
    for _ in range(300):
        with contextlib.suppress(OSError), urlopen(address, timeout=5):
            return
        time.sleep(0.2)
    raise AssertionError(f"{address} does not answer")
