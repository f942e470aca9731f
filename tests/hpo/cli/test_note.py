"""`hpo note`: what it writes it lists, for people and for programs, and from Python."""

import json

import hpo as toolkit
from tests.hpo.cli.commands import documented, hpo, refused


def test_what_is_written_is_listed(capsys, study):
    assert hpo(capsys, "note", "made") == (0, "", "")
    hpo(capsys, "note", "made", "an odd \x1b[31m", "seed", "--tag", "phase=final", "--tag", "paper")
    code, out, err = hpo(capsys, "note", "made", "--tag", "phase=")
    assert (code, err, out.count("\n")) == (0, "", 2)
    assert "an odd  [31m seed, phase=final, paper=true\n" in out.replace("\ufffd", " ")
    code, out, _ = hpo(capsys, "note", "made", "--json")
    shown = json.loads(out)
    assert set(shown) == documented("hpo note")
    assert (code, shown["study"], shown["tags"]) == (0, "made", {"paper": "true"})
    assert [sorted(note) for note in shown["notes"]] == 2 * [["tags", "text", "time", "user"]]
    loaded = toolkit.load("made")
    loaded.note("from Python")
    assert (loaded.notes[-1].text, loaded.tags) == ("from Python", {"paper": "true"})


def test_what_says_nothing_is_refused(capsys, study):
    assert "note: is empty" in refused(capsys, "note", "made", "  ", is_silent=True)
    assert "tag: the name must be" in refused(capsys, "note", "made", "--tag", "=x", is_silent=True)
    assert "there is no 'nothing' under runs/" in refused(capsys, "note", "nothing", "text", is_silent=True)
    assert not (study / "notes.jsonl").exists()
