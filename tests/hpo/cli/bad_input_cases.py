"""The table of bad input of `hpo search`.

A case is `(arguments, *words)`: what is typed, and the words that the one line must have. A dict at the end has the
files, each a text or bytes.
"""

ROWS = "".join(f"word{i} other,{'ab'[i % 2]}\n" for i in range(40))
GOOD = "text,label\n" + ROWS
TEXTS = ["data=text_classification", "data.path=data.csv"]
OWN = ["--config-dir", "my", "study=own"]
OWN_FILE = "my/study/own.yaml"
HEAD = "# @package _global_\ndefaults:\n  - default@study\n"
PAIRS = ["data=translation", "model=encoder_decoder"]
ALIGNED = [*PAIRS, "data.format=aligned", "data.path=p", "data.source_ending=.de", "data.target_ending=.en"]
LM = ["data=language_modelling", "model=decoder"]
SMALL = "lr,score\n1,2\n2,3\n"
HALVING = "strategy=successive_halving"
TABLE = ["data=table", "data.path=table.csv", "data.metric=score"]
SEVERAL = "study.metrics={accuracy:maximize,size:minimize}"


def whole(text, *words):
    """A whole configuration, given by --config."""
    return ["--config", "whole.yaml"], *words, {"whole.yaml": text}


def own(text, *words):
    """A group of the user's own, below the three lines that its file begins with."""
    return OWN, "config_dir", *words, {OWN_FILE: HEAD + text}


def texts(content, *words, name="data.csv", options=()):
    """A file of labelled texts."""
    return ["data=text_classification", f"data.path={name}", *options], *words, {name: content}


def splits(train, validation, *words):
    """A file for each split."""
    arguments = ["data=text_classification", "data.train=a.csv", "data.validation=b.csv", "data.test=c.csv"]
    return arguments, *words, {"a.csv": train, "b.csv": validation, "c.csv": "text,label\nq,a\n"}


def table(content, *words, options=()):
    """A table of measured configurations."""
    return [*TABLE, *options], *words, {"table.csv": content}


