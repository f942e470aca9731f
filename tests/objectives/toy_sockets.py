"""An objective that notes on which sockets its process, its parents and its siblings listen."""

import json
from pathlib import Path

import psutil


def run_fold(task):
    me = psutil.Process()
    family = [me, *me.parents()[:2], *me.children(recursive=True), *me.parent().children(recursive=True)]
    found = [
        [process.name(), list(connection.laddr)]
        for process in {process.pid: process for process in family}.values()
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    path = Path(task["config"]["folder"]) / "listening.json"
    path.write_text(json.dumps({"read_only_connection": len(family), "found": found}))
    return 1.0
