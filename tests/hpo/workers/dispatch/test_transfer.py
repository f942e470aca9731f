"""What a task needs goes with it, and what it leaves is written where it would have left it."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from hpo.errors import DispatchError, StudyError
from hpo.trials.trial import Outcome
from hpo.workers.dispatch.transfer import FileTransfer, Node
from hpo.workers.store import packing
from hpo.workers.store.disk import DiskStore
from hpo.workers.store.packing import ObjectStore
from hpo.workers.store.url import UrlStore, refuse_used
from tests.contracts.test_dispatchers import task as toy_task

MIB = 2**20


class FakeChild:
    """In place of the process that trains: writes a state and a model where the payload says."""

    def __init__(self, outcome=None, snapshot=False, dies=False, looks_at="", leaves=None):
        self.outcome = outcome or Outcome({"score": 1.0})
        self.snapshot = snapshot
        self.dies = dies
        self.looks_at = looks_at
        self.leaves = leaves
        self.payload = None

    def run(self, payload, call, snapshots, variables=None):
        self.payload = payload
        self.seen = {
            "data_dir": content(payload.data_dir),
            "resume_dir": content(Path(payload.resume_dir, self.looks_at)),
        }
        write(payload.resume_dir, b"after")
        if self.leaves is not None:
            name, target = self.leaves
            Path(payload.resume_dir, name).symlink_to(target)
        write(payload.checkpoint_dir, b"model")
        if payload.files_dir is not None:
            write(payload.files_dir, b"own")
        if self.snapshot:
            write(snapshots / "1", b"between")
            yield {"call": call, "point": {}, "snapshot": str(snapshots / "1")}
        yield {"call": call, **({"died": {}} if self.dies else {"outcome": self.outcome})}


def write(folder, text):
    Path(folder).mkdir(parents=True, exist_ok=True)
    (Path(folder) / "f").write_bytes(text)


def content(folder):
    return (Path(folder) / "f").read_bytes() if Path(folder).exists() else None


@pytest.fixture
def study(tmp_path):
    """A payload whose folders are the driver's."""
    names = ("data_dir", "resume_dir", "checkpoint_dir")
    payload = replace(toy_task(0, "constant").payload, **{name: str(tmp_path / "study" / name) for name in names})
    write(payload.data_dir, b"data")
    return payload


def objects(most_bytes=MIB):
    """An object store without Ray: a piece is its own reference."""
    return ObjectStore(lambda piece: piece, lambda piece: piece, most_bytes)


def trained(payload, tmp_path, child, most_bytes_back=MIB, search="one"):
    """Train away from here, and return the messages that the loop would see."""
    freight = FileTransfer(objects())
    seen = []
    with closing(DiskStore(search, tmp_path / "node")) as disk:
        node = Node(child, disk, objects(most_bytes_back), "n1")
        for message in node.run(payload, "call 1", freight.pack(payload)):
            if "content" in message:
                freight.take(payload, message)
            else:
                seen.append(message)
    return seen


def test_a_model_comes_back_before_the_outcome(study, tmp_path):
    child = FakeChild()
    (message,) = trained(study, tmp_path, child)
    assert message["outcome"].metrics == {"score": 1.0}
    assert child.seen == {"data_dir": b"data", "resume_dir": None}
    assert content(study.checkpoint_dir) == b"model"
    # Nothing goes on from it, so it stays where it is, and goes with it.
    assert content(study.resume_dir) is None
    assert not Path(child.payload.resume_dir).exists()


@pytest.mark.parametrize("outcome", [Outcome({"score": 1.0}), Outcome(error="failed")])
def test_a_trainings_own_files_come_back_also_of_one_that_failed(study, tmp_path, outcome):
    payload = replace(study, files_dir=str(tmp_path / "study" / "files"))
    (message,) = trained(payload, tmp_path, FakeChild(outcome))
    assert message["outcome"] == outcome
    assert content(payload.files_dir) == b"own"


def test_a_state_goes_to_whichever_node_takes_its_training_and_comes_back(study, tmp_path):
    write(study.resume_dir, b"before")
    child = FakeChild()
    trained(replace(study, amount=2), tmp_path, child)
    assert child.seen["resume_dir"] == b"before"
    assert content(study.resume_dir) == b"after"


def test_a_state_that_keeps_its_last_step_by_a_link_is_found_on_the_next_node(study, tmp_path):
    write(Path(study.resume_dir) / "step_3", b"third")
    (Path(study.resume_dir) / "latest").symlink_to("step_3")
    child = FakeChild(looks_at="latest")
    trained(replace(study, amount=2), tmp_path, child)
    assert child.seen["resume_dir"] == b"third"
    assert Path(study.resume_dir, "latest").readlink() == Path("step_3")


def test_a_state_with_a_link_that_leads_out_of_it_does_not_travel_and_stops_nothing(study, tmp_path):
    """The worker refuses the link at the next report; who died before has no such state to go on from."""
    write(study.resume_dir, b"before")
    payload = replace(study, amount=2)
    (message,) = trained(payload, tmp_path, FakeChild(dies=True, leaves=("latest", "/etc")))
    assert "died" in message
    assert content(study.resume_dir) == b"before"
    Path(study.resume_dir, "latest").symlink_to("../other")
    child = FakeChild()
    trained(payload, tmp_path, child)
    assert child.seen["resume_dir"] is None
    assert content(study.resume_dir) == b"after"


