"""A training that keeps a state, and reports only what follows it; its process dies where a file says."""

import json
import os
import signal
from pathlib import Path

CONTINUES = True
EPOCHS = 27


def run_fold(task):
    """Train to the amount; best at the 15th epoch, and nothing is returned."""
    state = Path(task["resume_dir"]) / "epoch"
    done = int(state.read_text()) if state.exists() else 0
    for epoch in range(done + 1, (task["amount"] or EPOCHS) + 1):
        state.parent.mkdir(parents=True, exist_ok=True)
        state.write_text(str(epoch))
        yield {"score": task["config"]["toy"]["lr"] * (1 - abs(epoch - 15) / 30), "epoch": epoch}
        deadly = Path("deadly.json")
        if deadly.exists() and json.loads(deadly.read_text()) == [task["trial"], epoch]:
            deadly.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
