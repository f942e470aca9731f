"""Finalists: fresh scores decide, by front and choice; every page and command prints the score that decided."""

import json
import statistics
import time
from pathlib import Path

import pytest

import hpo as toolkit
from hpo.commands.show import studies
from hpo.session.session import run_study
from hpo.show.page.reading import PageReader
from hpo.show.page.texts import state
from hpo.study.files.folder import StudyFolder
from hpo.study.files.status import read_status
from hpo.study.opening import open_study, read_study
from hpo.study.results.run import StudyRun
from hpo.workers.dispatch.local import LocalDispatcher
from tests.hpo.cli.commands import hpo
from tests.hpo.commands.searched import found
from tests.studies import REPOSITORY, prepared, shipped, toy_config

METRICS = {"score": "maximize", "size": "minimize"}
LAYERS = {"toy": {"layers": [1, 2, 3, 4, 5]}}


def study_of(folder, objective, finalists, **changes):
    """Return a study of all five sizes."""
    tree = toy_config("grid", LAYERS, 5, f"toy_goals:{objective}", report=shipped("default", "report"))
    tree["report"]["figures"] = False
    tree["study"] |= {"finalists": finalists, "choose": "first_within_limits", **changes}
    return prepared(folder, tree | {"split": tree["split"] | {"folds": 1}})


def searched(folder, *given, **changes):
    """Return the results of a search."""
    study = study_of(folder, *given, **changes)
    record = open_study(study)
    run_study(study, record, LocalDispatcher(str(REPOSITORY)), None)
    run = StudyRun.of(study, record)
    record.close()
    return run


def layers(trial):
    return trial.point["toy.layers"]


def test_a_trial_that_was_lucky_in_the_search_is_not_chosen(tmp_path):
    run = searched(tmp_path / "again", "lucky", 5, metrics=METRICS)
    # The search's front comes first, and of it the trial that would be chosen.
    assert [layers(finalist.trial) for finalist in run.finalists[:2]] == [2, 1]
    assert sorted(map(layers, run.front)) == [1, 2]
    # By the fresh scores all five are on the front, and the largest has the best score.
    assert layers(run.winner) == 5
    by_size = searched(tmp_path / "by size", "lucky", 5, metrics=METRICS, choose={"size": 1.0})
    assert layers(by_size.winner) == 1


@pytest.mark.parametrize("goal", [{"metrics": METRICS}, {"metric": "score"}])
def test_a_trial_beyond_a_limit_on_fresh_seeds_is_not_chosen(tmp_path, goal):
    run = searched(tmp_path / "all", "growing", 5, limits={"size": 3}, **goal)
    # Only trials within the limits are trained again.
    assert sorted(layers(finalist.trial) for finalist in run.finalists) == [1, 2, 3]
    assert {layers(finalist.trial) for finalist in run.finalists if not finalist.again.keeps_limits} == {3}
    assert layers(run.winner) == 2
    run = searched(tmp_path / "one", "growing", 1, limits={"size": 3}, **goal)
    assert ([layers(finalist.trial) for finalist in run.finalists], run.winner) == ([3], None)


def test_another_choice_uses_the_scores_of_the_search_until_its_finalist_is_trained(tmp_path):
    by_size = searched(tmp_path, "lucky", 1, metrics=METRICS, choose={"size": 1.0})
    assert (layers(by_size.winner), by_size.is_trained) == (1, True)
    study = study_of(tmp_path, "lucky", 1, metrics=METRICS)
    record = read_study(study)
    by_score = StudyRun.of(study, record)
    record.close()
    assert (layers(by_score.winner), by_score.is_trained) == (2, False)


def seeded(config, trial):
    """Score by the learning rate and, more than that, by the seed."""
    trial.report(epoch=1, score=config["lr"] / 10 + trial.seed % 97 / 100)


def output(capsys, *arguments):
    code, out, _ = hpo(capsys, *arguments)
    assert code == 0
    return " ".join(out.split())


