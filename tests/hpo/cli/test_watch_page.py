"""`hpo watch`: what is refused, in one line; its server answers who has the address, until it is interrupted."""

import signal
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from tests.hpo.cli.commands import hpo
from tests.studies import environment


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["none", "--page", "--wait", "0.1"], "there is no 'none' under runs/"),
        (["--page", "--port", "70000"], "--port: must be 1 to 65535"),
        (["none", "--wait", "-1"], "--wait: must be 0 or more seconds, given -1"),
        (["--page", "--wait", "9"], "--wait: has no effect without a study"),
        (["none", "--page", "--in", "there"], "--in: has no effect with a study"),
    ],
)
def test_bad_input_is_one_line_and_creates_nothing(capsys, tmp_path, monkeypatch, arguments, says):
    monkeypatch.chdir(tmp_path)
    code, out, err = hpo(capsys, "watch", *arguments)
    assert (code, out, says in err, err.count("\n")) == (2, "", True, 1), err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_its_page_answers_who_has_the_address_until_it_is_interrupted(tmp_path):
    command = [sys.executable, "-m", "hpo", "watch", "--page", "--no-browser"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True) as server:
        address = server.stdout.readline().strip()
        with urllib.request.urlopen(address, timeout=30) as answer:
            assert b"There is no study under" in answer.read()
        with pytest.raises(urllib.error.HTTPError, match="403") as refused:
            urllib.request.urlopen(address.rsplit("/", 2)[0] + "/", timeout=30)
        refused.value.close()
        server.send_signal(signal.SIGINT)
        assert server.wait(timeout=30) == 0
    assert list(tmp_path.iterdir()) == []
