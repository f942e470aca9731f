"""What is fuzzed: for each reader what it is given, and the call that must end in an answer or in HpoError."""

import contextlib
import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from hypothesis import strategies as st

from hpo.config.composing import compose
from hpo.config.documents import parse_json, parse_yaml
from hpo.config.study_config import config_from_dict
from hpo.engine.schedule.proposer import propose
from hpo.errors import HpoError
from hpo.integrations.exchange.csv_table import read_csv
from hpo.study.files.folder import StudyFolder
from hpo.study.files.imports import read_imports
from hpo.study.preparing.preparation import prepare_study
from hpo.study.reproduce.recorded import read_files, read_recorded, unpack_report
from hpo.study.test_log import evaluations
from hpo.trials.goal import Goal
from hpo.trials.history import History
from hpo.trials.space.constraints import read_constraint
from hpo.trials.space.reader import space_from_dict
from hpo.trials.table import read_rows
from hpo.trials.trial import Trial
from hpo.workers.objective.resolution import resolve
from tests.fuzz.inputs import FILES, JSON, OVERRIDES, RULES, SPACE, YAML_TEXT, nearly
from tests.studies import SPACES, STRATEGIES, toy_config


class Target(NamedTuple):
    """A reader, what it is given, and of how many examples each round has: fewer where one takes long."""

    given: st.SearchStrategy[Any]
    call: Callable[[Any], Any]
    examples: int = 40


def read_configuration(given: list[str]) -> None:
    config_from_dict(compose.compose_config("search", given))


def read_whole_configuration(text: str) -> None:
    Path("whole.yaml").write_text(text, errors="surrogatepass")
    config_from_dict(compose.compose_config("search", [], config_file="whole.yaml"))


def put_together(tree: dict[str, Any]) -> None:
    study = prepare_study(config_from_dict(tree))
    counts = [value for value in study.config.strategy.values() if isinstance(value, int)]
    if study.config.strategy["name"] not in ("gp", "tpe", "cma_es", "qmc") and max(counts, default=0) < 1000:
        for number, proposal in enumerate(propose(study.strategy, History([]))[:3]):
            study.task_builder().tasks_of(Trial(number, 0, proposal.point, amount=proposal.amount))


# Of each kind of data the overrides, and the files that it may be in.
DATA = {
    "text_classification": ([], ("d.csv", "d.tsv", "d.jsonl", "d.csv.gz")),
    "tagging": ([], ("d.tsv", "d.tsv.gz")),
    "language_modelling": (["model=decoder", "study.metric=loss"], ("d.txt",)),
    "translation": (["model=encoder_decoder", "study.metric=loss"], ("d.tsv", "d.csv", "d.jsonl")),
}


@functools.cache
def composed(name: str) -> dict[str, Any]:
    return compose.compose_config("train", [f"data={name}", *DATA[name][0], "data.path=unknown"])


def read_data(case: tuple[str, str, bytes]) -> None:
    name, file, content = case
    Path(file).write_bytes(content)
    tree = {key: composed(name)[key] for key in ("model", "data", "training")}
    resolve("model.objective:run_fold").examples(tree | {"data": tree["data"] | {"path": file}})


def read_table(case: tuple[str, bytes]) -> None:
    file, content = case
    Path(file).write_bytes(content)
    data = {"name": "table", "path": file, "metric": "score", "cost": None, "where": {}, "columns": None}
    data |= {"absent": "fail", "curves": None, "curve": None, "metric_name": "score"}
    resolve("hpo.objectives.table:run_fold").refuse_bad_config({"data": data})


def read_trials(content: bytes) -> None:
    Path("trials.csv").write_bytes(content)
    for read in (
        lambda: read_rows(Path("trials.csv"), ["state"]),
        lambda: read_csv(Path("trials.csv"), {"score": None}, None),
        lambda: read_imports(["trials.csv"], space_from_dict({"lr": [1, 2, 3]}), Goal({"score": "maximize"})),
    ):
        _refused_or_not(read)


def read_folder(case: tuple[str, bytes]) -> None:
    name, content = case
    folder = Path("runs/x")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)
    study = StudyFolder(folder)
    for read in (
        study.config,
        study.test_result,
        lambda: study.changed_files("checkpoints"),
        lambda: read_recorded(read_files(study)),
        lambda: unpack_report(folder / name, Path(), "best"),
        lambda: evaluations(folder / name),
    ):
        _refused_or_not(read)
    (folder / name).unlink()


def _refused_or_not(read: Callable[[], Any]) -> None:
    with contextlib.suppress(HpoError):
        read()


KEYS = ["study.trials", "study.name", "model.d_model", "training.lr", "space.training.lr", "strategy", "data"]
KEYS += ["split.folds", "track.uri", "dispatch", "objective"]
ANY_TEXT = YAML_TEXT.map(lambda text: text.encode(errors="surrogatepass"))
JSON_FILES = JSON.map(lambda value: json.dumps(value).encode())
TOY = nearly(toy_config())
STUDIES = st.tuples(st.sampled_from(sorted(STRATEGIES)), st.sampled_from(sorted(SPACES)))
DATA_FILES = st.sampled_from([(name, ending) for name in sorted(DATA) for ending in DATA[name][1]])
OWN_FILES = st.sampled_from(["config.yaml", "report.json", "test.json", "test_evaluations.jsonl"])
CONFIGURED = st.one_of(OVERRIDES, st.tuples(st.sampled_from(KEYS), OVERRIDES).map("=".join))
TARGETS = {
    "YAML": Target(YAML_TEXT, lambda text: parse_yaml(text, "file"), 300),
    "JSON": Target(st.one_of(YAML_TEXT, JSON.map(json.dumps)), lambda text: parse_json(text, "file"), 200),
    "a whole configuration": Target(st.one_of(YAML_TEXT, TOY.map(yaml.safe_dump)), read_whole_configuration, 60),
    "a configuration": Target(st.lists(CONFIGURED, max_size=2), read_configuration, 8),
    "a study": Target(STUDIES.flatmap(lambda names: nearly(toy_config(names[0], SPACES[names[1]]))), put_together, 60),
    "a space": Target(SPACE, lambda tree: space_from_dict(tree, {"lr": 1}), 100),
    "rules": Target(RULES, lambda text: read_constraint(text, ["a", "b.c"], {"d": 1}).holds({"a": 1, "b.c": 0.5}), 150),
    "data": Target(st.tuples(DATA_FILES, FILES).map(lambda case: (*case[0], case[1])), read_data, 150),
    "tables": Target(st.tuples(st.sampled_from(["t.csv", "t.csv.gz", "t.parquet"]), FILES), read_table, 40),
    "trials": Target(FILES, read_trials, 60),
    "a study's folder": Target(st.tuples(OWN_FILES, st.one_of(FILES, ANY_TEXT, JSON_FILES)), read_folder, 60),
}
