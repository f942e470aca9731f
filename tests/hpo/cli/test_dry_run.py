"""`hpo search --dry-run`: checks and prints what the search would do, and creates nothing."""

import importlib
import sys
from pathlib import Path

import pytest

from tests.hpo.cli.commands import hpo, prints, refused
from tests.hpo.cli.test_bad_input import snapshot

STUDY = ("objective='dry_ours.train:run(config)'", "+lr=0.1", "space=none", "+space.lr={low: 0.0, high: 1.0}")
STUDY = (*STUDY, "study.name=dry", "study.metric=score", "study.trials=3", "track=none")
NO_CLUSTER = "dispatch.address=127.0.0.1:1"


@pytest.fixture(autouse=True)
def package():
    Path("dry_ours").mkdir()
    code = "def run(config):\n    return config['lr']\n"
    for name, text in {"__init__.py": "", "train.py": code, "vocabulary.txt": "words"}.items():
        Path("dry_ours", name).write_text(text)
    importlib.invalidate_caches()
    path = sys.path[:]
    yield
    sys.path[:] = path
    for name in [name for name in sys.modules if name.startswith("dry_ours")]:
        del sys.modules[name]


def test_it_shows_what_would_be_and_creates_nothing(capsys):
    before = snapshot()
    code, out, _ = hpo(capsys, "search", *STUDY, NO_CLUSTER, "dispatch.workers=7", "--dry-run")
    assert (code, snapshot(), "study dry: 3 trials, score (maximize)\n" in out) == (0, before, True)
    assert "folder: runs/dry (new); folds: 1; repeats: 1; workers: 7\n" in out
    size = Path("dry_ours/train.py").stat().st_size
    files = ["0 bytes dry_ours/__init__.py", f"{size} bytes dry_ours/train.py", "not sent dry_ours/vocabulary.txt"]
    assert [" ".join(line.split()) for line in out.splitlines() if line.startswith(" ")] == files


@pytest.mark.slow
def test_a_study_that_exists_is_checked_as_by_resume(capsys):
    assert hpo(capsys, "search", *STUDY, "dispatch=local", "report.figures=false")[0] == 0
    before = snapshot()
    again = ("search", *STUDY, "dispatch=local", "--dry-run")
    assert "runs/dry (exists, with 3 trials)" in prints(capsys, *again, "study.trials=5")
    assert "study.seed was " in refused(capsys, *again, "study.seed=5", is_silent=True)
    assert {name for name in before if snapshot()[name] != before[name]} == set()


def test_a_search_on_nodes_says_first_which_files_it_sends_to_them(capsys):
    code, out, err = hpo(capsys, "search", *STUDY, NO_CLUSTER)
    assert (code, "no Ray cluster is at" in err) == (2, True)
    assert "your code goes to the nodes: 2 files, 1 KiB (dry_ours/__init__.py, dry_ours/train.py); not sent: 1 " in out
