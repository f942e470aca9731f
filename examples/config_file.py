"""A program that reads a YAML file and needs no changes for a search: `python examples/config_file.py base.yaml`.

docs/how_to/use_your_trainer.md searches it: each trial gets a copy of the file with its own values.
"""

import json
import sys
from pathlib import Path

import yaml

config = yaml.safe_load(Path(sys.argv[1]).read_text(encoding="utf-8"))
print(json.dumps({"loss": config["training"]["learning_rate"] * config["model"]["layers"]}))
