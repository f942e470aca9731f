"""Bad input of `hpo search`: (what is typed, *words that the one line must have); a dict at the end has the files."""

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
SHARED, CLUSTER = "dispatch.processes_per_task=2", ["dispatch=ray", "dispatch.address=127.0.0.1:1"]
SMALL = "lr,score\n1,2\n2,3\n"
HALVING = "strategy=successive_halving"
CLIMBS = ["strategy=ladder", "study.scales=[{model.d_model: 64}, {model.d_model: 130}]"]
TABLE = ["data=table", "data.path=table.csv", "data.metric=score"]
SEVERAL = "study.metrics={accuracy:maximize,size:minimize}"


def whole(text, *words):
    return ["--config", "whole.yaml"], *words, {"whole.yaml": text}


def own(text, *words):
    """A group of the user's own, below the three lines that its file begins with."""
    return OWN, "config_dir", *words, {OWN_FILE: HEAD + text}


def texts(content, *words, name="data.csv", options=()):
    return ["data=text_classification", f"data.path={name}", *options], *words, {name: content}


def splits(train, validation, *words):
    arguments = ["data=text_classification", "data.train=a.csv", "data.validation=b.csv", "data.test=c.csv"]
    return arguments, *words, {"a.csv": train, "b.csv": validation, "c.csv": "text,label\nq,a\n"}


def table(content, *words, options=()):
    return [*TABLE, *options], *words, {"table.csv": content}


def curves(content, *words):
    return [*TABLE, "data.curves=c.jsonl", "data.curve=c"], *words, {"table.csv": SMALL, "c.jsonl": content}


