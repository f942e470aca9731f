"""SQLite files, in a folder of any name, with more trials than can be read; and tables of trials."""

import optuna
import pytest

from hpo.errors import StudyError
from hpo.integrations.exchange.optuna_storage import read_optuna
from hpo.trials.record import storage
from hpo.trials.table import read_rows
from tests.studies import refuses


@pytest.mark.parametrize("name", ["it's", "a{b}", "x${y}", "q?m", "p%41", "h#h", "sp ace"])
def test_a_file_in_a_folder_of_any_name(tmp_path, name):
    path = tmp_path / name / "study.db"
    path.parent.mkdir()
    url = storage.sqlite_url(path)
    assert storage.sqlite_path(url) == path
    storage.open_storage(url, "here").remove_session()
    assert [each.name for each in tmp_path.rglob("*") if each.is_file()] == ["study.db"]
    assert path.exists()


def test_more_trials_than_can_be_read_are_refused():
    study = optuna.create_study(storage="sqlite:///many.db", study_name="s")
    study.optimize(lambda _: 1.0, n_trials=3)
    with pytest.raises(StudyError, match="has 3 trials, but at most 2 can be read"):
        read_optuna("sqlite:///many.db", None, most_trials=2)


@pytest.mark.parametrize(("content", "says"), [
    ("a,b,a\n1,2,3\n", "two columns are called 'a'; rename one of these columns"),
    ("a,b\n1,2\n1\n", "t.csv:3: each row must have 2 fields, one per column of the header"),
])  # fmt: skip
def test_a_table_that_does_not_say_what_each_field_is_is_refused(tmp_path, content, says):
    (tmp_path / "t.csv").write_text(content)
    refuses(StudyError, says, read_rows, tmp_path / "t.csv", ("a",))
