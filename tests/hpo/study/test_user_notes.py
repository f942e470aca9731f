"""Notes of users on a study: at any time, none lost; in the report and in MLflow."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from jsonschema import validate

from hpo.errors import StudyError
from hpo.report.sections.report import report_schema
from hpo.study.files.user_notes import add_note, read_notes
from hpo.study.view.reader import StudyReader
from hpo.track.note import study_note
from tests.studies import StudyFolder, report_again, toy_config


def test_users_who_write_at_once_lose_nothing(tmp_path):
    folder = StudyFolder(tmp_path)
    with ThreadPoolExecutor(8) as users:
        list(users.map(lambda number: add_note(folder, f"note {number} {'x' * 9000}", {}), range(80)))
    assert {note.text.split()[1] for note in read_notes(folder)} == {str(number) for number in range(80)}
    assert (tmp_path / "notes.jsonl").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("tag", [*({key: "x"} for key in ("", "a b", "mlflow.user", "hpo.kind", "x" * 101)), {"x": 1}])
def test_a_bad_tag_is_refused_and_nothing_is_written(tmp_path, tag):
    with pytest.raises(StudyError, match=r"^tag: the (name|value of x) must "):
        add_note(StudyFolder(tmp_path), "text", tag)
    with pytest.raises(StudyError, match="note: is empty; give a text, a tag, or both"):
        add_note(StudyFolder(tmp_path), " ", {})
    assert list(tmp_path.iterdir()) == []


def test_a_link_in_its_place_is_not_followed(tmp_path):
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "study").mkdir()
    (tmp_path / "study/notes.jsonl").symlink_to(tmp_path / "mine")
    with pytest.raises(StudyError, match="is a link that leads out"):
        add_note(StudyFolder(tmp_path / "study"), "text", {})
    assert (tmp_path / "mine").read_text() == "mine"


def test_a_line_that_is_no_note_hides_no_other(tmp_path):
    folder = StudyFolder(tmp_path)
    add_note(folder, "first", {})
    with (tmp_path / "notes.jsonl").open("ab") as file:
        file.write(b'{"time": 1}\n[]\n\xff\xfe\n{"time": "x", "user": "y", "tags": ["z"]}\n' + b"[" * 100_000 + b"\n\n")
    add_note(folder, "second", {})
    assert [note.text for note in read_notes(folder)] == ["first", "second"]


def test_notes_are_in_the_report_and_on_the_page_in_mlflow(toy):
    folder = StudyFolder(toy.path.absolute())
    assert "notes" not in json.loads((folder.path / "report.json").read_text())
    add_note(folder, "the seeds of\nrun 3 were *odd*", {"phase": "first"})
    written = report_again(folder.path, toy_config(trials=2), has_page=False)
    validate(json.loads(json.dumps(written.summary)), report_schema())
    (noted,) = written.summary["notes"]["notes"]
    assert (noted["text"], written.summary["notes"]["tags"]) == ("the seeds of\nrun 3 were *odd*", {"phase": "first"})
    assert "## Notes\n\nTags: `phase=first`." in (folder.path / "report.md").read_text()
    assert "the seeds of run 3 were \\*odd\\*" in study_note(StudyReader(folder, "toy").view()).splitlines()[-1]
