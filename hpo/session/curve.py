"""Prints the learning curve of a training that is no study's."""

import sys
from collections.abc import Mapping
from typing import Any


def print_point(message: Mapping[str, Any]) -> None:
    """Print a point of the learning curve, or a warning."""
    if "point" not in message:
        print(f"warning: {message.get('warning')}", file=sys.stderr, flush=True)
        return
    point = message["point"]
    values = [(name, value) for name, value in point.items() if name not in ("epoch", "epochs")]
    numbers = [f"{name} {value:.6g}" for name, value in values]
    epoch = f"epoch {point['epoch']}" if "epoch" in point else ""
    print(f"{epoch}{'/' + str(point['epochs']) if 'epochs' in point else ''}  {'  '.join(numbers)}", flush=True)
