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
TAGS = ["data=tagging", "data.path=t.tsv"]
MADE = ["data=generated", "model=encoder_decoder"]
SMALL = "lr,score\n1,2\n2,3\n"
HALVING = "strategy=successive_halving"
SHARED = "dispatch.processes_per_task=2"
CYCLE = ["space.model.d_model={values: [1], when: {model.num_layers: [2]}}"]
CYCLE += ["space.model.num_layers={values: [2], when: {model.d_model: [1]}}"]
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
    "unknown dispatch": (["dispatch=slurm"], "dispatch: must be one of local, ray"),
    "a metric that is not returned": (["study.metric=acuracy"], "study.direction", "did you mean 'accuracy'?"),
    "unreadable override": (["model.d_model"], "command line", "write key=value"),
    "an override without a key": (["=3"], "command line", "has no key"),
    "several values": (["study.trials=1,2"], "study.trials", "takes one value"),
    "a deep override": (["study.name=" + "[" * 300 + "]" * 300], "config", "nested too deeply"),
    "a number of 5,000 digits": (["study.trials=1" + "0" * 5000], "command line", "digits"),
    "names of metrics in quotes": (['study.metrics={"accuracy":maximize}'], "command line", "keys without quotes"),
    "an umlaut that is not quoted": (["study.name=größe"], "study.name=größe", "quote values"),
    "not UTF-8": (["study.name=\udcff"], "command line", "not UTF-8", r"\xff"),
    "a metric twice": (["study.metrics={loss:maximize,loss:minimize}"], "study.metrics", "given 'loss' twice"),
    "a metric with metrics": ([SEVERAL, "study.metric=loss"], "study.metric: has no effect", "study.metrics"),
    "an option that does not exist": (["--nope"], "command line", "--nope", "hpo search --help"),
    "an option without its value": (["--config"], "command line", "--config", "expected one argument"),
    "a key added that exists": (["+study.trials=3"], "study.trials", "already"),
    "a group that is a number": (["strategy=3"], "strategy", "must be a name from the group strategy", "3"),
    "no such configuration file": (["--config", "missing.yaml"], "config:", "missing.yaml"),
    "no such folder": (["--config-dir", "missing"], "config_dir:", "missing"),
    "a study to replay that does not exist": (["--replay", "nothing"], "no 'nothing'"),
    "a bracket that is not closed": whole("a: [1, 2\nb: 3\n", "whole.yaml:2:2", "not valid YAML"),
    "Latin-1": whole("a: 1\nname: café\n".encode("latin-1"), "whole.yaml:2:10", "0xe9", "UTF-8"),
    "a NUL in a file": whole("a: \0\n", "whole.yaml", "control characters"),
    "a list at the top": whole("- 1\n", "must be a mapping", "a list"),
    "two documents": whole("a: 1\n---\nb: 2\n", "whole.yaml:2:1", "another document"),
    "a key that is no text": whole("a: {1: x}\n", "whole.yaml:1:5", "put it in quotes"),
    "a folder": (["--config", "my"], "config:", "directory", {"my/x": ""}),
    "a bracket in a group": own("a: [1, 2\nb: 3\n", "own.yaml:5:2"),
    "a group that names itself": (OWN, "has itself", {OWN_FILE: "defaults:\n  - own\n"}),
    "a default that does not exist": (OWN, "study", "'nothing'", {OWN_FILE: "defaults:\n  - nothing\n"}),
    "a class path": (OWN, "model._target_", "no such key", {OWN_FILE: HEAD + "model: {_target_: os.mkdir}\n"}),
    "references in a cycle": (["study.name=${study.imports}", "study.imports=${study.name}"], "Recursive"),
    "a reference to nowhere": (["study.name=${nothing.here}"], "study.name", "'nothing.here' not found"),
    "a resolver that does not exist": (["study.name=${shell:ls}"], "study.name", "shell", "allowed are"),
    "a variable that is not set": (["study.storage=${oc.env:NOT_SET_HERE}"], "study.storage", "NOT_SET_HERE", "set"),
    "a value that is left open": (["study.name=???"], "study.name", "give it a value"),
    "a value of the user's that is infinite": (["+my.z=inf"], "my.z", "finite", "JSON"),
}
VALUES = {
    "wrong type": (["study.trials=many"], "study.trials", "integer", "'many'"),
    "more trials than there can be": (["study.trials=1" + "0" * 300], "study.trials", "less than or equal"),
    "a negative seed": (["study.seed=-1"], "study.seed", "given -1"),
    "a needed key deleted": (["~study.trials"], "study.trials", "is missing"),
    "unknown device": (["training.device=tpu"], "training.device", "'cpu'", "'tpu'"),
    "unknown direction": (["study.direction=up"], "study.direction", "'maximize'", "'up'"),
    "no metrics": (["study.metrics={}"], "study.metrics: must have a direction for each metric"),
    "metrics as a shell splits them": (["study.metrics=accuracy:maximize"], "study.metrics: must be in quotes"),
    "several as one": (["study.metric={accuracy:maximize}"], "study.metric: must be one name", "study.metrics"),
    "a limit that is no number": (["study.limits={size:5GB}"], "study.limits.size: must be a number", "5GB"),
    "a limit with its ends exchanged": (["study.limits={size:{min:5,max:1}}"], "study.limits.size: must have a min"),
    "no limits": (["study.limits={}"], "study.limits: must have a bound for each metric", "null"),
    "a choice of nothing": ([SEVERAL, "study.choose=kne"], "study.choose: must be one of knee"),
    "a choice by another metric": ([SEVERAL, "study.choose={speed:1}"], "study.choose: must name metrics", "speed"),
    "a negative weight": ([SEVERAL, "study.choose={accuracy:-1}"], "study.choose: must have weights", "0 or more"),
    "GPUs of one process": (["dispatch.gpus_per_process=1"], "dispatch.gpus_per_process", "has an effect only"),
    "GPUs of several processes": (["dispatch=ray", SHARED, "dispatch.gpus_per_worker=1"], "dispatch.gpus_per_process"),
    "several processes in one": ([SHARED], "dispatch.processes_per_task", "dispatch=ray"),
    "a negative timeout": (["dispatch.timeout_seconds=-1"], "dispatch.timeout_seconds", "-1"),
    "one GPU and a half": (["dispatch.gpus_per_worker=1.5"], "dispatch.gpus_per_worker", "whole number"),
    "heads that do not fit": (["model.num_heads=7"], "model.num_heads", "given 64 and 7"),
    "a scale that the network cannot have": (
        ["strategy=ladder", "~space.model.d_model", "study.scales=[{model.d_model: 64}, {model.d_model: 130}]"],
        "study.scales: scale 2: model.d_model",
    ),
    "a network for other data": (["model=decoder"], "model.shape, data.name", "model=encoder"),
    "fractions above one": (["split.test_fraction=0.6", "split.validation_fraction=0.5"], "split.test_fraction", "1.1"),
    "rungs by the noise of one of several metrics": (
        [SEVERAL.replace("size", "loss"), "strategy=asha", "strategy.rungs=progressive"],
        "strategy: asha needs a single metric",
    ),
    "the median rule with several metrics": ([SEVERAL, "study.stop_rule=median"], "study.stop_rule", "race_after"),
    "a race without folds": (["split.race_after=2", "split.folds=1"], "split.race_after"),
    "more folds than examples of a class": (["split.folds=500"], "split.folds", "class"),
    "two workers in one process": (["dispatch.workers=2"], "dispatch.workers", "dispatch=ray"),
    "more GPUs than exist": (["dispatch=ray", "dispatch.gpus=0", "dispatch.gpus_per_worker=1"], "the nodes have 0"),
    "artifacts without Ray workers": (["study.artifacts=file:///x"], "study.artifacts", "only with dispatch=ray"),
    "mirror without a URL": (["study.mirror=x"], "study.mirror", "must be a URL", "'x'"),
    "mirror of an unknown kind": (["study.mirror=nope://x"], "study.mirror", "Protocol not known: nope"),
    "mirror of a record elsewhere": (["study.mirror=file:///x", "study.storage=sqlite:///x"], "leave out study.mirror"),
    "environment without a cluster": (
        ["dispatch=ray", "dispatch.environment={pip: [x]}"],
        "only with dispatch.address",
    ),
    "environment of another kind": (
        ["dispatch=ray", "dispatch.address='127.0.0.1:1'", "dispatch.environment={working_dir: x}"],
        "dispatch.environment: must have only pip, uv, conda, env_vars",
    ),
    "data larger than memory": ([*MADE, "data.num_examples=100000000", "data.max_length=100000"], "product"),
    "more generated than exist": ([*MADE, "data.num_symbols=2", "data.max_length=2"], "data.num_examples", "at most 6"),
}
SPACES = {
    "log from zero": (["space.training.lr={low: 0, high: 1, log: true}"], "space.training.lr", "above 0"),
    "an infinite range": (["space.training.lr={low: -inf, high: inf}"], "space.training.lr.low", "finite"),
    "a range of one point": (["space.training.lr={low: 1, high: 2, points: 1}"], "points", "at least 2", "100,000"),
    "two kinds at once": (["space.training.lr={low: 1, high: 2, values: [1]}"], "exactly one of"),
    "no values": (["space.training.lr=[]"], "space.training.lr", "empty"),
    "values in no order": (["space.training.lr=[0.1,0.001,0.01]"], "space.training.lr.values", "must be in order"),
    "a value that is a list": (["space.training.lr=[[1],[2]]"], "space.training.lr", "given [1]"),
    "a value that is refused": (["space.model.dropout=[0.1,1.5]"], "space.model.dropout", "refuses", "1.5"),
    "a span beyond every float": (["space.training.lr={low: -1e308, high: 1e308}"], "space.training.lr", "1.8e308"),
    "a text for a dimension": (["space.training.lr=abc"], "space.training.lr", "'abc'"),
    "a key that does not exist": (["+space.model.depth=[1,2]"], "space.model.depth", "no key 'model.depth'"),
    "no dimension": (["~space.training", "~space.model", "~space.first"], "space", "no dimension"),
    "a condition on a missing parent": (["space.training.lr={values: [1], when: {x: [1]}}"], "'x' is not searched"),
    "a condition on a later parent": (
        ["space.training.lr={values: [1], when: {model.num_layers: [2]}}"],
        "come before",
    ),
    "conditions in a cycle": (CYCLE, "cycle"),
    "a rule that is a number": (["+space.require=3"], "space.require", "given 3"),
    "a first point outside": (["space.first=[{training.lr: 0.5}]"], "space.first[0]", "training.lr=0.5"),
}
STRATEGIES = {
    "a strategy that is no text": (["strategy.name=[1]"], "strategy.name: must be the name of a strategy", "[1]"),
    "an even window": (["strategy=shifting_window", "strategy.window=4"], "strategy.window", "odd"),
    "a start outside": (["strategy=shifting_window", "strategy.start={training.lr: 5}"], "strategy.start.training.lr"),
    "a mutation above one": (["strategy=evolutionary", "strategy.mutation=1.5"], "strategy.mutation", "1.5"),
    "a grid over a range": (["strategy=grid", "space.training.lr={low: 0.1, high: 1}"], "space.training.lr.points=5"),
    "rungs that do not rise": ([HALVING, "strategy.min_amount=9", "strategy.max_amount=9"], "strategy.min_amount"),
    "rungs without an end": table(SMALL, "strategy.max_amount: is missing", options=["strategy=hyperband"]),
    "imports from none": (["study.imports=[]"], "study.imports: must be a study or a list of studies", "[]"),
    "values for no imports": (["study.imports_fill={training.lr: 0.1}"], "study.imports_fill", "study.imports;"),
    "imports from nowhere": (["study.imports=nobody"], "study.imports", "'nobody'"),
}
OBJECTIVES = {
    "an objective that does not exist": (["objective=nowhere:run"], "objective", "cannot import 'nowhere'"),
    "an objective without a function": (["objective=no_one:run"], "objective", "no function 'run'", {"no_one.py": ""}),
    "an objective that is part of Python": (["objective=json:run"], "objective", "part of Python"),
    "an objective of hpo that is none": (["objective=hpo.study.files.folder:find_study"], "objective", "internal"),
    "an objective that is no path": (["objective=run_fold"], "objective", "given 'run_fold'"),
    "an objective that is not Python": (["objective=bad_syntax:run"], "cannot import", {"bad_syntax.py": "def ("}),
    "an objective that fails": (["objective=fails:run"], "raised ZeroDivisionError: division", {"fails.py": "1 / 0"}),
    "an objective that leaves": (["objective=leaves:run"], "raised SystemExit", {"leaves.py": "raise SystemExit(3)"}),
}
DATA = {
    "no such data file": (TEXTS, "data.csv", "no such file"),
    "a misspelt data file": (TEXTS, "did you mean dat.csv?", {"dat.csv": GOOD}),
    "a folder of data": (TEXTS, "data.csv: is a folder", {"data.csv/x": ""}),
    "an empty data file": texts("", "data.csv", "empty"),
    "a header alone": texts("text,label\n", "data.csv", "no example"),
    "no such column": texts("x,y\n1,a\n", "data.csv:1", "'words'", "'x', 'y'", options=["data.text_column=words"]),
    "no known column": texts("body,id,label\nhello,1,a\n", "data.csv:1", "known name for the text", "'body'"),
    "a column twice": texts("text,text,label\na,b,c\n", "data.csv:1", "two columns are called 'text'"),
    "an open quote": texts('text,label\nhello,a\n"world,b\n', "data.csv:3", "not valid CSV"),
    "another delimiter": texts(GOOD.replace(",", "|"), "data.csv:1", "1 columns"),
    "Latin-1 in the data": texts("text,label\nfine,a\ncafé,b\n".encode("latin-1"), "data.csv:3", "0xe9", "UTF-8"),
    "a NUL in the data": texts("text,label\na\0b,a\n", "data.csv:2", "NUL"),
    "an empty text": texts("text,label\nhello,a\n   ,b\n", "data.csv:3", "empty"),
    "one class only": texts("text,label\nhello,a\nworld,a\n", "every label is 'a'", "two classes"),
    "one example of a class": texts("text,label\nhello,a\nworld,b\n", "cannot be split by class"),
    "all texts cut": texts(GOOD, "data.max_length", "every text", "at least 2 tokens", options=["data.max_length=1"]),
    "no known ending": texts(GOOD, "data.format", name="data.dat"),
    "no gzip file": texts(GOOD, "gzip", name="data.csv.gz"),
    "a line that is no object": texts('{"text": "a", "label": "x"}\n[1]\n', "data.jsonl:2", "list", name="data.jsonl"),
    "a line that is no JSON": texts('{"text": "a", "label": "x"}\n{\n', "data.jsonl:2", "not JSON", name="data.jsonl"),
    "a text that is nothing": texts('{"text": null, "label": "x"}\n', "data.jsonl:1", "null", name="data.jsonl"),
    "half a character": texts('{"text": "\\ud800", "label": "x"}\n', "data.jsonl:1", "UTF-8", name="data.jsonl"),
    "a label that training lacks": splits(GOOD, "text,label\nx,zzz\ny,a\n", "data.validation", "'zzz'", "'a', 'b'"),
    "splits that overlap": splits(GOOD, "text,label\nword0 other,a\nz,b\n", "are also in data.train"),
    "aligned files of different length": (ALIGNED, "p.de:2", "p.en has 1", {"p.de": "a\nb\n", "p.en": "c\n"}),
    "an empty aligned line": (ALIGNED, "p.de:2", "empty", {"p.de": "a\n\n", "p.en": "a\nb\n"}),
    "three columns of pairs": ([*PAIRS, "data.path=p.tsv"], "p.tsv:1", "3 columns", {"p.tsv": "a\tb\tc\n"}),
    "a word without a tag": (TAGS, "t.tsv:2", "1 column", {"t.tsv": "a\tN\nb\n"}),
    "an empty tag": (TAGS, "t.tsv:1", "the tag is empty", {"t.tsv": "a\t\n"}),
    "one tag only": (TAGS, "every tag is 'N'", {"t.tsv": "a\tN\nb\tN\n"}),
    "no sentence": (TAGS, "no sentence", {"t.tsv": "# a comment\n"}),
    "a text of one line": ([*LM, "data.path=text.txt"], "text.txt", "validation", {"text.txt": "one line"}),
    "a setting of the hub": ([*TEXTS, "data.subset=x"], "data.subset", "hub"),
}
TABLES = {
    "a table that does not exist": (TABLE, "data.path", "table.csv"),
    "a table without a path": (["data=table", "data.metric=score"], "data.path", "is missing"),
    "a table without curves": table(SMALL, "data.curves", options=[HALVING, "strategy.max_amount=9"]),
    "a table of one row": table("lr,score\n1,2\n", "data.columns"),
    "a ragged table": table("lr,score\n1,2\n3,4,5\n", "table.csv", "line 3"),
    "a table with a NUL": table("lr,score\na\0,1\nb,2\n", "table.csv", "NUL"),
    "a column of a table twice": table("\n \nlr,lr,score\n1,2,3\n", "two columns are called 'lr'"),
    "a table without the score": table("lr,scores\n1,2\n", "data.metric", "did you mean 'scores'?"),
    "a score that is a text": table("lr,score\n1,a\n2,b\n", "data.metric", "given 'a'"),
    "a negative cost": table("lr,score,s\n1,1,2\n2,1,-3\n", "data.cost", "row 2", options=["data.cost=s"]),
    "two rows of one point": table("lr,score\n1,1\n1,2\n2,3\n", "two rows with the values", "data.where"),
    "a table that is no Parquet": ([*TABLE, "data.path=t.parquet"], "t.parquet", "Parquet", {"t.parquet": "no"}),
    "a row that does not exist": table(SMALL, "data.where", options=["data.where={lr: 9}"]),
    "curves without a name": table(SMALL, "data.curve", options=["data.curves=c.jsonl"]),
}
STORES = {
    "an MLflow folder": (["track=mlflow", "track.uri=./mlruns"], "track.uri", "begin with one", "sqlite:///mlflow.db"),
    "no address": (["track=mlflow", "track.uri=''"], "track.uri", "at least 1 character"),
    "a database in no folder": (["track=mlflow", "track.uri=sqlite:///missing/m.db"], "track.uri", "'missing'"),
    "a database that is none": (["track=mlflow", "track.uri=sqlite:///m.db"], "track.uri: m.db", {"m.db": "x" * 200}),
    "a name longer than MLflow's": (["track.experiment=" + "x" * 501], "track.experiment", "at most 500"),
    "a storage of no kind": (["study.storage=foo://bar"], "foo://bar", "study.storage", "sqlite:///file.db"),
    "a storage without its driver": (["study.storage=oracle://x"], "study.storage: oracle://x cannot", "oracledb"),
    "a storage without a file": (["study.storage=sqlite://"], "study.storage", "does not name a file"),
    "a storage in no folder": (["study.storage=sqlite:////nothing/x.db"], "/nothing/x.db", "study.storage"),
    "nobody at the address": (["dispatch=ray", "dispatch.address=127.0.0.1:1"], "dispatch.address", "refused"),
    "an address that is none": (["dispatch=ray", "dispatch.address=nonsense"], "dispatch.address", "host:port"),
    "an address that Ray would find": (["dispatch=ray", "dispatch.address=auto"], "dispatch.address", "host:port"),
}
# These are refused after composing.
LATER = VALUES | SPACES | STRATEGIES | DATA | TABLES | STORES
