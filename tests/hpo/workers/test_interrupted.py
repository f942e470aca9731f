"""Trainings that die anywhere and continue from their state: their results are those of an undisturbed training."""

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from hpo.errors import MachineError
from hpo.workers.objective.objective import objective
from hpo.workers.objective.plain_function import as_run_fold
from hpo.workers.training.journal import Journal, state_of
from hpo.workers.training.tasks import Payload
from hpo.workers.training.worker import outcome_of, run_task
from tests.faults.driver import TOY
from tests.faults.driver import hpo as command_apart
from tests.hpo.cli.commands import hpo as command
from tests.studies import rows

CONFIG = {"epochs": 9, "names": "epoch", "saves_first": True, "every": 1, "dies_at": None}


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
        state.with_suffix(".new").write_text(json.dumps(epoch))
        state.with_suffix(".new").replace(state)

    done = json.loads(state.read_text()) if state.exists() else 0
    end, again = min(task["amount"] or config["epochs"], config["epochs"]), config["names"] == "again"

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


@objective(reports_again=True)
def reports_again(task):
    return (yield from goes_on(task))


def outcome(folder, amounts, **changes):
    """Return the outcome of the last of a few trainings, each of which continues the one before; all may die once."""
    config, trained, earlier, last = CONFIG | changes, 0, [], None
    for amount in amounts:
        name = f"{__name__}:{'reports_again' if config['names'] == 'again' else 'goes_on'}"
        payload = Payload(name, config, "score", "minimize", amount=amount, resume_dir=str(folder))
        payload = replace(payload, trained=trained, earlier=earlier)
        try:
            last = outcome_of(run_task(payload))
        except Killed:
            last = outcome_of(run_task(payload))
        trained, earlier = amount, [*earlier, *last.curve]
    return replace(last, seconds=0.0, started=0.0, worker=0)


@pytest.mark.parametrize("moment", ["before it is saved", "before the report", "after the report", "at the end"])
@pytest.mark.parametrize("names", ["epoch", "number", "from zero", "step", "again"])
def test_a_training_that_dies_once_has_the_outcome_of_one_that_does_not(tmp_path, names, moment):
    cases = [(True, 4, [None], 1), (False, 3, [3, 9], 2), (True, 9, [1, 3, 9], 3), (False, 2, [1, 3, 9], 1)]
    cases += [(True, 1, [3, 9], 4)]
    for number, (saves_first, epoch, amounts, every) in enumerate(cases):
        config = {"names": names, "saves_first": saves_first, "every": every}
        undisturbed = outcome(tmp_path / f"{number}_one", amounts, **config)
        assert undisturbed.error is None
        assert outcome(tmp_path / f"{number}_two", amounts, **config, dies_at=[moment, epoch]) == undisturbed


def from_trained(config, trial):
    """Train from `trial.trained`, as functions for Optuna and Ray Tune do; the state holds no epoch."""
    state, has_died = trial.resume_dir / "state.json", trial.resume_dir.parent / "died"
    loss = json.loads(state.read_text()) if state.exists() else 1.0
    for epoch in range(trial.trained + 1, (trial.amount or 9) + 1):
        loss /= epoch + 1
        for step in ("save", "report") if config["saves_first"] else ("report", "save"):
            if [step, epoch] == config["dies_before"] and not has_died.exists():
                has_died.touch()
                raise Killed
            if step == "save":
                trial.resume_dir.mkdir(parents=True, exist_ok=True)
                state.write_text(json.dumps(loss))
            elif config["reports"]:
                trial.report(epoch=epoch, score=loss)
    return loss


counts_from_trained = objective(continues=True)(as_run_fold(from_trained, "config, trial"))


@pytest.mark.parametrize("saves_first", [True, False])
@pytest.mark.parametrize("reports", [True, False])
@pytest.mark.parametrize("dies_before", [["save", 1], ["report", 1], ["report", 4], ["save", 5]])
def test_a_training_that_counts_from_trained_has_the_same_result_after_it_died(
    tmp_path, saves_first, reports, dies_before
):
    config = {"saves_first": saves_first, "reports": reports, "dies_before": dies_before}
    last = None
    for trained, amount in ((0, 3), (3, 6)):
        earlier = [] if last is None else last.curve
        payload = Payload(f"{__name__}:counts_from_trained", config, "score", "minimize", amount=amount)
        payload = replace(payload, trained=trained, earlier=earlier, resume_dir=str(tmp_path))
        try:
            last = outcome_of(run_task(payload))
        except Killed:
            last = outcome_of(run_task(payload))
        assert last.error is None
    assert (tmp_path / "died").exists()
    assert last.metrics["score"] == pytest.approx(1 / math.factorial(7))
    assert [point["epoch"] for point in last.curve] == ([4, 5, 6] if reports else [])


