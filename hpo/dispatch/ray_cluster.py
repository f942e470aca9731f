"""Starts Ray on this machine behind a lock, or joins the cluster at an address."""

import logging
import os
import secrets
import shutil
import tempfile
import warnings
from pathlib import Path
from typing import Any

import psutil

from hpo.errors import DispatchError

# Training arrays stay inside the workers; the object store only carries messages.
_OBJECT_STORE_BYTES = 128 * 2**20
_PREFIX = "hpo-ray-"


class RayCluster:
    """A connection to Ray: `cpus` and `gpus` are what it offers. `close` leaves nothing behind.

    Ray listens on all interfaces even without a dashboard, so its token is the only lock: ours is fresh for
    every start, in a file that only this user can read, and the session lies in a folder that only this
    user can enter.
    """

    def __init__(self, address: str | None, gpus: int | None, threads: int) -> None:
        self._folder: Path | None = None
        self._before: dict[str, str | None] = {}
        if address is None:
            self._start(gpus, threads)
        else:
            self._join(address)
        import ray  # Takes a second and 100 MB: only where Ray is used.

        resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]  # Ray has no types there.
        self.cpus = float(resources.get("CPU", 0))
        self.gpus = float(resources.get("GPU", 0))

    def _start(self, gpus: int | None, threads: int) -> None:
        _remove_abandoned()
        # mkdtemp makes the folder 0700. A short path: Ray puts sockets below it, whose names are limited to 107 bytes.
        self._folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
        token = self._folder / "token"
        token.touch(mode=0o600)
        token.write_text(secrets.token_hex(32))
        variables = {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(token),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
            # Read by BLAS and OpenMP in the workers when they are loaded; the number changes sums.
            "OMP_NUM_THREADS": str(threads),
        }
        # Ray reads its own variables until it is shut down, so they stay set until then.
        self._before = {name: os.environ.get(name) for name in variables}
        os.environ.update(variables)
        _reread_environment()
        try:
            self._init(
                address="local",
                num_gpus=gpus,
                include_dashboard=False,
                object_store_memory=_OBJECT_STORE_BYTES,
                # A folder inside ours: Ray opens its own to everybody.
                _temp_dir=str(self._folder / "ray"),
            )
        except Exception as error:
            # Ray raises many kinds; each of them means that it did not start.
            logs = self._folder / "ray" / "session_latest" / "logs"
            raise DispatchError(f"dispatch: Ray cannot start: {_first_line(error)}; its logs: {logs}") from error

    def _join(self, address: str) -> None:
        try:
            self._init(address=address)
        except Exception as error:
            # As above: whatever it is, the cluster could not be joined.
            raise DispatchError(
                f"dispatch.address: cannot join the Ray cluster at {address!r}: {_first_line(error)}; "
                f"give the address that `ray start` printed, or null to start Ray here"
            ) from error

    @staticmethod
    def _init(**options: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import ray

            ray.init(log_to_driver=False, logging_level=logging.ERROR, configure_logging=True, **options)

    def close(self) -> None:
        """Disconnect, stop what was started here, and delete its folder. Closing twice is harmless."""
        import ray

        ray.shutdown()
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        _reread_environment()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def _remove_abandoned() -> None:
    """Delete the folders of our own drivers that were killed and could not do it themselves."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        process = folder.name.removeprefix(_PREFIX).partition("-")[0]
        is_ours = folder.lstat().st_uid == os.getuid() and not folder.is_symlink()
        if is_ours and process.isdigit() and not psutil.pid_exists(int(process)):
            shutil.rmtree(folder, ignore_errors=True)


def _reread_environment() -> None:
    """Make Ray read its variables again: it reads them when it is imported, and the token once for all."""
    from ray._raylet import AuthenticationTokenLoader, Config  # type: ignore[attr-defined]  # A compiled module.

    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0][:300] if str(error).strip() else type(error).__name__
