"""SQLite files, in a folder of any name."""

import pytest

from hpo.trials.record import storage


@pytest.mark.parametrize("name", ["it's", "a{b}", "x${y}", "q?m", "p%41", "h#h", "sp ace"])
def test_a_file_in_a_folder_of_any_name(tmp_path, name):
    path = tmp_path / name / "study.db"
    path.parent.mkdir()
    url = storage.sqlite_url(path)
    assert storage.sqlite_path(url) == path
    storage.open_storage(url, "here").remove_session()
    assert [each.name for each in tmp_path.rglob("*") if each.is_file()] == ["study.db"]
    assert path.exists()