def test_a_state_that_ended_by_itself_is_not_trained_again(tmp_path):
    last = outcome(tmp_path, [9], epochs=4)
    assert (last.reached, last.units, len(last.curve)) == (4, 4, 4)
    further = outcome(tmp_path, [9, 27], epochs=4)
    # The state is at its end: nothing is added but the unit that every task takes.
    assert (further.reached, further.units, list(further.curve), further.metrics) == (4, 1, [], last.metrics)


def test_what_a_repeated_training_reports_otherwise_is_a_warning_and_does_not_count(tmp_path):
    config = CONFIG | {"epochs": 3, "dies_at": ["at the end", 3]}
    payload = Payload(f"{__name__}:goes_on", config, "score", "minimize", resume_dir=str(tmp_path))
    with pytest.raises(Killed):
        outcome_of(run_task(payload))
    # Its first report was another one, and its state is as after the second.
    journal, state = tmp_path / "reports.jsonl", Path(state_of(str(tmp_path)), "state.json")
    journal.write_text(journal.read_text().replace('"score": 6.5', '"score": 0.5'))
    state.write_text("0")
    *messages, last = run_task(payload)
    assert (last["outcome"].differs, last["outcome"].metrics) == ("score at 1 was 0.5 and is now 6.5", {"score": 0.5})
    assert [point["score"] for point in last["outcome"].curve] == [0.5, 5.0, 4.5]
    assert any("differs" in message.get("warning", "") for message in messages)


def test_without_a_state_a_training_starts_again(tmp_path):
    payload = Payload(f"{__name__}:stateless", {}, "score", "minimize", resume_dir=str(tmp_path / "there"))
    expected, messages = outcome_of(run_task(payload)), run_task(payload)
    next(messages)
    messages.close()
    again = outcome_of(run_task(payload))
    assert (again.units, again.curve, again.differs) == (3, expected.curve, None)


def stateless(_):
    yield from ({"score": float(epoch)} for epoch in range(3))


def test_a_line_that_was_cut_off_is_no_report(tmp_path):
    outcome(tmp_path, [None], epochs=3)
    path = tmp_path / "reports.jsonl"
    path.write_text(path.read_text() + '{"point": {"epo')
    journal = Journal(tmp_path)
    assert ([entry.point["epoch"] for entry in journal.entries], journal.has_state) == ([1, 2, 3], True)
    shutil.rmtree(tmp_path / "state")
    assert not journal.has_state


def test_a_group_of_processes_whose_state_may_be_newer_than_its_reports_is_repeated_from_its_beginning(tmp_path):
    config = CONFIG | {"names": "number", "dies_at": ["before the report", 2]}
    payload = Payload(f"{__name__}:goes_on", config, "score", "minimize", resume_dir=str(tmp_path))
    with pytest.raises(Killed):
        outcome_of(run_task(payload))
    with pytest.raises(MachineError, match="the state was deleted; run `hpo resume` to repeat this training"):
        outcome_of(run_task(replace(payload, processes=2)))
    assert len(outcome_of(run_task(payload)).curve) == 9


@pytest.mark.slow
def test_after_the_driver_is_killed_within_a_training_a_search_has_the_same_trials(capsys):
    words = ("search", "objective=toy_peak:run_fold", *TOY, "dispatch=local", "study.trials=9")
    words += ("study.lanes=2", "strategy=asha", "strategy.max_amount=27", "strategy.min_amount=3")
    assert command(capsys, *words)[0] == 0
    undisturbed = rows(Path("runs/toy/trials.csv"))
    shutil.rmtree("runs")
    Path("deadly.json").write_text(json.dumps([1, 2]))
    assert command_apart(*words)[0] == -9
    assert not Path("deadly.json").exists()
    assert (command(capsys, "resume", "toy")[0], rows(Path("runs/toy/trials.csv"))) == (0, undisturbed)
