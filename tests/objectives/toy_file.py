"""An objective whose examples are the lines of `data.path`, and which reads them when it trains and tests."""

import hashlib
from pathlib import Path


def describe_data(config):
    path = Path(config["data"]["path"])
    lines, digest = path.read_text().splitlines(), hashlib.sha256(path.read_bytes()).hexdigest()
    described = {"name": "lines", "source": "made up", "size": len(lines)}
    described |= {"labels": [line.rpartition(",")[2] for line in lines]}
    described |= {"digests": [hashlib.sha256(line.encode()).hexdigest() for line in lines]}
    return described | {"files": [{"path": str(path), "sha256": digest, "bytes": path.stat().st_size}]}


def describe_method(config):
    return {"preprocessing": "none", "metrics": {"score": "closeness"}}


def run_fold(task):
    num_lines = len(Path(task["config"]["data"]["path"]).read_text().splitlines())
    return {"score": num_lines - abs(task["config"]["toy"]["layers"] - 3)}
