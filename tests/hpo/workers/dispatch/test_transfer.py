"""What goes to another machine: a task's data and state, and the Python files and declared data of its objective."""

import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from hpo.errors import DispatchError, StudyError
from hpo.trials.trial import Outcome
from hpo.workers.dispatch.code import code_of, describe, refuse_unlike, staged
from hpo.workers.dispatch.transfer import FileTransfer, Node
from hpo.workers.objective.resolution import resolve
from hpo.workers.store.disk import DiskStore
from hpo.workers.store.packing import ObjectStore
from hpo.workers.store.url import UrlStore, refuse_used
from tests.contracts.test_dispatchers import task as toy_task
from tests.studies import refuses

MIB = 2**20
PACKAGE = {f"travelling_package/{name}" for name in ("__init__.py", "train.py", "inner/__init__.py")}
PACKAGE |= {"travelling_helper.py"}
DATA = ("words.txt", "inner/data/table.csv", ".env", "id_rsa", ".backup/train.py")
BROKEN = ["[tool", "[tool]\nsetuptools = 1"]
BROKEN += [f"[tool.setuptools.package-data]\na = {value}" for value in ("1", '"*"', '["../*"]')]


class FakeChild:
    def __init__(self, outcome=None, snapshot=False, dies=False, looks_at="", leaves=None):
        self.outcome = outcome or Outcome({"score": 1.0})
        self.snapshot, self.dies, self.looks_at, self.leaves = snapshot, dies, looks_at, leaves

    def run(self, payload, call, snapshots, variables=None):
        self.payload = payload
        self.found = content(payload.data_dir), content(Path(payload.resume_dir, self.looks_at))
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
    names = ("data_dir", "resume_dir", "checkpoint_dir")
    payload = replace(toy_task(0, "constant").payload, **{name: str(tmp_path / "study" / name) for name in names})
    write(payload.data_dir, b"data")
    return payload


def objects(most_bytes=MIB):
    return ObjectStore(lambda piece: piece, lambda piece: piece, most_bytes)


def trained(payload, tmp_path, child, most_bytes_back=MIB):
    transfer, others = FileTransfer(objects()), []
    with closing(DiskStore("one", tmp_path / "node")) as disk:
        for message in Node(child, disk, objects(most_bytes_back), "n1").run(payload, "call 1", transfer.pack(payload)):
            if "content" in message:
                transfer.take(payload, message)
            else:
                others.append(message)
    return others


def test_a_model_comes_back_before_the_outcome(study, tmp_path):
    child = FakeChild()
    (message,) = trained(study, tmp_path, child)
    assert (message["outcome"].metrics, child.found) == ({"score": 1.0}, (b"data", None))
    assert content(study.checkpoint_dir) == b"model"
    assert content(study.resume_dir) is None
    assert not Path(child.payload.resume_dir).exists()


def test_a_state_that_keeps_its_last_step_by_a_link_is_found_on_the_next_node(study, tmp_path):
    write(Path(study.resume_dir) / "step_3", b"third")
    (Path(study.resume_dir) / "latest").symlink_to("step_3")
    child = FakeChild(looks_at="latest")
    trained(replace(study, amount=2), tmp_path, child)
    assert (child.found[1], Path(study.resume_dir, "latest").readlink()) == (b"third", Path("step_3"))
    assert content(study.resume_dir) == b"after"


def test_a_state_with_a_link_that_leads_out_of_it_does_not_travel_and_stops_nothing(study, tmp_path):
    """The worker refuses the link at the next report; who died before has no such state to go on from."""
    write(study.resume_dir, b"before")
    (message,) = trained(replace(study, amount=2), tmp_path, FakeChild(dies=True, leaves=("latest", "/etc")))
    assert ("died" in message, content(study.resume_dir)) == (True, b"before")
    Path(study.resume_dir, "latest").symlink_to("../other")
    trained(replace(study, amount=2), tmp_path, child := FakeChild())
    assert (child.found[1], content(study.resume_dir)) == (None, b"after")