# These test how the command line and files are read and composed.
COMPOSED = {
    "unknown key": (["model.num_layer=3"], "model.num_layer", "did you mean 'model.num_layers'?"),
    "unknown strategy": (["strategy=gird"], "strategy: must be one of asha", "'grid'?"),
    "a metric that is not returned": (["study.metric=acuracy"], "study.direction", "did you mean 'accuracy'?"),
    "unreadable override": (["model.d_model"], "command line", "write key=value"),
    "an umlaut that is not quoted": (["study.name=größe"], "study.name=größe", "in quotes"),
    "an option that does not exist": (["--nope"], "command line", "--nope", "hpo search --help"),
    "an option without its value": (["--config"], "command line", "--config", "expected one argument"),
    "a key added that exists": (["+study.trials=3"], "study.trials", "already"),
    "a list at the top": whole("- 1\n", "must be a mapping", "a list"),
    "a bracket in a group": own("a: [1, 2\nb: 3\n", "own.yaml:5:2"),
    "a group that names itself": (OWN, "has itself", {OWN_FILE: "defaults:\n  - own\n"}),
    "a default that does not exist": (OWN, "study", "'nothing'", {OWN_FILE: "defaults:\n  - nothing\n"}),
    "references in a cycle": (["study.name=${study.imports}", "study.imports=${study.name}"], "Recursive"),
    "an override without a key": (["=3"], "command line", "has no key"),
    "a metric twice": (["study.metrics={loss:maximize,loss:minimize}"], "study.metrics", "given 'loss' twice"),
    "a group that is a number": (["strategy=3"], "strategy", "configuration in the group strategy", "3"),
    "no such folder": (["--config-dir", "missing"], "config_dir:", "missing"),
    "brackets that go deep": whole("a: " + "[" * 300 + "]" * 300, "whole.yaml", "levels deep"),
    "names of metrics in quotes": (['study.metrics={"accuracy":maximize}'], "command line", "keys without quotes"),
    "a metric with metrics": ([SEVERAL, "study.metric=loss"], "study.metric: has no effect", "study.metrics"),
    "no such configuration file": (["--config", "missing.yaml"], "config:", "missing.yaml"),
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
    "a negative seed": (["study.seed=-1"], "study.seed", "given -1"),
    "heads that do not fit": (["model.num_heads=7"], "model.num_heads", "given 64 and 7"),
    "mirror of an unknown kind": (["study.mirror=nope://x"], "study.mirror", "Protocol not known: nope"),
    "more trials than there can be": (["study.trials=1" + "0" * 301], "study.trials", "below 1e300"),
    "a long name of a metric": (["study.metric=" + "x" * 201], "study.metric: must have at most 200 characters"),
    "several as one": (["study.metric={accuracy:maximize}"], "study.metric: must be one name", "study.metrics"),
    "five metrics": (["study.metrics={a:maximize,b:maximize,c:maximize,d:maximize,e:maximize}"], "at most 4 metrics"),
    "no limits": (["study.limits={}"], "study.limits: must have a bound for each metric", "null"),
    "a limit with its ends exchanged": (["study.limits={size:{min:5,max:1}}"], "study.limits.size: must have a min"),
    "a target that is no score": (["study.target={}"], "study.target: must be a score"),
    "a target of another metric": ([SEVERAL, "study.target={loss:1}"], "study.target: must have a score for each"),
    "no weights": ([SEVERAL, "study.choose={}"], "study.choose: must be one of knee"),
    "a negative weight": ([SEVERAL, "study.choose={accuracy:-1}"], "study.choose: must have weights", "0 or more"),
    "weights of zero": ([SEVERAL, "study.choose={accuracy:0}"], "study.choose: must have at least one weight above 0"),
    "a share of no number": ([SEVERAL, "study.choose={best:size,within:{accuracy:x}}"], "must say how far from its"),
    "imports from none": (["study.imports=[]"], "study.imports: must be a study or a list of studies", "[]"),
    "no values for imports": (["study.imports_fill=3"], "study.imports_fill: must have values by key"),
    "values for no imports": (["study.imports_fill={training.lr: 0.1}"], "study.imports_fill", "study.imports;"),
    "a winner of several metrics": ([SEVERAL, "study.winner=one_standard_error"], "study.winner: must be 'best'"),
    "an empty command": (["study.on_trial=' '"], "study.on_trial: must be a command"),
    "mirror of a record elsewhere": (["study.mirror=file:///x", "study.storage=sqlite:///x"], "leave out study.mirror"),
    "artifacts without Ray workers": (["study.artifacts=file:///x"], "study.artifacts", "only with dispatch=ray"),
    "a race without folds": (["split.race_after=2", "split.folds=1"], "split.race_after"),
    "one GPU and a half": (["dispatch.gpus_per_worker=1.5"], "dispatch.gpus_per_worker", "whole number"),
    "GPUs of one process": (["dispatch.gpus_per_process=1"], "dispatch.gpus_per_process", "has an effect only"),
    "GPUs of several processes": (["dispatch=ray", SHARED, "dispatch.gpus_per_worker=1"], "dispatch.gpus_per_process"),
    "environment without a cluster": (["dispatch=ray", "dispatch.environment={pip: [x]}"], "with dispatch.address"),
    "environment of another kind": ([*CLUSTER, "dispatch.environment={working_dir: x}"], "only pip, uv, conda"),
    "more generated than exist": ([*MADE, "data.num_symbols=2", "data.max_length=2"], "data.num_examples", "at most 6"),
    "metrics as a shell splits them": (["study.metrics=accuracy:maximize"], "study.metrics: must be in quotes"),
    "several processes in one": ([SHARED], "dispatch.processes_per_task", "dispatch=ray"),
    "a scale that the network cannot have": ([*CLIMBS, "~space.model.d_model"], "study.scales: scale 2: model.d_model"),
    "a network for other data": (["model=decoder"], "model.shape, data.name", "model=encoder"),
    "fractions above one": (["split.test_fraction=0.6", "split.validation_fraction=0.5"], "split.test_fraction", "1.1"),
    "the median rule with several metrics": ([SEVERAL, "study.stop_rule=median"], "study.stop_rule", "race_after"),
    "more folds than examples of a class": (["split.folds=500"], "split.folds", "class"),
    "two workers in one process": (["dispatch.workers=2"], "dispatch.workers", "dispatch=ray"),
    "more GPUs than exist": (["dispatch=ray", "dispatch.gpus=0", "dispatch.gpus_per_worker=1"], "the nodes have 0"),
}
SPACES = {
    "a value that is refused": (["space.model.dropout=[0.1,1.5]"], "space.model.dropout", "refuses", "1.5"),
    "no space": (["~space"], "space: is missing"),
    "no dimension": (["~space.training", "~space.model", "~space.first"], "space", "no dimension"),
}
STRATEGIES = {
    "a strategy that is no text": (["strategy.name=[1]"], "strategy.name: must be the name of a strategy", "[1]"),
    "rungs that do not rise": ([HALVING, "strategy.min_amount=9", "strategy.max_amount=9"], "strategy.min_amount"),
    "a start outside": (["strategy=shifting_window", "strategy.start={training.lr: 5}"], "strategy.start.training.lr"),
    "an even window": (["strategy=shifting_window", "strategy.window=4"], "strategy.window", "odd"),
    "a grid over a range": (["strategy=grid", "space.training.lr={low: 0.1, high: 1}"], "space.training.lr.points=5"),
    "rungs without an end": table(SMALL, "strategy.max_amount: is missing", options=["strategy=hyperband"]),
    "imports from nowhere": (["study.imports=nobody"], "study.imports", "'nobody'"),
}
OBJECTIVES = {
    "an objective that does not exist": (["objective=nowhere:run"], "objective", "cannot import 'nowhere'"),
    "an objective that is no path": (["objective=run_fold"], "objective", "given 'run_fold'"),
    "an objective that is not Python": (["objective=bad_syntax:run"], "cannot import", {"bad_syntax.py": "def ("}),
    "an objective that leaves": (["objective=leaves:run"], "raised SystemExit", {"leaves.py": "raise SystemExit(3)"}),
    "an objective of hpo that is none": (["objective=hpo.study.files.folder:find_study"], "objective", "internal"),
    "an objective that fails": (["objective=fails:run"], "raised ZeroDivisionError: division", {"fails.py": "1 / 0"}),
}
DATA = {
    "no such data file": (TEXTS, "data.csv", "no such file"),
    "a misspelt data file": (TEXTS, "did you mean dat.csv?", {"dat.csv": GOOD}),
    "a folder of data": (TEXTS, "data.csv: is a folder", {"data.csv/x": ""}),
    "a device": (["data=text_classification", "data.path=/dev/null", "data.format=csv"], "/dev/null: is not a reg"),
    "no gzip file": texts(GOOD, "gzip", name="data.csv.gz"),
    "no name of a column": texts('{"a": "b"}\n', "must be a name", name="d.jsonl", options=["data.text_column=1"]),
    "a number of no column": texts("a,b\nc,d\n", "there is no column 7", options=["data.text_column=7"]),
    "a name with no header": texts("1\tb\n", "has no header", options=["data.text_column=words", "data.header=false"]),
    "all texts cut": texts(GOOD, "data.max_length", "every text", "at least 2 tokens", options=["data.max_length=1"]),
    "an empty aligned line": (ALIGNED, "p.de:2", "empty", {"p.de": "a\n\n", "p.en": "a\nb\n"}),
    "an empty tag": (TAGS, "t.tsv:1", "the tag is empty", {"t.tsv": "a\t\n"}),
    "one tag only": (TAGS, "every tag is 'N'", {"t.tsv": "a\tN\n\nb\tN\n"}),
    "one example of a class": texts("text,label\nhello,a\nworld,b\n", "cannot be split by class"),
    "no sentence": (TAGS, "no sentence", {"t.tsv": "# a comment\n"}),
    "no data set of the hub": ([*TEXTS, "data.format=hub"], "is not a folder", {"data.csv": GOOD}),
    "no such column": texts("x,y\n1,a\n", "data.csv:1", "'words'", "'x', 'y'", options=["data.text_column=words"]),
    "no known column": texts("body,id,label\nhello,1,a\n", "data.csv:1", "known name for the text", "'body'"),
    "Latin-1 in the data": texts("text,label\nfine,a\ncafé,b\n".encode("latin-1"), "data.csv:3", "0xe9", "UTF-8"),
    "one class only": texts("text,label\nhello,a\nworld,a\n", "every label is 'a'", "two classes"),
    "a line that is no JSON": texts('{"text": "a", "label": "x"}\n{\n', "data.jsonl:2", "not JSON", name="data.jsonl"),
    "a label that training lacks": splits(GOOD, "text,label\nx,zzz\ny,a\n", "data.validation", "'zzz'", "'a', 'b'"),
    "splits that overlap": splits(GOOD, "text,label\nword0 other,a\nz,b\n", "are also in data.train"),
    "aligned files of different length": (ALIGNED, "p.de:2", "p.en has 1", {"p.de": "a\nb\n", "p.en": "c\n"}),
    "a word without a tag": (TAGS, "t.tsv:2", "1 column", {"t.tsv": "a\tN\nb\n"}),
    "a text of one line": ([*LM, "data.path=text.txt"], "text.txt", "validation", {"text.txt": "one line"}),
}
TABLES = {
    "a table that does not exist": (TABLE, "data.path", "table.csv"),
    "a table without a path": (["data=table", "data.metric=score"], "data.path", "is missing"),
    "a table without a result": table("lr,score\n1,\n2,nan\n", "no row of the table has finite numbers in score"),
    "a table of one row": table("lr,score\n1,2\n", "data.columns"),
    "a table with a NUL": table("lr,score\na\0,1\nb,2\n", "table.csv", "NUL"),
    "a table that is no Parquet": ([*TABLE, "data.path=t.parquet"], "t.parquet", "Parquet", {"t.parquet": "no"}),
    "a column of a table twice": table("\n \nlr,lr,score\n1,2,3\n", "two columns are called 'lr'"),
    "a score that is a text": table("lr,score\n1,a\n2,b\n", "data.metric", "given 'a'"),
    "a row that does not exist": table(SMALL, "data.where", options=["data.where={lr: 9}"]),
    "curves without a name": table(SMALL, "data.curve", options=["data.curves=c.jsonl"]),
    "a curve that is a list": curves("[1]", "c.jsonl:1: must be a JSON object"),
    "a curve without its field": curves('{"lr": 1}', "data.curve: must name a field of every line"),
    "a curve of texts": curves('{"lr": 1, "c": ["x"]}', "a list of numbers as 'c'"),
    "a curve of no row": curves('{"lr": 9, "c": [1]}', "no line has the same lr"),
    "a ragged table": table("lr,score\n1,2\n3,4,5\n", "table.csv", "line 3"),
    "a table without the score": table("lr,scores\n1,2\n", "data.metric", "did you mean 'scores'?"),
    "a negative cost": table("lr,score,s\n1,1,2\n2,1,-3\n", "data.cost", "row 2", options=["data.cost=s"]),
    "two rows of one point": table("lr,score\n1,1\n1,2\n2,3\n", "two rows with the values", "data.where"),
}
STORES = {
    "an MLflow folder": (["track=mlflow", "track.uri=./mlruns"], "track.uri", "begin with one", "sqlite:///mlflow.db"),
    "a database without a file": (["track=mlflow", "track.uri=sqlite:///:memory:"], "track.uri: must name a file"),
    "a database that is none": (["track=mlflow", "track.uri=sqlite:///m.db"], "track.uri: m.db", {"m.db": "x" * 200}),
    "a storage without its driver": (["study.storage=oracle://x"], "oracle://x needs the package", "oracledb"),
    "a storage of no kind": (["study.storage=foo://bar"], "foo://bar", "study.storage", "sqlite:///file.db"),
    "a storage without a file": (["study.storage=sqlite://"], "study.storage", "does not name a file"),
    "a storage in no folder": (["study.storage=sqlite:////nothing/x.db"], "/nothing/x.db", "study.storage"),
    "a database in no folder": (["track=mlflow", "track.uri=sqlite:///missing/m.db"], "track.uri", "'missing'"),
    "an address that Ray would find": (["dispatch=ray", "dispatch.address=auto"], "dispatch.address", "host:port"),
}
# These are refused after composing.
LATER = VALUES | SPACES | STRATEGIES | DATA | TABLES | STORES