# These test how the command line and files are read and composed.
COMPOSED = {
    "unknown key": (["model.num_layer=3"], "model.num_layer", "did you mean 'model.num_layers'?"),
    "unknown strategy": (["strategy=gird"], "strategy: must be one of asha", "'grid'?"),
    "a metric that is not returned": (["study.metric=acuracy"], "study.direction", "did you mean 'accuracy'?"),
    "unreadable override": (["model.d_model"], "command line", "write key=value"),
    "names of metrics in quotes": (['study.metrics={"accuracy":maximize}'], "command line", "keys without quotes"),
    "a metric with metrics": ([SEVERAL, "study.metric=loss"], "study.metric: has no effect", "study.metrics"),
    "no such configuration file": (["--config", "missing.yaml"], "config:", "missing.yaml"),
    "a bracket that is not closed": whole("a: [1, 2\nb: 3\n", "whole.yaml:2:2", "not valid YAML"),
    "Latin-1": whole("a: 1\nname: café\n".encode("latin-1"), "whole.yaml:2:10", "0xe9", "UTF-8"),
    "a class path": (OWN, "model._target_", "no such key", {OWN_FILE: HEAD + "model: {_target_: os.mkdir}\n"}),
    "a reference to nowhere": (["study.name=${nothing.here}"], "study.name", "'nothing.here' not found"),
    "a resolver that does not exist": (["study.name=${shell:ls}"], "study.name", "shell", "allowed are"),
    "a variable that is not set": (["study.storage=${oc.env:NOT_SET_HERE}"], "study.storage", "NOT_SET_HERE", "set"),
    "a value that is left open": (["study.name=???"], "study.name", "give it a value"),
    "a value of the user's that is infinite": (["+my.z=inf"], "my.z", "finite", "JSON"),
}
VALUES = {
    "wrong type": (["study.trials=many"], "study.trials", "integer", "'many'"),
    "a needed key deleted": (["~study.trials"], "study.trials", "is missing"),
    "no minutes": (["study.minutes=0"], "study.minutes", "given 0"),
    "unknown device": (["training.device=tpu"], "training.device", "'cpu'", "'tpu'"),
    "metrics as a shell splits them": (["study.metrics=accuracy:maximize"], "study.metrics: must be in quotes"),
    "a choice of nothing": ([SEVERAL, "study.choose=kne"], "study.choose: must be one of knee"),
    "several processes in one": (["dispatch.processes_per_task=2"], "dispatch.processes_per_task", "dispatch=ray"),
    "a scale that the network cannot have": (
        ["strategy=ladder", "~space.model.d_model", "study.scales=[{model.d_model: 64}, {model.d_model: 130}]"],
        "study.scales: scale 2: model.d_model",
    ),
    "a network for other data": (["model=decoder"], "model.shape, data.name", "model=encoder"),
    "fractions above one": (["split.test_fraction=0.6", "split.validation_fraction=0.5"], "split.test_fraction", "1.1"),
    "the median rule with several metrics": ([SEVERAL, "study.stop_rule=median"], "study.stop_rule", "race_after"),
    "more folds than examples of a class": (["split.folds=500"], "split.folds", "class"),
    "two workers in one process": (["dispatch.workers=2"], "dispatch.workers", "dispatch=ray"),
    "more GPUs than exist": (["dispatch=ray", "dispatch.gpus=0", "dispatch.gpus_per_worker=1"], "the nodes have 0"),
}
SPACES = {
    "log from zero": (["space.training.lr={low: 0, high: 1, log: true}"], "space.training.lr", "above 0"),
    "two kinds at once": (["space.training.lr={low: 1, high: 2, values: [1]}"], "exactly one of"),
    "no values": (["space.training.lr=[]"], "space.training.lr", "empty"),
    "values in no order": (["space.training.lr=[0.1,0.001,0.01]"], "space.training.lr.values", "must be in order"),
    "a value that is refused": (["space.model.dropout=[0.1,1.5]"], "space.model.dropout", "refuses", "1.5"),
    "a key that does not exist": (["+space.model.depth=[1,2]"], "space.model.depth", "no key 'model.depth'"),
    "no dimension": (["~space.training", "~space.model", "~space.first"], "space", "no dimension"),
    "a condition on a missing parent": (["space.training.lr={values: [1], when: {x: [1]}}"], "'x' is not searched"),
}
STRATEGIES = {
    "an even window": (["strategy=shifting_window", "strategy.window=4"], "strategy.window", "odd"),
    "a grid over a range": (["strategy=grid", "space.training.lr={low: 0.1, high: 1}"], "space.training.lr.points=5"),
    "rungs without an end": table(SMALL, "strategy.max_amount: is missing", options=["strategy=hyperband"]),
    "imports from nowhere": (["study.imports=nobody"], "study.imports", "'nobody'"),
}
OBJECTIVES = {
    "an objective that does not exist": (["objective=nowhere:run"], "objective", "cannot import 'nowhere'"),
    "an objective that is no path": (["objective=run_fold"], "objective", "given 'run_fold'"),
    "an objective that is not Python": (["objective=bad_syntax:run"], "cannot import", {"bad_syntax.py": "def ("}),
    "an objective that fails": (["objective=fails:run"], "raised ZeroDivisionError: division", {"fails.py": "1 / 0"}),
}
DATA = {
    "no such data file": (TEXTS, "data.csv", "no such file"),
    "a misspelt data file": (TEXTS, "did you mean dat.csv?", {"dat.csv": GOOD}),
    "an empty data file": texts("", "data.csv", "empty"),
    "no such column": texts("x,y\n1,a\n", "data.csv:1", "'words'", "'x', 'y'", options=["data.text_column=words"]),
    "no known column": texts("body,id,label\nhello,1,a\n", "data.csv:1", "known name for the text", "'body'"),
    "an open quote": texts('text,label\nhello,a\n"world,b\n', "data.csv:3", "not valid CSV"),
    "another delimiter": texts(GOOD.replace(",", "|"), "data.csv:1", "1 columns"),
    "Latin-1 in the data": texts("text,label\nfine,a\ncafé,b\n".encode("latin-1"), "data.csv:3", "0xe9", "UTF-8"),
    "one class only": texts("text,label\nhello,a\nworld,a\n", "every label is 'a'", "two classes"),
    "a line that is no JSON": texts('{"text": "a", "label": "x"}\n{\n', "data.jsonl:2", "not JSON", name="data.jsonl"),
    "a label that training lacks": splits(GOOD, "text,label\nx,zzz\ny,a\n", "data.validation", "'zzz'", "'a', 'b'"),
    "splits that overlap": splits(GOOD, "text,label\nword0 other,a\nz,b\n", "are also in data.train"),
    "aligned files of different length": (ALIGNED, "p.de:2", "p.en has 1", {"p.de": "a\nb\n", "p.en": "c\n"}),
    "a word without a tag": (["data=tagging", "data.path=t.tsv"], "t.tsv:2", "1 column", {"t.tsv": "a\tN\nb\n"}),
    "a text of one line": ([*LM, "data.path=text.txt"], "text.txt", "validation", {"text.txt": "one line"}),
}
TABLES = {
    "a table without curves": table(SMALL, "data.curves", options=[HALVING, "strategy.max_amount=9"]),
    "a ragged table": table("lr,score\n1,2\n3,4,5\n", "table.csv", "line 3"),
    "a table without the score": table("lr,scores\n1,2\n", "data.metric", "did you mean 'scores'?"),
    "a negative cost": table("lr,score,s\n1,1,2\n2,1,-3\n", "data.cost", "row 2", options=["data.cost=s"]),
    "two rows of one point": table("lr,score\n1,1\n1,2\n2,3\n", "two rows with the values", "data.where"),
}
STORES = {
    "an MLflow folder": (["track=mlflow", "track.uri=./mlruns"], "track.uri", "begin with one", "sqlite:///mlflow.db"),
    "a database in no folder": (["track=mlflow", "track.uri=sqlite:///missing/m.db"], "track.uri", "'missing'"),
    "an address that Ray would find": (["dispatch=ray", "dispatch.address=auto"], "dispatch.address", "host:port"),
}
# These are refused after composing.
LATER = VALUES | SPACES | STRATEGIES | DATA | TABLES | STORES