@pytest.mark.parametrize(("end", "state", "model"), [
    ({"dies": True}, b"after", None), ({"outcome": Outcome({"score": 1.0}, stopped="after 1")}, b"after", b"model"),
    ({"outcome": Outcome(error="no luck")}, None, None)
])  # fmt: skip
def test_which_of_its_files_come_back_follows_from_how_a_training_ended(study, tmp_path, end, state, model):
    payload = replace(study, files_dir=str(tmp_path / "study" / "files"))
    trained(payload, tmp_path, FakeChild(**end))
    assert (content(study.resume_dir), content(study.checkpoint_dir)) == (state, model)
    assert content(payload.files_dir) == (None if "dies" in end else b"own")


def test_a_copy_of_the_state_comes_while_the_training_goes_on(study, tmp_path):
    point, _ = trained(study, tmp_path, FakeChild(snapshot=True))
    assert "snapshot" not in point
    assert content(study.resume_dir) == b"between"


def test_what_is_too_large_is_refused_with_what_to_do(study, tmp_path):
    with pytest.raises(DispatchError, match=r"largest_message: the development data must be at most"):
        FileTransfer(objects(100)).pack(study)
    (message,) = trained(study, tmp_path, FakeChild(), most_bytes_back=100)
    assert "the model must be at most" in message["machine_fault"]
    assert "(node n1)" in message["machine_fault"]


def test_with_artifacts_states_and_models_are_stored_there_and_nothing_is_sent_back(study, tmp_path, url):
    artifacts, payload, messages = UrlStore(url, "study.artifacts"), replace(study, amount=2), []
    for _ in range(2):
        child = FakeChild()
        with closing(DiskStore("one", tmp_path / "node")) as disk:
            messages += Node(child, disk, objects(1), "n1", artifacts).run(payload, "call 1", {})
    assert child.found == (b"data", b"after"), "it goes on from what the first one left"
    assert all("content" not in message for message in messages)
    assert not Path(study.resume_dir).exists()
    assert artifacts.get_folder("study/checkpoint_dir", tmp_path / "model")
    assert content(tmp_path / "model") == b"model"


def test_artifacts_go_when_they_are_not_needed_and_a_damaged_one_is_as_if_it_were_not_there(tmp_path, url):
    artifacts = UrlStore(url, "study.artifacts")
    write(tmp_path / "f", b"")
    for name in ("states/a", "states/b", "checkpoints/c"):
        artifacts.put_folder(name, tmp_path / "f")
    refuses(StudyError, "has states or models of another study", refuse_used, artifacts)
    assert sorted(artifacts.folders("states")) == ["a", "b"]
    for name in ("a", "never"):
        artifacts.remove_folder(f"states/{name}")
    assert not artifacts.get_folder("states/a", tmp_path / "a")
    assert artifacts.get_folder("states/b", tmp_path / "b")
    artifacts.place.write("checkpoints/c.tar", [b"cut off"])
    assert not artifacts.get_folder("checkpoints/c", tmp_path / "c")


@pytest.fixture
def working_directory(monkeypatch):
    code = "import travelling_helper\ndef run(config): return 1.0"
    files = {"travelling_helper.py": "A = 1", "travelling_other.py": "", "travelling_single.py": code}
    files |= {f"travelling_package/{name}": "" for name in ("__init__.py", "inner/__init__.py", *DATA)}
    files["travelling_package/train.py"] = code
    for name, text in files.items():
        Path(name).parent.mkdir(exist_ok=True, parents=True)
        Path(name).write_text(text)
    monkeypatch.syspath_prepend(str(Path.cwd()))
    yield str(Path.cwd())
    for name in [name for name in sys.modules if name.startswith("travelling")]:
        del sys.modules[name]


def sent(working_directory):
    return code_of(resolve("travelling_package.train:run(config)", working_directory), working_directory)


