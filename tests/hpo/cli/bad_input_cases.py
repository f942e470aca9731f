"""The table of bad input: what is typed, the files that lie there, and the words that the one line must have.

A case is `(arguments of hpo search, words)`, or `(arguments, words, files)`; a file is text or bytes.
"""

import gzip

ROWS = "".join(f"word{i} other,{'ab'[i % 2]}\n" for i in range(40))
GOOD = "text,label\n" + ROWS
PARTS = ["data=text_classification", "data.train=a.csv", "data.validation=b.csv", "data.test=c.csv"]
OWN = ["--config-dir", "my", "study=own"]
HEAD = "# @package _global_\ndefaults:\n  - default@study\n"


def whole(text, *words):
    """A whole configuration, given by --config."""
    return ["--config", "whole.yaml"], words, {"whole.yaml": text}


def own(text, *words):
    """A group of the user's own, below the three lines that its file begins with."""
    content = HEAD + text if isinstance(text, str) else HEAD.encode() + text
    return OWN, ("config_dir", *words), {"my/study/own.yaml": content}


def texts(content, *words, name="data.csv", options=()):
    """A file of labelled texts."""
    return ["data=text_classification", f"data.path={name}", *options], words, {name: content}


def parts(train, validation, test, *words):
    """A file a part."""
    return PARTS, words, {"a.csv": train, "b.csv": validation, "c.csv": test}


def pairs(files, *words, options=()):
    """Pairs of sequences from these files."""
    return ["data=translation", "model=encoder_decoder", *options], words, files


def table(content, *words, options=(), name="table.csv"):
    """A table of measured configurations."""
    return ["data=table", f"data.path={name}", "data.metric=score", *options], words, {name: content}


ALIGNED = ["data.format=aligned", "data.path=p", "data.source_ending=.de", "data.target_ending=.en"]
LM = ["data=language_modelling", "model=decoder", "study.metric=loss", "data.path=text.txt"]
SEVERAL = ["study.metrics={accuracy:maximize,size:minimize}"]
LAUGHS = "a: &a [x, x]\nb: &b [*a, *a]\n"

