"""How the data were read stands in the report."""

import json

import pytest

import hpo
from tests.hpo.commands.searched import found

SAID = "3 of 20 texts are cut"


@hpo.objective(describe_data=lambda _config: hpo.Examples(20, name="texts", notes=[SAID]))
def train(config):
    return config["lr"]


def test_what_an_objective_notes_of_its_data_is_in_every_form_of_the_report():
    study = found(train, space={"lr": (0.1, 1.0)}, trials=2)
    assert json.loads((study.folder / "report.json").read_text())["data"]["notes"] == [SAID]
    for page in ("report.md", "report.html"):
        assert SAID in (study.folder / page).read_text()


def test_what_data_without_digests_are_compared_by_is_said_at_the_start_and_where_a_test_part_is_refused(capsys):
    @hpo.objective(describe_data=lambda _config: hpo.Examples(20, name="others"))
    def of_others(config):
        return config["lr"]

    found(train, space={"lr": (0.1, 1.0)}, trials=2, progress=True).test(with_default=False)
    assert "data: the examples have no digests" in capsys.readouterr().out
    other = found(of_others, space={"lr": (0.1, 1.0)}, trials=2)
    with pytest.raises(hpo.HpoError, match=r"compar\w+ .*the numbers of its examples, because they have no digests"):
        other.test(with_default=False)
    digests = [str(number) for number in range(20)]
    with_digests = hpo.objective(describe_data=lambda _config: hpo.Examples(20, digests=digests))(lambda config: 1.0)
    study = found(with_digests, space={"lr": (0.1, 1.0)}, trials=2, name="with", progress=True)
    study.test(with_default=False)
    assert "digests" not in capsys.readouterr().out
    with pytest.raises(hpo.HpoError, match=r"compar\w+ .*the digests of its examples"):
        study.test(with_default=False)


def test_a_function_without_data_has_no_test_part_and_says_how_to_give_it_one():
    def plain(config):
        return config["lr"]

    study = found(plain, space={"lr": (0.1, 1.0)}, trials=2)
    says = r"test: plain has no describe_data, so .* test split; write `@hpo.objective\(describe_data=...\)` above it"
    with pytest.raises(hpo.HpoError, match=says):
        study.test()
