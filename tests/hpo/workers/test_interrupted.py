"""Trainings that die anywhere and go on from their state: their results are those of an undisturbed training."""

import json
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpo.trials.trial import Outcome
from hpo.workers.training.journal import Journal, state_of
from hpo.workers.training.tasks import Payload
from hpo.workers.training.worker import outcome_of, run_task
from tests.hpo.workers import reporting_again


class Killed(KeyboardInterrupt):
    """The process is gone."""


def goes_on(task):
    """Train from the state to the amount, reporting what follows, as `config` says; die at the moment that it names."""
    config, folder = task["config"], Path(task["resume_dir"])
    state, deadly, has_died = folder / "state.json", config["dies_at"], Path(f"{folder.parent}-died")

    def at(moment, epoch):
        if deadly == [moment, epoch] and not has_died.exists():
            has_died.touch()
            raise Killed

    def save(epoch):
        folder.mkdir(parents=True, exist_ok=True)
        aside = state.with_suffix(".new")
        aside.write_text(json.dumps(epoch))
        aside.replace(state)

    done = json.loads(state.read_text()) if state.exists() else 0
    end = min(task["amount"] or config["epochs"], config["epochs"])
    again = config["names"] == "again"

    def point(epoch):
        score = abs(epoch - 7) + 0.5 * (epoch % 2)
        place = {"epoch": {"epoch": epoch}, "from zero": {"epoch": epoch - 1}, "step": {"step": 10 * epoch}}
        return {"score": score, **place.get(config["names"], {})}

    for epoch in range(task["trained"] + 1, done + 1) if again else ():
        yield point(epoch)
    for epoch in range(done + 1, end + 1):
        at("before it is saved", epoch)
        if config["saves_first"]:
            save(epoch)
        at("before the report", epoch)
        if again or epoch % config["every"] == 0:
            yield point(epoch)
        at("after the report", epoch)
        if not config["saves_first"]:
            save(epoch)
    at("at the end", end)


def outcome(folder, config, trials, **changes):
    """Return the outcome of the last of a few trainings, each of which continues the one before; all may die once."""
    trained, earlier, last = 0, [], None
    for amount in trials:
        name = f"{reporting_again.__name__ if config['names'] == 'again' else __name__}:goes_on"
        payload = Payload(name, {**config, **changes}, "score", "minimize", amount=amount)
        payload = replace(payload, trained=trained, earlier=earlier, resume_dir=str(folder))
        try:
            last = outcome_of(run_task(payload))
        except Killed:
            last = outcome_of(run_task(payload))
        trained, earlier = amount, [*earlier, *last.curve]
    assert isinstance(last, Outcome)
    return replace(last, seconds=0.0, started=0.0, worker=0)


MOMENTS = ["before it is saved", "before the report", "after the report", "at the end"]


@settings(max_examples=300)
@given(
    names=st.sampled_from(["epoch", "number", "from zero", "step", "again"]),
    saves_first=st.booleans(),
    moment=st.sampled_from(MOMENTS),
    epoch=st.integers(1, 9),
    trials=st.sampled_from([[None], [9], [3, 9], [1, 3, 9]]),
    every=st.integers(1, 4),
)
def test_a_training_that_dies_once_has_the_outcome_of_one_that_does_not(
    names, saves_first, moment, epoch, trials, every
):
    config = {"epochs": 9, "names": names, "saves_first": saves_first, "every": every, "dies_at": None}
    with tempfile.TemporaryDirectory() as scratch:
        undisturbed = outcome(Path(scratch, "one"), config, trials)
        died = outcome(Path(scratch, "two"), config, trials, dies_at=[moment, epoch])
    assert died == undisturbed
    assert undisturbed.error is None or (every > 1 and trials[-1] == 1)


def test_a_state_that_ended_by_itself_is_not_trained_again(tmp_path):
    config = {"epochs": 4, "names": "epoch", "saves_first": True, "every": 1, "dies_at": None}
    last = outcome(tmp_path, config, [9])
    assert (last.reached, last.units, len(last.curve)) == (4, 4, 4)
    further = outcome(tmp_path, config, [9, 27])
    # The state is at its end: nothing is added but the unit that every task takes.
    assert (further.reached, further.units, list(further.curve)) == (4, 1, [])
    assert further.metrics == last.metrics


def test_what_a_repeated_training_reports_otherwise_is_said_and_does_not_count(tmp_path):
    config = {"epochs": 3, "names": "epoch", "saves_first": True, "every": 1, "dies_at": ["at the end", 3]}
    payload = Payload(f"{__name__}:goes_on", config, "score", "minimize", resume_dir=str(tmp_path))
    with pytest.raises(Killed):
        outcome_of(run_task(payload))
    # Its first report was another one, and its state is as after the second.
    journal, state = tmp_path / "reports.jsonl", Path(state_of(str(tmp_path)), "state.json")
    journal.write_text(journal.read_text().replace('"score": 6.5', '"score": 0.5'))
    state.write_text("0")
    *said, last = run_task(payload)
    outcome = last["outcome"]
    assert outcome.differs == "score at 1 was 0.5 and is now 6.5"
    assert outcome.metrics == {"score": 0.5}
    assert [point["score"] for point in outcome.curve] == [0.5, 5.0, 4.5]
    assert any("differs" in message.get("warning", "") for message in said)


def test_without_a_state_a_training_starts_again(tmp_path):
    payload = Payload(f"{__name__}:stateless", {}, "score", "minimize", resume_dir=str(tmp_path / "there"))
    expected = outcome_of(run_task(payload))
    messages = run_task(payload)
    next(messages)
    messages.close()
    again = outcome_of(run_task(payload))
    assert (again.units, again.curve, again.differs) == (3, expected.curve, None)


def stateless(_):
    yield from ({"score": float(epoch)} for epoch in range(3))


@pytest.mark.parametrize(
    ("reports", "line"),
    [
        ([{"epoch": 2}, {"epoch": 1}], "report: epoch must be above 2, that of the previous report, given 1"),
        ([{"epoch": 2}, {"epoch": 2}], "report: epoch must be above 2, that of the previous report, given 2"),
        ([{"step": 2}, {"epoch": 3}], "given epochs after steps"),
        ([{}, {"epoch": 3}], "given epochs after no epoch"),
        ([{"epoch": -1}], "report: epoch must be 0 or more, given -1"),
    ],
)
def test_places_rise_and_are_of_one_kind(reports, line):
    payload = Payload(f"{__name__}:reports", {"reports": reports}, "score", "minimize")
    error = outcome_of(run_task(payload)).error
    assert error is not None
    assert line in error


def reports(task):
    yield from ({"score": 1.0, **place} for place in task["config"]["reports"])


def test_a_line_that_was_cut_off_is_no_report(tmp_path):
    config = {"epochs": 3, "names": "epoch", "saves_first": True, "every": 1, "dies_at": None}
    outcome_of(run_task(Payload(f"{__name__}:goes_on", config, "score", "minimize", resume_dir=str(tmp_path))))
    path = tmp_path / "reports.jsonl"
    path.write_text(path.read_text() + '{"point": {"epo')
    journal = Journal(tmp_path)
    assert [entry.point["epoch"] for entry in journal.entries] == [1, 2, 3]
    shutil.rmtree(tmp_path / "state")
    assert not journal.has_state