COMMAND_LINE = {
    "unknown key": (["model.num_layer=3"], ("model.num_layer", "did you mean 'model.num_layers'?")),
    "unknown group": (["stratgy=grid"], ("stratgy", "did you mean 'strategy'?")),
    "unreadable override": (["model.d_model"], ("command line", "write key=value")),
    "an override of nothing": ([""], ("command line", "write key=value")),
    "an override without a key": (["=3"], ("command line", "has no key")),
    "several values": (["study.trials=1,2"], ("study.trials", "takes one value")),
    "a deep override": (["study.name=" + "[" * 300 + "]" * 300], ("config", "nested too deeply")),
    "a direction that is none": (
        ["study.metrics={accuracy:max,size:minimize}"],
        ("study.metrics.accuracy", "'maximize'"),
    ),
    "a metric twice": (
        ["study.metrics={accuracy:maximize,accuracy:minimize}"],
        ("study.metrics: must have each name once, given 'accuracy' twice",),
    ),
    "no metrics": (["study.metrics={}"], ("study.metrics: must have a direction for each metric",)),
    "metrics as a shell splits them": (["study.metrics=accuracy:maximize"], ("study.metrics: must be in quotes",)),
    "names of metrics in quotes": (['study.metrics={"accuracy":maximize}'], ("command line", "keys without quotes")),
    "a quoted key inside": (["study.limits={size:{'max':5}}"], ("command line", "keys without quotes")),
    "several as one": (["study.metric={accuracy:maximize}"], ("study.metric: must be one name", "study.metrics")),
    "a metric beside metrics": (
        [*SEVERAL, "study.metric=loss"],
        (
            "study.metric: has no effect with study.metrics",
            "study.metrics",
        ),
    ),
    "a direction beside metrics": ([*SEVERAL, "study.direction=minimize"], ("study.direction: has no effect with",)),
    "a limit that is no number": (["study.limits={size:5GB}"], ("study.limits.size: must be a number", "5GB")),
    "a limit that is infinite": (["study.limits.size=inf"], ("study.limits.size: must be a finite number",)),
    "a limit with its ends exchanged": (
        ["study.limits={size:{min:5,max:1}}"],
        ("study.limits.size", "min that is not above the max"),
    ),
    "no limits": (["study.limits={}"], ("study.limits: must have a bound for each metric", "null")),
    "a choice of nothing": ([*SEVERAL, "study.choose=kne"], ("study.choose: must be one of knee",)),
    "a choice by another metric": ([*SEVERAL, "study.choose={speed:1}"], ("study.choose: must name metrics", "speed")),
    "a negative weight": ([*SEVERAL, "study.choose={accuracy:-1}"], ("study.choose: must have weights", "0 or more")),
    "an option that is not there": (["--nope"], ("command line", "--nope", "hpo search --help")),
    "an option without its value": (["--config"], ("command line", "--config", "expected one argument")),
    "a choice that is not there": (["--cfg", "hydra"], ("command line", "--cfg", "choose from")),
    "not UTF-8": (["study.name=\udcff"], ("command line", "not UTF-8", r"\xff")),
    "a NUL": (["study.name=a\0b"], ("command line", "cannot be read")),
    "a key deleted that is needed": (["~study.trials"], ("study.trials", "is missing")),
    "a key deleted that is not there": (["~study.trails"], ("study.trails", "did you mean 'study.trials'?")),
    "a key added that is there": (["+study.trials=3"], ("study.trials", "already")),
    "a group that is a number": (["strategy=3"], ("strategy", "must be the name of a configuration", "3")),
    "a group that is a list": (["space=[1]"], ("space", "must be the name of a configuration", "[1]")),
    "a group that is nothing": (["model=null"], ("model", "must be the name of a configuration", "None")),
    "no such configuration file": (["--config", "missing.yaml"], ("config:", "missing.yaml")),
    "no such folder": (["--config-dir", "missing"], ("config_dir:", "missing")),
    "a setting of Hydra": (["hydra.run.dir=/tmp"], ("hydra.run.dir", "no such key")),
    "a study to replay that is not there": (["--replay", "nothing"], ("no 'nothing'",)),
}
YAML = {
    "a bracket that is not closed": whole("a: [1, 2\nb: 3\n", "whole.yaml:2:2", "not valid YAML"),
    "a number of a million digits": whole(f"a: {'9' * 1_000_000}\n", "whole.yaml", "not valid YAML", "digits"),
    "a tab": whole("a:\n\tb: 1\n", "whole.yaml:2:1"),
    "a key twice": whole("study:\n  trials: 1\n  trials: 2\n", "whole.yaml:3:3", "'trials' is listed twice"),
    "an object": whole("a: !!python/object/apply:os.mkdir [x]\n", "whole.yaml:1:4", "python/object/apply:os.mkdir"),
    "Latin-1": whole("a: 1\nname: café\n".encode("latin-1"), "whole.yaml:2:10", "0xe9", "UTF-8"),
    "UTF-16": whole("a: 1\n".encode("utf-16"), "whole.yaml:1:1", "UTF-8"),
    "a NUL in a file": whole("a: \0\n", "whole.yaml", "control characters"),
    "a list at the top": whole("- 1\n", "must be a mapping", "a list"),
    "nothing in it": whole("", "must be a mapping", "nothing"),
    "two documents": whole("a: 1\n---\nb: 2\n", "whole.yaml:2:1", "another document"),
    "a key that is no text": whole("a: {1: x}\n", "whole.yaml:1:5", "put it in quotes"),
    "deep nesting": whole("a: " + "[" * 900, "nested more than 60 levels"),
    "nesting that the parser refuses": whole("a: " + "[" * 10_000, "nest"),
    "a number without end": whole("a: 1" + "0" * 10_000, "whole.yaml", "digits"),
    "a folder": (["--config", "my"], ("config:", "directory"), {"my/x": ""}),
    "a bracket in a group": own("a: [1, 2\nb: 3\n", "own.yaml:5:2"),
    "a key twice in a group": own("study:\n  trials: 1\n  trials: 2\n", "own.yaml:6:3", "twice"),
    "a path object in a group": own("a: !!python/object/apply:pathlib.Path [x]\n", "own.yaml:4:4", "pathlib.Path"),
    "Latin-1 in a group": own("name: café\n".encode("latin-1"), "own.yaml:4:10", "UTF-8"),
    "a group that names itself": (OWN, ("has itself",), {"my/study/own.yaml": "defaults:\n  - own\n"}),
    "a default that is not there": (OWN, ("study", "'nothing'"), {"my/study/own.yaml": "defaults:\n  - nothing\n"}),
    "a class path": (
        OWN,
        ("model._target_", "no such key"),
        {"my/study/own.yaml": HEAD + "model: {_target_: os.mkdir, _args_: [executed]}\n"},
    ),
}
INTERPOLATION = {
    "references in a cycle": (
        ["study.name=${study.imports}", "study.imports=${study.name}"],
        ("Recursive interpolation detected",),
    ),
    "a reference to itself": (["study.name=${study.name}"], ("study.name", "Recursive interpolation detected")),
    "a reference to nowhere": (["study.name=${nothing.here}"], ("study.name", "'nothing.here' not found")),
    "a resolver that is not there": (["study.name=${shell:ls}"], ("study.name", "shell", "allowed are")),
    "a reference that does not end": (["study.name=${oops"], ("command line", "cannot be read")),
    "an environment variable that is not set": (
        ["study.storage=${oc.env:NOT_SET_HERE}"],
        ("study.storage", "NOT_SET_HERE is not set"),
    ),
    "a value that is left open": (["study.name=???"], ("study.name", "give it a value")),
}
VALUES = {
    "wrong type": (["study.trials=many"], ("study.trials", "integer", "'many'")),
    "a truth for a number": (["study.trials=true"], ("study.trials", "integer", "True")),
    "a fraction of a trial": (["study.trials=2.5"], ("study.trials", "integer", "2.5")),
    "more trials than there can be": (["study.trials=1" + "0" * 300], ("study.trials", "less than or equal")),
    "a number of 5,000 digits": (["study.trials=1" + "0" * 5000], ("command line", "digits")),
    "a negative seed": (["study.seed=-1"], ("study.seed", "given -1")),
    "a seed of 70 bits": (["study.seed=999999999999999999999"], ("study.seed", "less than or equal")),
    "a value of one's own that is infinite": (["+my.z=inf"], ("my.z", "finite", "JSON")),
    "a number of thousands of digits": (["+my.z=1" + "0" * 5000], ("my.z", "cannot be read")),
    "unknown device": (["training.device=tpu"], ("training.device", "'cpu'", "'tpu'")),
    "unknown data": (["data=digit"], ("data: must be one of", "did you mean 'digits'?")),
    "unknown dispatch": (["dispatch=slurm"], ("dispatch: must be one of local, ray",)),
    "unknown track": (["track=wandb"], ("track: must be one of mlflow, none",)),
    "unknown direction": (["study.direction=up"], ("study.direction", "'maximize'", "'up'")),
    "a metric that is not returned": (["study.metric=acuracy"], ("study.metric", "did you mean 'accuracy'?")),
    "a name that climbs": (["study.name=..secret"], ("study.name", "'..'")),
    "a name with an umlaut": (["study.name='größe'"], ("study.name", "(a-z, A-Z, digits", "'größe'")),
    "an umlaut that is not quoted": (["study.name=größe"], ("study.name=größe", "quote values")),
    "threads of none": (["dispatch.threads=0"], ("dispatch.threads", "given 0")),
    "several processes where a task is one": (
        ["dispatch=local", "dispatch.processes_per_task=2"],
        ("dispatch.processes_per_task", "must be 1", "use dispatch=ray"),
    ),
    "GPUs of a process without several": (
        ["dispatch.gpus_per_process=1"],
        ("dispatch.gpus_per_process", "has an effect only"),
    ),
    "GPUs of a worker with several processes": (
        ["dispatch.processes_per_task=2", "dispatch.gpus_per_worker=1"],
        ("dispatch.gpus_per_worker", "use dispatch.gpus_per_process"),
    ),
    "no processes": (["dispatch.processes_per_task=0"], ("dispatch.processes_per_task", "1")),
    "infinite CPUs": (["dispatch.cpus_per_worker=inf"], ("dispatch.cpus_per_worker", "finite")),
    "a negative timeout": (["dispatch.timeout_seconds=-1"], ("dispatch.timeout_seconds", "-1")),
}
CROSS_FIELD = {
    "heads that do not fit": (["model.num_heads=7"], ("model.num_heads", "given 64 and 7")),
    "a scale that the network cannot have": (
        ["strategy=ladder", "~space.model.d_model", "study.scales=[{model.d_model: 64}, {model.d_model: 130}]"],
        ("study.scales: scale 2: model.d_model", "given 130 and"),
    ),
    "a network for other data": (["model=decoder"], ("model.shape, data.name", "model=encoder")),
    "fractions above one": (
        ["split.test_fraction=0.6", "split.validation_fraction=0.5"],
        ("split.test_fraction", "1.1"),
    ),
    "rungs by the noise of one of several metrics": (
        ["study.metrics={accuracy:maximize,loss:minimize}", "strategy=asha", "strategy.rungs=progressive"],
        ("strategy: asha", "strategy.rungs=progressive", "strategy.rungs=fixed", "given study.metrics"),
    ),
    "the median rule with several metrics": (
        ["study.metrics={accuracy: maximize, loss: minimize}", "study.stop_rule=median"],
        ("study.stop_rule", "must be none with study.metrics", "given median", "split.race_after"),
    ),
    "a race without folds": (["split.race_after=2", "split.folds=1"], ("split.race_after",)),
    "more folds than examples of a class": (["split.folds=500"], ("split.folds", "class")),
    "two workers in one process": (["dispatch=local", "dispatch.workers=2"], ("dispatch.workers", "dispatch=ray")),
    "GPUs where there are none": (
        ["dispatch=ray", "dispatch.gpus=0", "dispatch.gpus_per_worker=1"],
        ("dispatch.gpus_per_worker",),
    ),
    "artifacts without Ray workers": (
        ["dispatch=local", "study.artifacts=file:///x"],
        ("study.artifacts", "only with dispatch=ray"),
    ),
    "artifacts without a URL": (["dispatch=ray", "study.artifacts=x"], ("study.artifacts", "must be a URL", "'x'")),
    "mirror without a URL": (["study.mirror=x"], ("study.mirror", "must be a URL", "'x'")),
    "mirror of an unknown kind": (["study.mirror=nope://x"], ("study.mirror", "Protocol not known: nope")),
    "mirror of a record elsewhere": (
        ["study.mirror=file:///x", "study.storage=sqlite:///x.db"],
        ("study.mirror", "leave one out"),
    ),
    "environment without a cluster": (
        ["dispatch=ray", "+dispatch.environment.pip=[x]"],
        ("dispatch.environment", "only with dispatch.address"),
    ),
    "environment of another kind": (
        ["dispatch=ray", "dispatch.address='127.0.0.1:1'", "+dispatch.environment.working_dir=x"],
        ("dispatch.environment", "given working_dir", "pip, uv, conda, env_vars"),
    ),
    "one GPU and a half": (["dispatch.gpus_per_worker=1.5"], ("dispatch.gpus_per_worker", "whole number")),
    "one file and several": ([*PARTS, "data.path=a.csv"], ("data.path", "cannot be combined")),
    "a training file alone": (["data=text_classification", "data.train=a.csv"], ("data.train", "data.validation")),
    "generated data larger than memory": (
        ["data=generated", "model=encoder_decoder", "data.num_examples=100000000", "data.max_length=100000"],
        ("data.num_examples, data.max_length", "product"),
    ),
}
SPACES = {
    "low above high": (["space.training.lr={low: 1, high: 0.1}"], ("space.training.lr", "low must be below high")),
    "log from zero": (["space.training.lr={low: 0, high: 1, log: true}"], ("space.training.lr", "above 0")),
    "an infinite range": (["space.training.lr={low: -inf, high: inf}"], ("space.training.lr.low", "finite")),
    "a range of one point": (["space.training.lr={low: 1, high: 2, points: 1}"], ("points", "at least 2")),
    "points without end": (["space.training.lr={low: 1, high: 2, points: 1000000000}"], ("points", "at most 100,000")),
    "two kinds at once": (["space.training.lr={low: 1, high: 2, values: [1]}"], ("exactly one of",)),
    "no values": (["space.training.lr=[]"], ("space.training.lr", "empty")),
    "values in no order": (["space.training.lr=[0.1,0.001,0.01]"], ("space.training.lr.values", "must be in order")),
    "a value that is a list": (["space.training.lr=[[1],[2]]"], ("space.training.lr", "given [1]")),
    "a value that is no number": (["space.training.lr=[nan,0.1]"], ("space.training.lr", "finite")),
    "a whole number that no float is": (
        ["space.training.lr={low: 0, high: 1e30, integer: true}"],
        ("space.training.lr", "2^53"),
    ),
    "a span beyond every float": (["space.training.lr={low: -1e308, high: 1e308}"], ("space.training.lr", "1.8e308")),
    "a text for a dimension": (["space.training.lr=abc"], ("space.training.lr", "'abc'")),
    "a default outside": (["space.training.lr={values: [0.1], default: 5}"], ("space.training.lr.default", "5")),
    "a key that is not there": (["space.model.depth=[1,2]"], ("space.model.depth", "no key 'model.depth'")),
    "a value that is refused": (["space.model.dropout=[0.1,1.5]"], ("space.model.dropout", "1.5")),
    "no dimension": (["~space.training", "~space.model"], ("space", "no dimension")),
    "a condition on a missing parent": (
        ["space.model.d_model={values: [32, 64], when: {training.optimizer: [adam]}}"],
        ("space.model.d_model.when", "'training.optimizer' is not searched"),
    ),
    "a condition on a later parent": (
        ["space.training.lr={values: [0.1, 0.01], when: {model.num_layers: [2]}}"],
        ("space.training.lr.when", "must come before"),
    ),
    "conditions in a cycle": (
        [
            "space.model.d_model={values: [32, 64], when: {model.num_layers: [2]}}",
            "space.model.num_layers={values: [1, 2], when: {model.d_model: [32]}}",
        ],
        ("cycle",),
    ),
    "a rule that is code": (["space.require=\"__import__('os').getcwd()\""], ("space.require", "not in the language")),
    "a rule that divides by zero": (['space.require="training.lr / 0 < 1"'], ("space.require", "division by zero")),
    "a rule that is a number": (["space.require=3"], ("space.require", "given 3")),
    "a first point outside": (["space.first=[{training.lr: 0.5}]"], ("space.first[0]", "training.lr=0.5")),
    "a first point that is a text": (["space.first=abc"], ("space.first[0]", "'abc'")),
}
STRATEGIES = {
    "unknown strategy": (["strategy=gird"], ("strategy: must be one of asha", "'grid'?")),
    "a strategy that is no text": (["strategy.name=[1]"], ("strategy.name: must be the name of a strategy", "[1]")),
    "unknown setting": (["strategy.round_sise=3"], ("strategy.round_sise", "did you mean 'strategy.round_size'?")),
    "an even window": (["strategy=shifting_window", "strategy.window=4"], ("strategy.window", "odd")),
    "a window too long": (["strategy=shifting_window", "strategy.window=9"], ("strategy.window", "longer")),
    "a start outside the range": (
        ["strategy=shifting_window", "strategy.start={training.lr: 5}"],
        ("strategy.start.training.lr", "not in the range"),
    ),
    "a start that is a text": (["strategy=shifting_window", "strategy.start=abc"], ("strategy.start", "'abc'")),
    "a population of one": (["strategy=evolutionary", "strategy.population=1"], ("strategy.population", "given 1")),
    "no generations": (["strategy=evolutionary", "strategy.generations=0"], ("strategy.generations", "given 0")),
    "a mutation above one": (["strategy=evolutionary", "strategy.mutation=1.5"], ("strategy.mutation", "1.5")),
    "a round larger than memory": (["strategy.round_size=1000000000000"], ("strategy.round_size", "1000000")),
    "a grid too large": (["strategy=grid", "strategy.max_points=10"], ("space", "567", "strategy.max_points")),
    "a grid over a range": (
        ["strategy=grid", "space.training.lr={low: 0.1, high: 1}"],
        ("space.training.lr", "points=5"),
    ),
    "rungs that do not rise": (
        ["strategy=successive_halving", "strategy.min_amount=9", "strategy.max_amount=9"],
        ("strategy.min_amount, strategy.max_amount",),
    ),
    "rungs without an end": table(
        "lr,score\n1,2\n2,3\n", "strategy.max_amount: is missing", options=["strategy=hyperband"]
    ),
    "an unknown sequence": (["strategy=qmc", "strategy.sequence=prime"], ("strategy.sequence", "'sobol'")),
    "imports from none": (["study.imports=[]"], ("study.imports: must be a study, or a list of studies", "[]")),
    "values for no imports": (
        ["study.imports_fill={training.lr: 0.1}"],
        ("study.imports_fill: has no effect without study.imports",),
    ),
    "imports from nowhere": (["study.imports=nobody"], ("study.imports", "'nobody'")),
    "imports of another metric": (
        ["study.imports=t.csv"],
        ("study.imports", "accuracy: minimize"),
        {
            "t.csv": "state,score,training.lr\ncomplete,1,0.1\n",
            "config.yaml": "study: {direction: minimize, seed: 0, metric: accuracy}\n",
        },
    ),
}
OBJECTIVES = {
    "an objective that is not there": (["objective=nowhere:run"], ("objective", "cannot import 'nowhere'")),
    "an objective without a function": (
        ["objective=no_function:run"],
        ("objective", "no function 'run'"),
        {"no_function.py": ""},
    ),
    "an objective that is part of Python": (["objective=json:run"], ("objective", "part of Python")),
    "an objective that runs what it is told": (
        ["objective=hydra.utils:instantiate"],
        ("objective", "'hydra.utils' is in a package that does not declare it", "hpo.objectives"),
    ),
    "an objective of hpo that is none": (["objective=hpo.study.files.folder:find_study"], ("objective", "part of hpo")),
    "an objective of the model that is none": (["objective=model.checkpoint:save"], ("objective", "part of hpo")),
    "an objective that is no path": (["objective=run_fold"], ("objective", "given 'run_fold'")),
    "an objective that is not Python": (["objective=bad_syntax:run"], ("cannot import",), {"bad_syntax.py": "def ("}),
    "an objective that fails": (
        ["objective=bad_import:run"],
        ("objective", "raised RuntimeError: no luck"),
        {"bad_import.py": "raise RuntimeError('no luck')"},
    ),
    "an objective that leaves": (
        ["objective=bad_exit:run"],
        ("objective", "raised SystemExit"),
        {"bad_exit.py": "import sys; sys.exit(3)"},
    ),
}
DATA = {
    "no data file named": (["data=text_classification"], ("data.path",)),
    "no such data file": (["data=text_classification", "data.path=missing.csv"], ("missing.csv", "no such file")),
    "a misspelt data file": (
        ["data=text_classification", "data.path=god.csv"],
        ("did you mean good.csv?",),
        {"good.csv": GOOD},
    ),
    "a folder of data": (["data=text_classification", "data.path=d"], ("d: is a folder",), {"d/x": ""}),
    "an empty data file": texts("", "data.csv", "empty"),
    "a header alone": texts("text,label\n", "data.csv", "no example"),
    "no such column": texts(
        "body,klass\nhello,a\n", "data.csv:1", "'words'", "'body', 'klass'", options=["data.text_column=words"]
    ),
    "no known column": texts("body,id,label\nhello,1,a\n", "data.csv:1", "known name for the text", "'body'"),
    "a column twice": texts("text,text,label\na,b,c\n", "data.csv:1", "two columns are called 'text'"),
    "a ragged row": texts("text,label\nhello,a\nworld\n", "data.csv:3", "1 field", "must have 2"),
    "a row too long": texts("text,label\nhello,a,b\n", "data.csv:2", "3 fields"),
    "an open quote": texts('text,label\nhello,a\n"world,b\n', "data.csv:3", "not valid CSV"),
    "another delimiter": texts(GOOD.replace(",", ";"), "data.csv:1", "1 columns"),
    "Latin-1 in the data": texts("text,label\nfine,a\ncafé,b\n".encode("latin-1"), "data.csv:3", "0xe9", "UTF-8"),
    "UTF-16 in the data": texts(GOOD.encode("utf-16"), "data.csv:1", "UTF-8"),
    "a NUL in the data": texts("text,label\na\0b,a\n", "data.csv:2", "NUL"),
    "an empty text": texts("text,label\nhello,a\n   ,b\n", "data.csv:3", "empty"),
    "one class only": texts("text,label\nhello,a\nworld,a\n", "every label is 'a'", "two classes"),
    "one example of a class": texts("text,label\nhello,a\nworld,b\n", "cannot be split by class"),
    "fewer examples than folds": texts(GOOD, "split.folds", "class", options=["split.folds=30"]),
    "all texts cut": texts(
        GOOD, "data.max_length", "every text", "the shortest text has 2", options=["data.max_length=1"]
    ),
    "no known ending": texts(GOOD, "data.format", name="data.dat"),
    "no gzip file": texts(GOOD, "gzip", name="data.csv.gz"),
    "half a gzip file": texts(gzip.compress(GOOD.encode())[:40], "gzip", name="data.csv.gz"),
    "a line that is no object": texts('{"text": "a", "label": "x"}\n[1]\n', "data.jsonl:2", "list", name="data.jsonl"),
    "a line that is no JSON": texts('{"text": "a", "label": "x"}\n{\n', "data.jsonl:2", "not JSON", name="data.jsonl"),
    "a deep line": texts("[" * 100_000, "data.jsonl:1", "not JSON", name="data.jsonl"),
    "a text that is nothing": texts('{"text": null, "label": "x"}\n', "data.jsonl:1", "null", name="data.jsonl"),
    "half a character": texts('{"text": "\\ud800", "label": "x"}\n', "data.jsonl:1", "UTF-8", name="data.jsonl"),
    "a label that training never sees": parts(
        GOOD, "text,label\nx,zzz\ny,a\n", "text,label\nz,a\n", "data.validation", "'zzz'", "'a', 'b'"
    ),
    "one class in training": parts(
        "text,label\nx,a\ny,a\n", "text,label\nz,b\n", "text,label\nq,a\n", "data.validation", "'b'"
    ),
    "parts that overlap": parts(
        GOOD, "text,label\nword0 other,a\nz,b\n", "text,label\nq,a\n", "are also in data.train"
    ),
    "the same file twice": parts(GOOD, "text,label\nx,a\n", GOOD, "data.test", "also in data.train"),
    "aligned files of different length": pairs(
        {"p.de": "a\nb\n", "p.en": "c\n"}, "p.de:2", "p.en has 1", options=ALIGNED
    ),
    "one aligned file": pairs({"p.de": "a\nb\n"}, "p.en", "no such file", options=ALIGNED),
    "an empty aligned line": pairs({"p.de": "a\n\n", "p.en": "a\nb\n"}, "p.de:2", "empty", options=ALIGNED),
    "three columns of pairs": pairs({"p.tsv": "a\tb\tc\n"}, "p.tsv:1", "3 columns", options=["data.path=p.tsv"]),
    "a word without a tag": (["data=tagging", "data.path=t.tsv"], ("t.tsv:2", "1 column"), {"t.tsv": "a\tN\nb\n"}),
    "an empty tag": (["data=tagging", "data.path=t.tsv"], ("t.tsv:1", "the tag is empty"), {"t.tsv": "a\t\n"}),
    "one tag only": (["data=tagging", "data.path=t.tsv"], ("every tag is 'N'",), {"t.tsv": "a\tN\nb\tN\n"}),
    "no sentence": (["data=tagging", "data.path=t.tsv"], ("no sentence",), {"t.tsv": "# a comment\n"}),
    "a text of one line": (LM, ("text.txt", "validation"), {"text.txt": "one line"}),
    "more generated than there are": (
        ["data=generated", "model=encoder_decoder", "data.num_symbols=2", "data.max_length=2"],
        ("data.num_examples=5000", "only 6"),
    ),
    "no folder of a data set": (
        ["data=text_classification", "data.format=hub", "data.path=/nothing/here"],
        ("data.path", "save_to_disk"),
    ),
    "a setting of the hub": (["data=text_classification", "data.path=x.csv", "data.subset=x"], ("data.subset", "hub")),
}
TABLES = {
    "a table that is not there": (["data=table", "data.path=t.csv", "data.metric=score"], ("data.path", "t.csv")),
    "a table without a path": (["data=table", "data.metric=score"], ("data.path", "is missing")),
    "a metric that is a number": (["data=table", "data.path=t.csv", "data.metric=3"], ("data.metric",), {"t.csv": "a"}),
    "an empty table": table("", "table.csv", "not a table"),
    "halving over a table without curves": table(
        "lr,score\n1,2\n2,3\n", "data.curves", options=["strategy=successive_halving", "strategy.max_amount=9"]
    ),
    "a table of one row": table("lr,score\n1,2\n", "data.columns"),
    "a ragged table": table("lr,score\n1,2\n3,4,5\n", "table.csv", "line 3"),
    "an open quote in a table": table('lr,score\n"a,1\nb,2\n', "table.csv"),
    "a table in Latin-1": table("lr,score\né,1\n".encode("latin-1"), "table.csv", "utf-8"),
    "a table with a NUL": table("lr,score\na\0,1\nb,2\n", "table.csv", "NUL"),
    "a column of a table twice": table("lr,lr,score\n1,2,3\n", "two columns are called 'lr'"),
    "a column of a table twice below blank lines": table("\n \nlr,lr,score\n1,2,3\n", "two columns are called 'lr'"),
    "a table without the score": table("lr,scores\n1,2\n", "data.metric", "did you mean 'scores'?"),
    "a score that is a text": table("lr,score\n1,a\n2,b\n", "data.metric", "['a']"),
    "a cost below nothing": table("lr,score,s\n1,1,2\n2,1,-3\n", "data.cost", "row 1", options=["data.cost=s"]),
    "two rows of one point": table("lr,score\n1,1\n1,2\n2,3\n", "two rows with the values", "data.where"),
    "a table that is no Parquet": table("no", "table.parquet", "Parquet", name="table.parquet"),
    "a table that is no gzip": table("no", "table.csv.gz", name="table.csv.gz"),
    "a row that is not there": table("lr,score\n1,2\n2,3\n", "data.where", options=["data.where={lr: 9}"]),
    "curves without their field": table(
        "lr,score\n1,2\n2,3\n", "data.curves, data.curve", options=["data.curves=c.jsonl"]
    ),
}
MLFLOW = {
    "an MLflow folder": (["track.uri=./mlruns"], ("track.uri", "sqlite:///mlflow.db")),
    "an MLflow folder by its scheme": (["track.uri=file:./mlruns"], ("track.uri", "sqlite:///mlflow.db")),
    "an unknown scheme": (["track.uri=ftp://host"], ("track.uri", "must begin with one of")),
    "no address": (["track.uri=''"], ("track.uri", "at least 1 character")),
    "a database in no folder": (["track.uri=sqlite:///missing/m.db"], ("track.uri", "no folder missing")),
    "a database that is none": (
        ["track.uri=sqlite:///m.db"],
        ("track.uri", "not an MLflow database"),
        {"m.db": "x" * 200},
    ),
    "an experiment without a name": (["track.experiment=''"], ("track.experiment", "at least 1 character")),
    "a name longer than MLflow's": (["track.experiment=" + "x" * 501], ("track.experiment", "at most 500")),
}
STORAGE = {
    "a storage of no kind": (["study.storage=foo://bar"], ("foo://bar", "study.storage")),
    "a storage that is no address": (["study.storage=foo"], ("study.storage", "foo", "sqlite:///file.db")),
    "a storage without its driver": (["study.storage=oracle://x"], ("study.storage: oracle://x cannot", "oracledb")),
    "a storage without a file": (["study.storage=sqlite://"], ("study.storage", "does not name a file")),
    "a storage in memory": (["study.storage=sqlite:///:memory:"], ("study.storage", "does not name a file")),
    "a storage in no folder": (["study.storage=sqlite:////nothing/x.db"], ("/nothing/x.db", "study.storage")),
    "nobody at the address": (
        ["dispatch=ray", "dispatch.address=127.0.0.1:1"],
        ("dispatch.address", "127.0.0.1:1", "refused"),
    ),
    "an address that is none": (["dispatch=ray", "dispatch.address=nonsense"], ("dispatch.address", "host:port")),
}

CASES = {
    **COMMAND_LINE,
    **YAML,
    **INTERPOLATION,
    **VALUES,
    **CROSS_FIELD,
    **SPACES,
    **STRATEGIES,
    **OBJECTIVES,
    **DATA,
    **TABLES,
    **{name: (["track=mlflow", *case[0]], *case[1:]) for name, case in MLFLOW.items()},
    **STORAGE,
}
# Of each kind some: those that are read before Hydra composes take hundredths of a second.
FEW = (INTERPOLATION, VALUES, CROSS_FIELD, STRATEGIES, OBJECTIVES, DATA, MLFLOW, STORAGE)
QUICK = (*YAML, *COMMAND_LINE, *SPACES, *TABLES, *(name for kind in FEW for name in list(kind)[:1]))
