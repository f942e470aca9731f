"""Finalists: fresh scores decide, by front and choice; every page and command prints the score that decided."""

import json
import statistics

import pytest

from hpo.show.page.reading import PageReader
from hpo.show.page.texts import state
from tests import tracked
from tests.hpo.cli.commands import hpo, printed
from tests.hpo.commands.searched import found
from tests.studies import StudyFolder, StudyRun, prepared, toy_config

pytestmark = pytest.mark.slow

METRICS = {"score": "maximize", "size": "minimize"}


def study_of(folder, objective, finalists, **changes):
    tree = toy_config("grid", {"toy": {"layers": [1, 2, 3, 4, 5]}}, 5, f"toy_goals:{objective}")
    tree["study"] |= {"finalists": finalists, "choose": "first_within_limits", **changes}
    return prepared(folder, tree | {"split": tree["split"] | {"folds": 1}})


def searched(*given, **changes):
    return tracked.run(study_of(*given, **changes)).run


def layers(trial):
    return trial.point["toy.layers"]


def test_a_trial_that_was_lucky_in_the_search_is_not_chosen(tmp_path):
    run = searched(tmp_path / "again", "lucky", 5, metrics=METRICS)
    # The search's front comes first, and of it the trial that would be chosen.
    assert [layers(finalist.trial) for finalist in run.finalists[:2]] == [2, 1]
    assert sorted(map(layers, run.front)) == [1, 2]
    assert layers(run.winner) == 5
    by_size = searched(tmp_path / "by size", "lucky", 1, metrics=METRICS, choose={"size": 1.0})
    assert (layers(by_size.winner), by_size.is_trained) == (1, True)
    by_score = StudyRun.of(study_of(tmp_path / "by size", "lucky", 1, metrics=METRICS), by_size.record)
    assert (layers(by_score.winner), by_score.is_trained) == (2, False)


@pytest.mark.parametrize("goal", [{"metrics": METRICS}, {"metric": "score"}])
def test_a_trial_beyond_a_limit_on_fresh_seeds_is_not_chosen(tmp_path, goal):
    run = searched(tmp_path / "all", "growing", 5, limits={"size": 3}, **goal)
    assert sorted(layers(finalist.trial) for finalist in run.finalists) == [1, 2, 3]
    assert {layers(finalist.trial) for finalist in run.finalists if not finalist.again.keeps_limits} == {3}
    assert layers(run.winner) == 2
    run = searched(tmp_path / "one", "growing", 1, limits={"size": 3}, **goal)
    assert ([layers(finalist.trial) for finalist in run.finalists], run.winner) == ([3], None)


def test_everything_prints_the_score_that_chose_the_winner_with_that_of_the_search(capsys):
    def seeded(config, trial):
        trial.report(epoch=1, score=config["lr"] / 10 + trial.seed % 97 / 100)

    study = found(seeded, name="fin", trials=4, progress=True, settings={"study.finalists": 2})
    out, best = capsys.readouterr().out, study.best
    reported = json.loads((study.folder / "report.json").read_text())["winner"]
    assert best.score == reported["fresh"]["score"] == statistics.fmean(reported["fresh"]["values"])
    assert best.search_scores["score"] == reported["score"] != best.score
    written = f"{best.score:.4f}", f"{best.search_scores['score']:.4f}"
    both = f"{written[0]} on fresh seeds ({written[1]} in the search)"
    page = state(PageReader(StudyFolder(study.folder)).read().view)["view"].best.headline_note
    shown = [hpo(capsys, "show", "fin", *of)[1] for of in ([], ["--trial", str(best.number)])]
    for says in (out, str(study), page, *shown):
        assert both in " ".join(says.split())
    assert all(text in (study.folder / "report.md").read_text() for text in written)
    assert printed(capsys, "list")[0]["studies"][0]["best"]["score"] == best.score
    (row,) = study.front.to_dict("records")
    assert (row["score"], row["score_on_fresh_seeds"]) == (best.search_scores["score"], best.score)
    found(seeded, name="other", trials=4, seed=1)
    compared = " ".join(hpo(capsys, "compare", "fin", "other")[1].split())
    assert f"with score {written[0]}; the comparison uses the trial's score in the search, {written[1]}" in compared
    # A status that was removed is derived from the report.
    (study.folder / "status.json").unlink()
    assert both in " ".join(hpo(capsys, "show", "fin")[1].split())
