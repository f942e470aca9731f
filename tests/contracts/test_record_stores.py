"""What every store of a record promises. A new store is one line in STORES."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from hpo.study.notes import FinalModel, Notes
from hpo.trials.goal import Goal
from hpo.trials.record.optuna_tables import Tables
from hpo.trials.record.record import AddedPoint, Ended, Record, memory_record
from hpo.trials.record.storage import Stored, continue_record, create_record, sqlite_url
from hpo.trials.space.reader import space_from_dict
from hpo.trials.trial import Outcome, Proposal, TaskLayout

SPACE = {"layers": [1, 2, 3], "kind": {"choices": [0, False, "a", None]}, "lr": {"low": 1e-5, "high": 1.0, "log": True}}
POINT = {"layers": 2, "kind": "a", "lr": 0.1 + 0.2}
GOAL, LAYOUT = Goal({"score": "maximize"}), TaskLayout(folds=2)


def stored(folder: Path) -> Stored:
    url = sqlite_url(folder / "study.db")
    return Stored(url, "s", space_from_dict(SPACE), GOAL, LAYOUT, lambda _: None, is_own=True)


def reopened(record: Record, folder: Path) -> Record:
    record.close()
    return continue_record(stored(folder))


def restored(record: Record, folder: Path) -> Record:
    record.close()
    (folder / "study.db").rename(folder / "aside.db")
    return continue_record(stored(folder))


@dataclass(frozen=True)
class Store:
    make: Callable[[Path], Record]
    again: Callable[[Record, Path], Record] = reopened
    has_tables: bool = True


STORES = {
    "memory": Store(lambda _: memory_record(GOAL, LAYOUT), lambda record, _: record),
    "tables": Store(lambda folder: create_record(stored(folder))),
    "public calls": Store(lambda folder: create_record(stored(folder)), has_tables=False),
    "restored": Store(lambda folder: create_record(stored(folder)), restored),
}


@pytest.fixture(params=STORES)
def store(request, monkeypatch):
    if not STORES[request.param].has_tables:
        monkeypatch.setattr(Tables, "reflected", lambda *_: None)
    return STORES[request.param]


def filled(record: Record) -> Record:
    Notes(record).imports = []
    Notes(record).study_id = "its own"
    for layers in (1, 2, 3):
        record.open_trial(0, Proposal({**POINT, "layers": layers}), cost_of=lambda _: 0.5)
    record.open_trial(1, Proposal({**POINT, "lr": 0.5}, amount=4, continues=0, trained=2), learned=[0, 1])
    curve = [{"epoch": 1.0, "score": 0.05}]
    for index in range(LAYOUT.size):
        record.add_outcome(0, index, Outcome({"score": 0.1}, curve, 1.5, attempt=2, started=3.0, worker=4))
        record.add_outcome(1, index, Outcome(error="diverged", curve=[]))
    record.add_outcome(2, 0, Outcome({"score": 0.3}, [], stopped="at epoch 2"))
    record.stop(2)
    record.add_outcome(3, 1, Outcome({"score": 0.2}, []))
    record.write_added([AddedPoint(POINT, 3)])
    record.begin_stretch(2)
    record.ended = Ended("trials", 12.5, None)
    Notes(record).final_model = FinalModel(0, "checkpoints", 3, 1.5)
    return record


def described(record: Record) -> list[str]:
    notes, stretches = Notes(record), [stretch.workers for stretch in record.stretches]
    held = [record.added, stretches, record.ended, notes.final_model, notes.study_id]
    return [*map(repr, record.trials()), repr(held)]


def test_what_is_read_back_is_what_was_written(store, tmp_path):
    record = filled(store.make(tmp_path))
    before = described(record)
    assert [trial.state for trial in record.trials()] == ["complete", "failed", "stopped", "running"]
    assert record.ended == Ended("trials", 12.5, None)
    assert described(store.again(record, tmp_path)) == before


def test_an_interrupted_trial_goes_on_where_it_was(store, tmp_path):
    record = store.again(filled(store.make(tmp_path)), tmp_path)
    record.add_outcome(3, 1, Outcome({"score": 9.0}, []))
    trial = record.add_outcome(3, 0, Outcome({"score": 0.4}, []))
    assert (trial.state, trial.score) == ("complete", (0.2 + 0.4) / 2)
    assert record.open_trial(2, Proposal(POINT)).number == 4
    assert store.again(record, tmp_path).trials()[3] == trial