def test_one_that_a_rule_has_stopped_keeps_its_state_and_a_failed_one_has_no_model(study, tmp_path):
    trained(study, tmp_path, FakeChild(Outcome({"score": 1.0}, stopped="after 1")))
    assert content(study.resume_dir) == b"after"
    write(study.checkpoint_dir, b"old")
    trained(study, tmp_path, FakeChild(Outcome(error="no luck")))
    assert content(study.checkpoint_dir) == b"old"


def test_one_that_died_is_tried_again_from_the_state_that_it_left(study, tmp_path):
    trained(study, tmp_path, FakeChild(dies=True))
    assert content(study.resume_dir) == b"after"
    assert content(study.checkpoint_dir) is None


def test_a_copy_of_the_state_comes_while_the_training_goes_on(study, tmp_path):
    point, _ = trained(study, tmp_path, FakeChild(snapshot=True))
    assert "snapshot" not in point
    assert content(study.resume_dir) == b"between"


def test_many_pieces_are_one_model(study, tmp_path, monkeypatch):
    monkeypatch.setattr(packing, "PIECE_BYTES", 700)
    trained(study, tmp_path, FakeChild())
    assert content(study.checkpoint_dir) == b"model"


class KeepingChild:
    """Trains an objective that keeps what it worked out beside its data, and writes over an example."""

    def __init__(self, scale):
        self.scale = scale

    def run(self, payload, call, snapshots, variables=None):
        kept = Path(payload.data_dir, "scaled")
        if not kept.exists():
            kept.write_text(f"{self.scale * len(content(payload.data_dir))}")
            Path(payload.data_dir, "f").unlink()
            write(payload.data_dir, b"x" * self.scale)
        yield {"call": call, "outcome": Outcome({"score": float(kept.read_text())})}


def test_two_studies_of_the_same_data_find_nothing_of_each_other_on_a_node(study, tmp_path):
    """Nor does a study that was deleted and made again: of its name and its folder is the same."""
    found = {scale: trained(study, tmp_path, KeepingChild(scale), search=f"of {scale}") for scale in (1, 7)}
    assert {scale: message["outcome"].metrics["score"] for scale, (message,) in found.items()} == {1: 4.0, 7: 28.0}
    assert content(study.data_dir) == b"data"


def test_the_workers_of_a_search_share_what_they_keep_beside_the_data(study, tmp_path):
    freight = FileTransfer(objects())
    with closing(DiskStore("one", tmp_path / "node")) as one, closing(DiskStore("one", tmp_path / "node")) as other:
        for disk, scale in ((one, 1), (other, 7)):
            node = Node(KeepingChild(scale), disk, objects(), "n1")
            (message,) = node.run(study, "call 1", freight.pack(study))
            assert message["outcome"].metrics["score"] == 4.0


def test_what_is_too_large_is_refused_with_what_to_do(study, tmp_path):
    with pytest.raises(DispatchError, match=r"largest_message: the development data .* at most .* raise it"):
        FileTransfer(objects(100)).pack(study)
    (message,) = trained(study, tmp_path, FakeChild(), most_bytes_back=100)
    assert "the model must be at most" in message["machine_fault"]
    assert "(node n1)" in message["machine_fault"]


def test_with_artifacts_states_and_models_lie_there_and_nothing_is_sent_back(study, tmp_path, url):
    artifacts = UrlStore(url, "study.artifacts")
    payload, seen = replace(study, amount=2), []
    for _ in range(2):
        child = FakeChild()
        with closing(DiskStore("one", tmp_path / "node")) as disk:
            node = Node(child, disk, objects(1), "n1", artifacts)
            seen += node.run(payload, "call 1", {})
    assert child.seen == {"data_dir": b"data", "resume_dir": b"after"}, "it goes on from what the first one left"
    assert all("content" not in message for message in seen)
    assert not Path(study.resume_dir).exists()
    assert artifacts.get_folder("study/checkpoint_dir", tmp_path / "model")
    assert content(tmp_path / "model") == b"model"


def test_artifacts_go_when_they_are_not_needed_and_a_damaged_one_is_as_if_it_were_not_there(tmp_path, url):
    artifacts = UrlStore(url, "study.artifacts")
    write(tmp_path / "f", b"")
    for name in ("states/a", "states/b", "checkpoints/c"):
        artifacts.put_folder(name, tmp_path / "f")
    with pytest.raises(StudyError, match="has states or models of another study"):
        refuse_used(artifacts)
    assert sorted(artifacts.folders("states")) == ["a", "b"]
    for name in ("a", "never"):
        artifacts.remove_folder(f"states/{name}")
    assert not artifacts.get_folder("states/a", tmp_path / "a")
    assert artifacts.get_folder("states/b", tmp_path / "b")
    artifacts.place.write("checkpoints/c.tar", [b"cut off"])
    assert not artifacts.get_folder("checkpoints/c", tmp_path / "c")
