"""The line of an error: what failed, and where."""

import json

import pytest

from hpo.workers.training.worker import one_line


def line_of(run, **secrets):
    with pytest.raises(Exception) as caught:  # noqa: PT011 -- whatever it is
        run()
    return one_line(caught.value, secrets)


def raises(error):
    raise error


def test_the_last_line_of_the_users_own_code_is_named_and_not_one_of_a_library():
    assert line_of(lambda: json.loads("{")).startswith("JSONDecodeError at test_failure.py:21: Expecting")
    assert one_line(ValueError("no luck"), {}) == "ValueError: no luck"


@pytest.mark.parametrize("file", ["/tmp/ipykernel_12/345.py", "<dynamic-code>"])
def test_a_function_of_a_cell_and_a_pickled_one_are_named_with_their_line(file):
    cell = {}
    exec(compile("\ndef train(config):\n    return 1 / 0", file, "exec"), cell)
    assert line_of(lambda: cell["train"]({})) == "ZeroDivisionError at line 3 of train: division by zero"


def test_a_secret_in_the_text_is_hidden_and_no_memory_comes_with_its_figures():
    assert "abc123" not in line_of(lambda: raises(ValueError("with abc123")), TOKEN="abc123")
    assert ": out of memory; " in line_of(lambda: raises(MemoryError()))
