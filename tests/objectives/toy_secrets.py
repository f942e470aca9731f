"""An objective that needs secrets, and quotes them when it fails."""

import os


def check(config):
    service = config["service"]
    assert service["api_key"].startswith("PLANTED"), "the objective gets the values themselves"
    if service["url"].startswith("PLANTED-BAD"):
        raise ValueError(f"service.url: {service['url']} is no address")


def describe_data(config):
    return {"name": "made up", "source": config["service"]["url"], "size": 60, "labels": [i % 2 for i in range(60)]}


def run_fold(task):
    assert "secrets" not in task
    service = task["config"]["service"]
    assert (service["url"], service["port"]) == ("PLANTED-ADDRESS/path", 4711)
    assert service["database"] == "postgresql://me:PLANTED-PASSWORD@host/db"
    if task["config"]["x"] == 3:
        raise RuntimeError(f"{service['api_key']} at {service['url']}, {os.environ['SOME_TOKEN']}")
    yield {"epoch": 1, "score": 0.0}
    return {"score": float(task["config"]["x"])}
