"""A saved model and a training state say the format of their files; one of another format is refused, and says why."""

import json
import shutil

import pytest

from model import objective
from model.checkpoint import load_checkpoint
from model.data.hashes import FORMAT, HASHES
from model.errors import CheckpointError
from tests.model.conftest import run, small

OTHERS = {
    None: f"has format none, but this version reads only format {FORMAT}; it was written before the first release",
    FORMAT
    - 1: f"has format {FORMAT - 1}, but this version reads only format {FORMAT}; it was written before the first",
    FORMAT + 1: f"has format {FORMAT + 1}, but this version reads only format {FORMAT}; a later version of the toolkit",
}


def reformat(folder, number):
    """Give the files of a folder another number, or none, as a plain table of hashes has it."""
    written = json.loads((folder / HASHES).read_text())
    assert written["format"] == FORMAT
    other = written["files"] if number is None else written | {"format": number}
    (folder / HASHES).write_text(json.dumps(other))


def test_a_model_and_a_state_of_another_format_are_refused_in_one_line(fold, tmp_path):
    """The state, too: a training that began again without a word would take its time twice."""
    model, state, sound = (tmp_path / name for name in ("model", "state", "sound"))
    task = fold(small(), checkpoint_dir=str(model), resume_dir=str(state))
    run(task)
    load_checkpoint(str(model))
    shutil.copytree(model, sound / "model")
    shutil.copytree(state, sound / "state")
    for number, message in OTHERS.items():
        shutil.copytree(sound, tmp_path, dirs_exist_ok=True)
        for folder in (model, state / "last"):
            reformat(folder, number)
        with pytest.raises(CheckpointError) as refused:
            objective.predict(str(model), [[0] * 64], {})
        assert str(refused.value) == f"{model}: {message}"
        with pytest.raises(CheckpointError) as refused:
            run(task)
        assert str(refused.value) == f"{state / 'last'}: {message}"
        # The last one is damaged, and the one before is of another format.
        (state / "last" / HASHES).write_text("{")
        reformat(state / "before", number)
        with pytest.raises(CheckpointError) as refused:
            run(task)
        assert str(refused.value) == f"{state / 'before'}: {message}"