@pytest.mark.parametrize(("declared", "data"), [
    (None, ()), ('travelling_package = ["*.txt"]', ["words.txt"]),
    ('"*" = ["*.txt", "**/*.csv"]', ["words.txt", "inner/data/table.csv"]),
    ('"travelling_package.inner" = ["data/*"]', ["inner/data/table.csv"]),
    ('travelling_package = ["*"]', ["words.txt", "id_rsa"]), ('another_package = ["*"]', ())
])  # fmt: skip
def test_of_a_package_the_python_files_go_and_its_declared_data_but_no_hidden_files(working_directory, declared, data):
    if declared is not None:
        Path("pyproject.toml").write_text(f"[tool.setuptools.package-data]\n{declared}\n")
    code = sent(working_directory)
    assert set(code.files) == PACKAGE | {f"travelling_package/{name}" for name in data}
    assert set(code.others) == {f"travelling_package/{name}" for name in DATA} - set(code.files)


def test_links_that_leave_the_package_or_the_working_directory_do_not_go(working_directory, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "words.txt").touch()
    Path("travelling_helper.py").rename(elsewhere / "helper.py")
    Path("travelling_helper.py").symlink_to(elsewhere / "helper.py")
    Path("pyproject.toml").write_text('[tool.setuptools.package-data]\ntravelling_package = ["*.txt", "*/*.txt"]\n')
    package = Path("travelling_package")
    (package / "folder").symlink_to(elsewhere)
    (package / "linked.py").symlink_to(elsewhere / "helper.py")
    (package / "beside.txt").symlink_to(Path("travelling_other.py").absolute())
    (package / "same.txt").symlink_to("words.txt")
    code = sent(working_directory)
    assert set(code.files) == PACKAGE - {"travelling_helper.py"} | {f"{package}/words.txt", f"{package}/same.txt"}
    links = {f"{package}/{name}" for name in ("folder/words.txt", "beside.txt", "linked.py")}
    assert set(code.links) == {"travelling_helper.py", *links}


@pytest.mark.parametrize("text", BROKEN)
def test_a_declaration_that_cannot_be_read_is_refused(working_directory, text):
    Path("pyproject.toml").write_text(text)
    with pytest.raises(DispatchError, match=r"pyproject\.toml: .*(cannot be read: |given a text|given '\.\./\*')"):
        sent(working_directory)


def test_too_much_code_is_refused_with_the_largest_file(monkeypatch, working_directory):
    monkeypatch.setattr("hpo.workers.dispatch.code.MOST_BYTES", 10)
    says = r"must be at most .* given \d+ B; move travelling_package/train\.py, the largest file, elsewhere"
    with pytest.raises(DispatchError, match=says), staged(sent(working_directory)):
        pass


def test_a_module_goes_with_what_it_imports_and_of_the_toolkits_own_nothing(working_directory):
    files = code_of(resolve("travelling_single:run(config)", working_directory), working_directory)
    assert set(files.files) == {"travelling_single.py", "travelling_helper.py"}
    with staged(files) as folder:
        assert {path.name for path in folder.iterdir()} == set(files.files)
    assert not folder.exists()
    with staged(code_of(resolve("model.objective:run_fold"), working_directory)) as folder:
        assert folder is None


@pytest.mark.parametrize("name", ["Python", "torch", "hpo", "tests"])
def test_a_node_with_another_version_or_other_code_of_a_package_is_refused_with_both(name):
    here, node = describe("tests"), {"node": "n1"}
    refuse_unlike(here, here | node)
    says = rf"node n1 must have the same {name} .*{here[name].split()[0]}.*, given 0\.1;"
    refuses(DispatchError, says, refuse_unlike, here, here | node | {name: "0.1"})
    with pytest.raises(DispatchError, match="node n1 cannot import hpo: no module; install hpo there"):
        refuse_unlike(here, node | {"error": "no module"})