@pytest.mark.slow
def test_everything_prints_the_score_that_chose_the_winner_with_that_of_the_search(capsys):
    study = found(seeded, name="fin", trials=4, progress=True, settings={"study.finalists": 2})
    out, best = capsys.readouterr().out, study.best
    reported = json.loads((study.folder / "report.json").read_text())["winner"]
    assert best.score == reported["fresh"]["score"] == statistics.fmean(reported["fresh"]["values"])
    assert best.search_scores["score"] == reported["score"] != best.score
    assert "training the best 2 again on fresh seeds: 6 trainings" in out
    written = f"{best.score:.4f}", f"{best.search_scores['score']:.4f}"
    both = f"{written[0]} on fresh seeds ({written[1]} in the search)"
    page, trial = state(PageReader(StudyFolder(study.folder)).read().view), ("show", "fin", "--trial", str(best.number))
    for says in (
        out,
        str(study),
        page["view"].best.headline_note,
        output(capsys, "show", "fin"),
        output(capsys, *trial),
    ):
        assert both in says
    assert all(text in (study.folder / "report.md").read_text() for text in written)
    assert json.loads(output(capsys, "list", "--json"))["studies"][0]["best"]["score"] == best.score
    of_trial = json.loads(output(capsys, *trial, "--json"))
    assert (of_trial["search_scores"], of_trial["score"]) == (best.search_scores, best.score)
    (row,) = study.front.to_dict("records")
    assert (row["score"], row["score_on_fresh_seeds"]) == (best.search_scores["score"], best.score)
    found(seeded, name="other", trials=4, seed=1)
    compared = output(capsys, "compare", "fin", "other")
    assert (
        f"chose trial {best.number}, with score {written[0]} on them; the comparison uses its {written[1]}" in compared
    )
    # A status that was removed is derived from the report.
    (study.folder / "status.json").unlink()
    assert both in output(capsys, "show", "fin")
    of_report = json.loads(output(capsys, "report", "fin", "--json"))["best"]
    assert (of_report["score"], of_report["search_scores"]) == (best.score, best.search_scores)


def test_trainings_after_the_search_are_shown_while_they_run(monkeypatch):
    monkeypatch.setattr("hpo.session.status_writer.StatusWriter.seconds_between", 0.0)
    folder = StudyFolder(Path("runs/toy"))

    def train(config, trial):
        before = json.loads(Path("seeds").read_text()) if Path("seeds").exists() else []
        if len(set(seeds := [*before, trial.seed])) > 3:
            deadline = time.monotonic() + 20
            while (status := read_status(folder)).following is None:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            page = state(PageReader(folder).read().view)["view"].says
            Path("said").write_text(json.dumps([status.words, studies(Path("runs")).studies[0].following, page]))
        Path("seeds").write_text(json.dumps(seeds))
        return config["lr"]

    found(train, name="toy", trials=3, settings={"study.finalists": 1, "study.finalist_repeats": 1})
    says = "training the best again on fresh seeds, 0 of 1 training done"
    assert all(says in text for text in json.loads(Path("said").read_text()))
    assert read_status(folder).following is None


def test_with_a_share_of_held_out_examples_fresh_seeds_alone_have_the_noise_and_the_report_is_reproduced():
    def train(task):
        if task["checkpoint_dir"] is not None:
            Path(task["checkpoint_dir"]).mkdir(parents=True, exist_ok=True)
        return round(task["config"]["x"] + task["seed"] % 7 / 100, 2)

    train = toolkit.objective(
        train,
        describe_data=lambda config: {"size": 200, "name": "numbers"},
        describe_method=lambda config: {"shares": ["score"]},
        run_test=lambda task: {"score": 0.5},
    )
    settings = {"study.finalists": 2, "study.finalist_repeats": 2, "split.folds": 1, "dispatch": "local"}
    given = {"direction": "maximize", "trials": 4, "name": "s", "progress": False}
    study = toolkit.search(
        train, {"x": (0.0, 0.5)}, settings={**settings, "track": "none", "report.figures": False}, **given
    )
    expected = study.best.expected
    assert expected.low <= expected.value <= expected.high
    study.test()
    assert study.reproduce().exit_code == 0
