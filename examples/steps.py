"""A program that stops at a step and continues from its state: `python examples/steps.py 0.1 4 folder`.

It trains up to the given step, saves its state in the folder after each step, and continues from there when it
starts again. docs/how_to/use_your_trainer.md searches it with asha.
"""

import json
import sys
from pathlib import Path

lr, stop, state = float(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]) / "state.json"
step, loss = json.loads(state.read_text(encoding="utf-8")) if state.exists() else (0, 1.0)
while step < stop:
    step, loss = step + 1, loss * (1 - lr)
    print(f"step {step}: val loss {loss:.4f}", flush=True)
    state.write_text(json.dumps([step, loss]), encoding="utf-8")
