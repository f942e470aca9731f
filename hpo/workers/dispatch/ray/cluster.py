"""Starts a private Ray cluster on this machine, or joins the cluster at an address."""

import atexit
import contextlib
import logging
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any, TypeVar

import psutil

from hpo.errors import DispatchError, MachineError, first_line
from hpo.machine import set_variables
from hpo.workers.dispatch.ray import private as ray_private
from hpo.workers.dispatch.ray import watchdog as ray_watchdog
from hpo.workers.dispatch.ray.address import cannot_join, is_connected_here, refuse_dead_address, refuse_open_cluster
from hpo.workers.dispatch.ray.shares import Resources

# The object store needs little memory: training arrays stay inside the workers.
_OBJECT_STORE_BYTES = 128 * 2**20
_PREFIX = "hpo-ray-"
# Ray assigns GPUs to its workers in the order of this environment variable.
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_T = TypeVar("_T")
# How long to wait for Ray to start or to answer. Ray itself waits for two minutes. A start takes 4 to 6 s on two idle
# cores, and 20 s on two busy cores.
_START_SECONDS = 45.0
# How long to wait for the watchdog. In this time it can check all processes at least once, and kill Ray's agents that
# outlived their cluster.
_SWEEP_SECONDS = 15.0


class RayCluster:
    """A connection to Ray. If the cluster was started here, `close` ends its processes and deletes its files.

    There are three cases:
    - With an address, the cluster at this address is joined, but only if it requires a token or `allow_open` is True.
      Without a token, anyone who can reach the cluster can run code as this user.
    - Without an address, if this process is already connected to Ray, the existing connection is used, even if the
      cluster requires no token. The user chose this cluster and runs code there anyway.
    - Otherwise a new cluster is started on this machine, even if RAY_ADDRESS is set. It listens only on the loopback
      address, has no dashboard, and requires a new token. Only this user can read the token and the session's files.

    Args:
        address: the cluster to join; None = use the existing connection, or start a cluster here.
        gpus: the number of GPUs for a cluster that is started here; None = all.
        threads: the value of OMP_NUM_THREADS in the workers of a cluster that is started here.
        allow_open: whether to join a cluster that requires no token.
        environment: Ray's runtime environment for the workers of a joined cluster.
        gpus_in_use: the device numbers of the GPUs that other searches use; Ray assigns these GPUs last.

    Attributes:
        nodes: the resources of the cluster's machines.
    """

    def __init__(
        self,
        address: str | None,
        gpus: int | None,
        threads: int,
        allow_open: bool = False,
        environment: Mapping[str, Any] | None = None,
        gpus_in_use: Collection[int] = (),
    ) -> None:
        self._folder: Path | None = None
        self._before: dict[str, str | None] = {}
        self._watchdog: subprocess.Popen[bytes] | None = None
        self._pipe = -1
        self._is_connected = self._is_hanging = False
        self._leaving: threading.Thread | None = None
        self._is_left = threading.Event()
        self._raylets: list[psutil.Process] = []
        # Whether the connection existed before: the user made it, or this process is itself a Ray task. It stays open
        # after the search.
        self.is_adopted = address is None and is_connected_here()
        self.is_own = address is None and not self.is_adopted
        # The numbers of the GPUs here that Ray may use, in the order in which it assigns them; empty if unknown.
        self.gpu_numbers: tuple[int, ...] = ()
        try:
            if address is not None:
                self._join(address, allow_open, environment or {})
            elif self.is_own:
                self._start(gpus, threads, gpus_in_use)
        except BaseException:
            # Even after an interruption, leave no process behind.
            self.close()
            raise
        import ray  # The import takes a second and 100 MB.

        alive = [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]  # Ray has no types there.
        resources = [node["Resources"] for node in alive]
        self.nodes = [Resources(float(each.get("CPU", 0)), float(each.get("GPU", 0))) for each in resources]
        kinds = {name.partition(":")[2] for each in resources for name in each if name.startswith("accelerator_type:")}
        self.gpu_kinds = tuple(sorted(kinds))
        # Ray's ids of this process's node and of the other nodes.
        self.driver = ray.get_runtime_context().get_node_id()
        self.others = [node["NodeID"] for node in alive if node["NodeID"] != self.driver]

    def _start(self, gpus: int | None, threads: int, gpus_in_use: Collection[int]) -> None:
        ray_private.refuse_stale()
        remove_abandoned()
        # mkdtemp sets the mode 0700. The path must be short, because Ray's sockets are in this folder and the path of a
        # socket has at most 107 bytes.
        self._folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
        self._start_watchdog()
        token = self._folder / "token"
        token.touch(mode=0o600)
        token.write_text(secrets.token_hex(32))
        variables: dict[str, str | None] = {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(token),
            # If this variable were set, Ray would ignore the file.
            "RAY_AUTH_TOKEN": None,
            # If it stayed set, a program that a worker starts might connect to this address.
            "RAY_ADDRESS": None,
            # Ray's switch for access from other machines; at 0 all its servers bind the loopback address.
            ray_private.REACHED_FROM_OUTSIDE: "0",
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
            # BLAS and OpenMP read this variable when workers load them. The number of threads affects rounding.
            "OMP_NUM_THREADS": str(threads),
            _VISIBLE: os.environ.get(_VISIBLE),
        }
        # Ray may read its variables at any time until it is shut down, so they stay set until then.
        self._before = {name: os.environ.get(name) for name in variables}
        set_variables(variables)
        ray_private.read_again()
        self.gpu_numbers = _free_first(gpus, gpus_in_use)
        if gpus_in_use and self.gpu_numbers:
            os.environ[_VISIBLE] = ",".join(map(str, self.gpu_numbers))
        os.environ[ray_watchdog.MARK] = str(self._folder)
        try:
            with ray_private.without_dashboard():
                self._init(
                    address="local",
                    num_gpus=gpus,
                    include_dashboard=False,
                    object_store_memory=_OBJECT_STORE_BYTES,
                    # Use our folder, because every user can read Ray's default folder.
                    _temp_dir=str(self._folder / "ray"),
                )
            self._raylets = [process for process in psutil.Process().children() if process.name() == "raylet"]
        except Exception as error:
            # Ray raises many kinds of exceptions.
            raise MachineError(
                f"dispatch: Ray cannot start: {first_line(error)}; its logs are in {self._keep_logs()}; try again, or "
                f"choose dispatch=local"
            ) from error
        finally:
            del os.environ[ray_watchdog.MARK]

    @property
    def is_alive(self) -> bool:
        """Whether Ray's local server, which starts the workers, is running; True for a cluster not started here."""
        return all(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in self._raylets)

    def run_on_others(self, function: Callable[..., _T], *arguments: Any) -> list[_T]:
        """Run a function on each node except the driver's node, and return the results.

        Raises:
            DispatchError: a node does not answer, or the function failed there.
        """
        if not self.others:
            return []
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        remote = ray.remote(num_cpus=0)(function)
        places = (NodeAffinitySchedulingStrategy(node, soft=False) for node in self.others)
        calls = [remote.options(scheduling_strategy=place).remote(*arguments) for place in places]
        try:
            answers: list[_T] = ray.get(calls)
        except ray.exceptions.RayError as error:
            raise DispatchError(
                f"dispatch.address: a node of the cluster does not answer: {first_line(error)}; run `ray status`"
            ) from error
        return answers

    def _start_watchdog(self) -> None:
        theirs, self._pipe = os.pipe()
        # An isolated script imports nothing of this package and takes only a few megabytes.
        self._watchdog = subprocess.Popen(
            [sys.executable, "-I", ray_watchdog.__file__, str(theirs), str(self._folder)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(theirs,),
            start_new_session=True,
        )
        os.close(theirs)

    def _keep_logs(self) -> Path:
        """Copy Ray's logs to a new folder, because the session's folder will be deleted; return the new folder."""
        assert self._folder is not None
        copy = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}failed-"))
        with contextlib.suppress(OSError):
            shutil.copytree(self._folder / "ray" / "session_latest" / "logs", copy / "logs", dirs_exist_ok=True)
        return copy

    def _join(self, address: str, allow_open: bool, environment: Mapping[str, Any]) -> None:
        refuse_dead_address(address)
        if not allow_open:
            refuse_open_cluster(address)
        try:
            self._init(address=address, runtime_env=dict(environment))
        except Exception as error:
            # Ray raises many kinds of exceptions.
            raise cannot_join(address, first_line(error)) from error

    def _init(self, **options: Any) -> None:
        import ray

        started: Future[None] = Future()

        def start() -> None:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    ray.init(log_to_driver=False, logging_level=logging.ERROR, configure_logging=True, **options)
                started.set_result(None)
            except BaseException as error:  # noqa: BLE001  # The waiting thread raises it below.
                started.set_exception(error)
            # This thread must live as long as Ray's servers: the kernel kills them when the thread that started them
            # ends.
            self._is_left.wait()

        # Start Ray in a thread: if no server answers, Ray waits for minutes in C code, where Python handles no signals.
        threading.Thread(target=start, daemon=True).start()
        try:
            if not wait([started], _START_SECONDS).done:
                raise TimeoutError(f"Ray did not answer within {_START_SECONDS:g} s")
        except BaseException:
            # `ray.shutdown` would wait for the thread at the end of this process, perhaps forever.
            atexit.unregister(ray.shutdown)
            # So `close` does nothing: if it removed Ray's variables and servers, the thread would block while it holds
            # Python's lock. The watchdog kills the servers after this process has ended.
            self._is_hanging = True
            raise
        started.result()
        self._is_connected = True

    def begin_to_close(self) -> None:
        """Begin to disconnect in the background, because disconnecting takes seconds if Ray has died.

        After this call, call only `close`.
        """
        import ray

        if self._is_connected and self._leaving is None:
            self._leaving = threading.Thread(target=ray.shutdown, daemon=True)
            self._leaving.start()

    def close(self) -> None:
        """Disconnect, unless this process was already connected to Ray when this object was created.

        If this object started the cluster, stop the cluster and delete its folder. Closing twice is harmless.
        """
        if self._is_hanging:
            return
        if self._is_connected:
            import ray

            if self._leaving is None:
                ray.shutdown()
            else:
                self._leaving.join()
            self._is_connected = False
        self._is_left.set()
        if self._before:
            set_variables(self._before)
            ray_private.read_again()
        if self._watchdog is not None:
            # When the pipe closes, the watchdog kills the remaining processes and deletes the folder.
            os.close(self._pipe)
            try:
                self._watchdog.wait(_SWEEP_SECONDS)
            except subprocess.TimeoutExpired:
                self._watchdog.kill()
                self._watchdog.wait()
            self._watchdog = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def _free_first(gpus: int | None, in_use: Collection[int]) -> tuple[int, ...]:
    """Return the numbers of the GPUs that Ray may use, those in `in_use` last; empty if any GPU has no number."""
    given = os.environ.get(_VISIBLE)
    number = max(ray_private.number_of_gpus(), gpus or 0)
    names = [str(each) for each in range(number)] if given is None else given.split(",")
    if not all(name.isdecimal() for name in names):
        return ()
    return tuple(sorted(map(int, names), key=lambda name: name in in_use))


def remove_abandoned() -> None:
    """Delete the folders that drivers of this user left behind when they were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        process = folder.name.removeprefix(_PREFIX).partition("-")[0]
        with contextlib.suppress(FileNotFoundError):  # Another driver may delete the folder at the same time.
            is_ours = folder.lstat().st_uid == os.getuid() and not folder.is_symlink()
            if is_ours and process.isdigit() and not psutil.pid_exists(int(process)):
                shutil.rmtree(folder, ignore_errors=True)
