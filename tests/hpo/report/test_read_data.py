"""How the data were read stands in the report."""

import json

import hpo
from tests.hpo.interface.searched import found

SAID = "3 of 20 texts are cut"


@hpo.objective(describe_data=lambda _config: hpo.Examples(20, name="texts", notes=[SAID]))
def train(config):
    return config["lr"]


def test_what_an_objective_notes_of_its_data_is_in_every_form_of_the_report():
    study = found(train, space={"lr": (0.1, 1.0)}, trials=2)
    assert json.loads((study.folder / "report.json").read_text())["data"]["notes"] == [SAID]
    for page in ("report.md", "report.html"):
        assert SAID in (study.folder / page).read_text()
