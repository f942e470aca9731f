"""What is fuzzed: for each reader what it is given, and the call that must end in an answer or in HpoError."""

import contextlib
import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from hypothesis import strategies as st

from hpo.commands.replay import replay_of
from hpo.commands.trust import ask_for_trust
from hpo.config.composing import compose, overrides
from hpo.config.documents import parse_json, parse_yaml
from hpo.config.secrets import hide_secrets, redact, reveal_secrets, values_of
from hpo.config.study_config import config_from_dict
from hpo.engine.schedule.proposer import propose
from hpo.errors import HpoError
from hpo.integrations.exchange.csv_table import read_csv
from hpo.study.files.folder import StudyFolder
from hpo.study.files.imports import read_imports
from hpo.study.preparing.preparation import prepare_study
from hpo.study.reproduce.recorded import read_files, read_recorded, unpack_report
from hpo.study.test_log import evaluations
from hpo.study.train_once import train_once
from hpo.trials.goal import Goal
from hpo.trials.history import History
from hpo.trials.space.constraints import read_constraint
from hpo.trials.space.reader import space_from_dict
from hpo.trials.table import read_rows
from hpo.trials.trial import Trial
from hpo.workers.objective.resolution import resolve
from hpo.workers.training.tasks import Payload
from hpo.workers.training.worker import run_task
from tests.fuzz.inputs import FILES, JSON, OVERRIDES, RULES, SPACE, YAML_TEXT, nearly
from tests.studies import SPACES, STRATEGIES, toy_config


class Target(NamedTuple):
    """A reader, what it is given, and how many examples of that in the quick run: fewer where one takes long."""

    given: st.SearchStrategy[Any]
    call: Callable[[Any], Any]
    examples: int = 40


# Their samplers take a tenth of a second and more.
OPTUNAS = ("gp", "tpe", "cma_es", "qmc")


def read_overrides(texts: list[str]) -> None:
    for text in texts:
        overrides.parse_override(text)


def read_whole_configuration(text: str) -> None:
    Path("whole.yaml").write_text(text, errors="surrogatepass")
    config_from_dict(compose.compose_config("search", [], config_file="whole.yaml"))


def put_together(tree: dict[str, Any]) -> None:
    """As far as `hpo search` goes before anything is created; refused or not, the first round must come."""
    study = prepare_study(config_from_dict(tree))
    counts = [value for value in study.config.strategy.values() if isinstance(value, int)]
    if study.config.strategy["name"] not in OPTUNAS and max(counts, default=0) < 1000:
        proposals = propose(study.strategy, History([]))
        for number, proposal in enumerate(proposals[:3]):
            study.task_builder().tasks_of(Trial(number, 0, proposal.point, amount=proposal.amount))


DATA = {
    "text_classification": ["data=text_classification"],
    "tagging": ["data=tagging"],
    "language_modelling": ["data=language_modelling", "model=decoder", "study.metric=loss"],
    "translation": ["data=translation", "model=encoder_decoder", "study.metric=loss"],
}


@functools.cache
def composed(name: str) -> dict[str, Any]:
    """The configuration of one kind of data, composed once a process: Hydra takes a fifth of a second."""
    return compose.compose_config("train", [*DATA[name], "data.path=unknown"])


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
    space = space_from_dict({"lr": [1, 2, 3]})
    for read in (
        lambda: read_rows(Path("trials.csv"), ["state"]),
        lambda: read_csv(Path("trials.csv"), "score", None, None),
        lambda: read_imports(["trials.csv"], space, Goal({"score": "maximize"})),
    ):
        _refused_or_not(read)


def read_folder(case: tuple[str, bytes]) -> None:
    """The files of a study's folder that are read back."""
    name, content = case
    folder = Path("runs/x")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)
    study = StudyFolder(folder)
    for read in (study.config, study.test_result, lambda: study.changed_files("checkpoints")):
        _refused_or_not(read)
    if name == "report.json":
        _refused_or_not(lambda: unpack_report(folder / name, Path()))
    (folder / name).unlink()


def read_test_log(content: bytes) -> None:
    Path("ledger.jsonl").write_bytes(content)
    evaluations(Path("ledger.jsonl"))


def hide_and_reveal(tree: dict[str, Any]) -> None:
    redacted, secrets = redact(tree)
    values = values_of(redacted, secrets)
    reveal_secrets(redacted, values)
    hide_secrets(json.dumps(redacted), values)


def decide_rule(text: str) -> None:
    read_constraint(text, ["a", "b.c"], {"d": 1}).holds({"a": 1, "b.c": 0.5})


def _refused_or_not(read: Callable[[], Any]) -> None:
    with contextlib.suppress(HpoError):
        read()


_REPORTED: list[tuple[list[Any], Any]] = []


def reports_what_is_given(task: dict[str, Any]) -> Any:
    points, returned = _REPORTED[0]
    yield from points
    return returned


