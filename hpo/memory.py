"""How much memory there is: of the machine, or of the container that this process lives in."""

from pathlib import Path

GIB = 2**30
# Where a container sees its own limit and use (cgroup v2).
_CGROUP = Path("/sys/fs/cgroup")


def free_and_total() -> tuple[int, int]:
    """Return bytes: what can still be had without swapping, and all there are."""
    import psutil  # 30 ms, and only who is short of memory asks.

    machine = psutil.virtual_memory()
    limit = _number(_CGROUP / "memory.max")
    used = _number(_CGROUP / "memory.current")
    if limit is None or used is None or limit >= machine.total:
        return machine.available, machine.total
    # Cached files are given back when somebody needs their room.
    return min(machine.available, limit - used + _cached_files()), limit


def held() -> int:
    """Return the bytes that this process holds (resident)."""
    import psutil

    return int(psutil.Process().memory_info().rss)


def figures(held_bytes: int) -> str:
    """Return what a process held, and what was free, for people."""
    free, total = free_and_total()
    return f"it held {held_bytes / GIB:.1f} GiB, {free / GIB:.1f} of {total / GIB:.1f} GiB were free"


def _number(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def _cached_files() -> int:
    try:
        lines = (_CGROUP / "memory.stat").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("inactive_file ")), 0)
