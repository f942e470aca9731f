"""Finalists of a search for several metrics, or with limits: the fresh scores decide, by front and choice."""

import json
import statistics
import time
from pathlib import Path

import pytest

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
from tests.studies import REPOSITORY, prepared, toy_config

METRICS = {"score": "maximize", "size": "minimize"}
LAYERS = {"toy": {"layers": [1, 2, 3, 4, 5]}}


def study_of(folder, objective, finalists, **changes):
    """Return a study of all five sizes."""
    tree = toy_config("grid", LAYERS, 5, f"tests.toy_goals:{objective}")
    tree["study"] |= {"finalists": finalists, "choose": "first_within_limits", **changes}
    return prepared(folder, tree | {"split": tree["split"] | {"folds": 1}})


def searched(folder, *asked, **changes):
    """Return the verdict of a search for it."""
    study = study_of(folder, *asked, **changes)
    record = open_study(study)
    run_study(study, record, LocalDispatcher(str(REPOSITORY)), None)
    verdict = StudyRun.of(study, record)
    record.close()
    return verdict


def layers(trial):
    return trial.point["toy.layers"]


def test_a_member_that_was_lucky_in_the_search_is_not_chosen(tmp_path):
    assert layers(searched(tmp_path / "search", "lucky", 0, metrics=METRICS).winner) == 2
    verdict = searched(tmp_path / "again", "lucky", 5, metrics=METRICS)
    # Those of the search's front come first, and of them the one that would be chosen.
    assert [layers(finalist.trial) for finalist in verdict.finalists[:2]] == [2, 1]
    assert sorted(map(layers, verdict.front)) == [1, 2]
    # By the fresh scores the five are all of the front, and the largest has the best score.
    assert layers(verdict.winner) == 5


def test_a_choice_by_weights_goes_by_the_fresh_front(tmp_path):
    verdict = searched(tmp_path, "lucky", 5, metrics=METRICS, choose={"size": 1.0})
    assert layers(verdict.winner) == 1


@pytest.mark.parametrize("goal", [{"metrics": METRICS}, {"metric": "score"}])
def test_what_exceeds_a_limit_on_fresh_seeds_is_not_chosen(tmp_path, goal):
    verdict = searched(tmp_path, "growing", 5, limits={"size": 3}, **goal)
    # Only what keeps the limits is trained again.
    assert sorted(layers(finalist.trial) for finalist in verdict.finalists) == [1, 2, 3]
    assert {layers(finalist.trial) for finalist in verdict.finalists if not finalist.again.keeps_limits} == {3}
    assert layers(verdict.winner) == 2


def test_where_no_finalist_keeps_the_limits_there_is_no_winner(tmp_path):
    verdict = searched(tmp_path, "growing", 1, metric="score", limits={"size": 3})
    assert [layers(finalist.trial) for finalist in verdict.finalists] == [3]
    assert verdict.winner is None


def test_another_choice_goes_by_the_scores_of_the_search_while_its_finalist_is_not_trained(tmp_path):
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


def test_the_score_that_chose_the_winner_is_the_one_that_is_shown_with_that_of_the_search_beside_it(capsys):
    study = found(seeded, name="fin", trials=6, progress=True, settings={"study.finalists": 2})
    out, best = capsys.readouterr().out, study.best
    reported = json.loads((study.folder / "report.json").read_text())["winner"]
    assert best.score == reported["fresh"]["score"] == statistics.fmean(reported["fresh"]["values"])
    assert best.search_scores["score"] == reported["score"] != best.score
    assert "training the best 2 again on fresh seeds: 6 trainings" in out
    both = f"{best.score:.4f} on fresh seeds ({best.search_scores['score']:.4f} in the search)"
    page = state(PageReader(StudyFolder(study.folder)).read().view)
    written = f"{best.score:.4f}", f"{best.search_scores['score']:.4f}"
    for says in (out, str(study), page["view"].best.headline_note, hpo_says(capsys, "show", "fin")):
        assert both in says
    assert all(text in (study.folder / "report.md").read_text() for text in written)
    assert json.loads(hpo_says(capsys, "list", "--json"))["studies"][0]["best"]["score"] == best.score
    of_trial = json.loads(hpo_says(capsys, "show", "fin", "--trial", str(best.number), "--json"))
    assert (of_trial["search_scores"], of_trial["score"]) == (best.search_scores, best.score)
    assert both in hpo_says(capsys, "show", "fin", "--trial", str(best.number))
    (row,) = study.front.to_dict("records")
    assert (row["score"], row["score_on_fresh_seeds"]) == (best.search_scores["score"], best.score)
    found(seeded, name="other", trials=6, seed=1)
    compared = hpo_says(capsys, "compare", "fin", "other")
    assert (
        f"fin: fresh seeds chose trial {best.number}, with score {written[0]} on them; "
        f"the comparison uses its {written[1]}" in compared
    )
    # A status that was removed is derived from the report.
    (study.folder / "status.json").unlink()
    assert both in hpo_says(capsys, "show", "fin")
    told = json.loads(hpo_says(capsys, "report", "fin", "--json"))["best"]
    assert (told["score"], told["search_scores"]) == (best.score, best.search_scores)


def test_what_follows_the_search_is_told_while_it_is_trained(monkeypatch):
    monkeypatch.setattr("hpo.session.status_writer.StatusWriter.seconds_between", 0.0)

    def train(config, trial):
        if len(set(seeds := [*read_lines(), trial.seed])) > 3:
            deadline = time.monotonic() + 20
            while (status := read_status(StudyFolder(Path("runs/toy")))).following is None:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            said = status.words, studies(Path("runs")).studies[0].following, state_text("toy")
            Path("said").write_text(json.dumps(said))
        Path("seeds").write_text(json.dumps(seeds))
        return config["lr"]

    found(train, name="toy", trials=3, settings={"study.finalists": 1, "study.finalist_repeats": 1})
    says = "training the best again on fresh seeds, 0 of 1 training done"
    assert all(says in text for text in json.loads(Path("said").read_text()))
    assert read_status(StudyFolder(Path("runs/toy"))).following is None


def read_lines():
    return json.loads(Path("seeds").read_text()) if Path("seeds").exists() else []


def state_text(name):
    return state(PageReader(StudyFolder(Path("runs", name))).read().view)["view"].says


def hpo_says(capsys, *arguments):
    code, out, _ = hpo(capsys, *arguments)
    assert code == 0
    return " ".join(out.split())