def report_anything(reported: tuple[list[Any], Any]) -> None:
    """Whatever an objective yields and returns, it becomes an outcome that every file can hold."""
    _REPORTED[:] = [reported]
    *messages, last = run_task(Payload(f"{__name__}:reports_what_is_given", {}, "score"))
    messages.append(last["outcome"].to_dict())
    text = json.dumps(messages, allow_nan=False)
    assert json.loads(text) == messages
    text.encode()


def read_stranger(case: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """A study's folder from somebody else: reproduced or replayed, it is refused before its objective is imported."""
    tree, report = case
    folder = Path("theirs")
    folder.mkdir(exist_ok=True)
    (folder / "config.yaml").write_text(yaml.safe_dump(tree), errors="surrogatepass")
    (folder / "trials.csv").write_text("number,state,score\n0,complete,1\n")
    (folder / "report.json").write_text(json.dumps(report))
    for read in (
        lambda: ask_for_trust(StudyFolder(folder).config(), [], is_given=False),
        lambda: read_recorded(read_files(StudyFolder(folder))),
        lambda: replay_of("theirs", [], is_trusted=True),
        lambda: unpack_report(folder / "report.json", Path()),
    ):
        _refused_or_not(read)


ENDINGS = {
    "text_classification": ("d.csv", "d.tsv", "d.jsonl", "d.csv.gz"),
    "tagging": ("d.tsv", "d.tsv.gz"),
    "language_modelling": ("d.txt",),
    "translation": ("d.tsv", "d.csv", "d.jsonl"),
}
KEYS = ["study.trials", "study.name", "model.d_model", "training.lr", "space.training.lr", "strategy", "data"]
KEYS += ["split.folds", "track.uri", "dispatch", "objective"]

ANY_TEXT = YAML_TEXT.map(lambda text: text.encode(errors="surrogatepass"))
# Scalars that JSON does not have, in what it has; names of every kind.
NAMES = st.sampled_from(["epoch", "score", "seconds", "warning"]) | st.text(max_size=3)
REPORTED = st.recursive(
    st.one_of(st.none(), st.booleans(), st.floats(), st.integers(), st.text(max_size=4), st.binary(max_size=2)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner),
    max_leaves=8,
)
JSON_OBJECTS = st.dictionaries(st.sampled_from(["files", "study", "config", "winner", "environment", "space"]), JSON)
JSON_FILES = JSON.map(lambda value: json.dumps(value).encode())

TOY = nearly(toy_config())
NAMED = st.tuples(st.sampled_from(KEYS), OVERRIDES).map("=".join)
STUDIES = st.tuples(st.sampled_from(sorted(STRATEGIES)), st.sampled_from(sorted(SPACES)))
DATA_FILES = st.sampled_from([(name, ending) for name in sorted(ENDINGS) for ending in ENDINGS[name]])
STRANGERS = st.one_of(JSON_OBJECTS, st.fixed_dictionaries({"config": TOY, "winner": JSON}))
OWN_FILES = st.sampled_from(["config.yaml", "report.json", "test.json"])

TARGETS = {
    "YAML": Target(YAML_TEXT, lambda text: parse_yaml(text, "file"), 300),
    "JSON": Target(st.one_of(YAML_TEXT, JSON.map(json.dumps)), lambda text: parse_json(text, "file"), 200),
    "a whole configuration": Target(st.one_of(YAML_TEXT, TOY.map(yaml.safe_dump)), read_whole_configuration, 60),
    "overrides": Target(st.lists(OVERRIDES, max_size=2), read_overrides, 100),
    "a configuration": Target(
        st.lists(st.one_of(OVERRIDES, NAMED), max_size=2),
        lambda given: config_from_dict(compose.compose_config("search", given)),
        8,
    ),
    "a study": Target(STUDIES.flatmap(lambda names: nearly(toy_config(names[0], SPACES[names[1]]))), put_together, 60),
    "a single training": Target(
        TOY, lambda tree: train_once({**tree, "objective": "json:nothing"}, lambda point: None), 40
    ),
    "a space": Target(SPACE, lambda tree: space_from_dict(tree, {"lr": 1}), 100),
    "rules": Target(RULES, decide_rule, 150),
    "data": Target(st.tuples(DATA_FILES, FILES).map(lambda case: (*case[0], case[1])), read_data, 150),
    "tables": Target(st.tuples(st.sampled_from(["t.csv", "t.csv.gz", "t.parquet"]), FILES), read_table, 40),
    "trials": Target(FILES, read_trials, 60),
    "a study's folder": Target(st.tuples(OWN_FILES, st.one_of(FILES, ANY_TEXT, JSON_FILES)), read_folder, 60),
    "what an objective reports": Target(st.tuples(st.lists(REPORTED, max_size=3), REPORTED), report_anything, 150),
    "a stranger's study": Target(st.tuples(TOY, STRANGERS), read_stranger, 25),
    "the test log": Target(st.one_of(FILES, JSON_FILES), read_test_log, 60),
    "secrets": Target(st.dictionaries(st.text(max_size=8), JSON, max_size=4), hide_and_reveal, 80),
}
