"""The variables by which the processes of one training find each other, as torchrun sets them."""

import os
import socket
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

_PLACE = ("MASTER_ADDR", "MASTER_PORT")
_OF_EACH = ("RANK", "LOCAL_RANK", "GROUP_RANK", "NODE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
# By these, too, torch, Lightning and Accelerate take a process for one of several.
_OF_LAUNCHERS = (
    *("TORCHELASTIC_RUN_ID", "TORCHELASTIC_USE_AGENT_STORE", "GROUP_WORLD_SIZE", "ROLE_RANK", "ROLE_WORLD_SIZE"),
    *("SLURM_NTASKS", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE"),
)
VARIABLES = (*_PLACE, *_OF_EACH, *_OF_LAUNCHERS)
"""Those that say whether a process is one of several."""

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Seat:
    """Where one of the processes is."""

    node: str = ""  # the name of its machine
    gpus: Sequence[str] = ()  # the numbers of its GPUs there


@contextmanager
def alone() -> Iterator[None]:
    """Take the variables of the job that this process runs in out of its environment: inside, it trains alone."""
    before = {name: os.environ.pop(name) for name in VARIABLES if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(before)


def variables_of(seats: Sequence[Seat], address: str = LOOPBACK) -> list[dict[str, str]]:
    """Return the variables of each process, by rank; `address` is of the first one's machine, where this is called.

    All processes of a machine see the GPUs of all of them, and choose one by LOCAL_RANK, as under torchrun.
    """
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as free:
        free.bind((address, 0))
        place = dict(zip(_PLACE, (address, str(free.getsockname()[1])), strict=True))
    if address == LOOPBACK and sys.platform == "linux":
        # Else gloo listens on the address of the machine's name, which others may reach.
        place["GLOO_SOCKET_IFNAME"] = "lo"
    nodes = list(dict.fromkeys(seat.node for seat in seats))
    on_node = Counter(seat.node for seat in seats)
    before: Counter[str] = Counter()
    result = []
    for rank, seat in enumerate(seats):
        number = str(nodes.index(seat.node))
        values = (str(rank), str(before[seat.node]), number, number, str(len(seats)), str(on_node[seat.node]))
        before[seat.node] += 1
        gpus = [gpu for other in seats if other.node == seat.node for gpu in other.gpus]
        visible = {"CUDA_VISIBLE_DEVICES": ",".join(gpus)} if gpus else {}
        result.append(place | dict(zip(_OF_EACH, values, strict=True)) | visible)
    return result
