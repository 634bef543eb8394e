"""Carries runs out on a Dask distributed cluster, one run per worker thread.

Each worker thread has a child process with the guest (:mod:`emu.instruments.campaign.child`), which
ends with the worker. Dask repeats the runs of workers that die. After a lost connection, unfinished
runs are submitted again; finished results are already stored here.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import queue
import socket
import threading
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import emu
from emu.host.printable import one_line
from emu.host.user_error import UserError
from emu.instruments.campaign.child import Child
from emu.instruments.campaign.description import Description, Ended, RunResult
from emu.version import version

if TYPE_CHECKING:
    from distributed import Client, Future

logger = logging.getLogger(__name__)

CONNECT_SECONDS = 5
WORKERS_SECONDS = 10
RETURN_SECONDS = 60
"""Seconds to wait for a scheduler that was connected before."""

_PACKAGES = ("emu", "firmware_cmds", "layouts")
_SOURCES = (".py", ".sh", ".toml")
_COPIES = "emu/data/"
"""Pages and examples in a wheel (emu.host.shipped); a description has the texts that a run needs.
"""
_POLL_SECONDS = 1.0
_MIN_AHEAD = 16
_threads = threading.local()


class ClusterError(UserError):
    """The cluster cannot be used or is lost; finished results are kept."""


class _SchedulerLostError(Exception):
    """The scheduler is unreachable or has forgotten the submitted runs."""


def fingerprint() -> str:
    """Return version and digest of our sources; equal values mean equal results of runs."""
    root = Path(emu.__file__).parents[1]
    digest = hashlib.sha256()
    for path in sorted(path for package in _PACKAGES for path in (root / package).rglob("*.*")):
        name = path.relative_to(root).as_posix()
        if path.suffix in _SOURCES and not name.startswith(_COPIES):
            digest.update(name.encode())
            digest.update(path.read_bytes())
    return f"{version()} ({digest.hexdigest()[:12]})"


def run_here(description: str, runner: str, expected: str) -> str:
    """Carry out a run in this worker thread's child process; return the result as JSON.

    ``description`` is JSON too. Raises RuntimeError if the worker's fingerprint is not
    ``expected``.
    """
    if (own := _own_fingerprint()) != expected:
        raise RuntimeError(f"mlx5emu {own}, not {expected}")
    if not hasattr(_threads, "child"):
        _threads.child = Child(runner)
    result: RunResult = _threads.child.result_of(Description.model_validate_json(description))
    return result.model_dump_json()


def _own_fingerprint() -> str:
    if not hasattr(_threads, "fingerprint"):
        _threads.fingerprint = fingerprint()
    return str(_threads.fingerprint)


class Cluster:
    """Carries runs out on the workers of the scheduler at ``address``."""

    def __init__(self, address: str, runner: str) -> None:
        self._address = address
        self._runner = runner
        self._expected = fingerprint()

    def results(self, runs: Sequence[Description]) -> Generator[RunResult, None, None]:
        """Yield results in order of completion until each run has one.

        A lost scheduler is awaited for :data:`RETURN_SECONDS`, then unfinished runs are submitted
        again. Raises :class:`ClusterError` if it cannot be reached, has no workers, or a worker has
        other sources.
        """
        pending = {run.name: run for run in runs}
        deadline = time.monotonic()
        while pending:
            try:
                with _quiet(), self._connected(deadline) as client:
                    self._check(client)
                    for result in self._served(client, pending):
                        del pending[result.name]
                        yield result
            except _SchedulerLostError as error:
                logger.warning("lost the scheduler %s: %s", self._address, error)
                deadline = time.monotonic() + RETURN_SECONDS

    @contextlib.contextmanager
    def _connected(self, deadline: float) -> Iterator[Client]:
        """Yield a connected client while the body runs; retry until ``deadline``.

        Raises ClusterError without Dask distributed, for a bad address, or when no scheduler
        answers.
        """
        try:
            from distributed import Client
        except ModuleNotFoundError:
            raise ClusterError(
                "--dask needs Dask distributed: pip install 'mlx5emu[cluster]'"
            ) from None
        while True:
            try:
                _reach(self._address)
                client = Client(self._address, timeout=CONNECT_SECONDS, set_as_default=False)
                break
            except ValueError as error:
                raise ClusterError(f"--dask {self._address}: {error}") from None
            except OSError as error:
                if time.monotonic() >= deadline:
                    why = one_line(str(error) or type(error).__name__)
                    raise ClusterError(f"no scheduler at {self._address}: {why}") from None
                time.sleep(_POLL_SECONDS)
        try:
            yield client
        finally:
            with contextlib.suppress(Exception):
                client.close(timeout=CONNECT_SECONDS)

    def _check(self, client: Client) -> None:
        """Raise ClusterError for a cluster without workers, or a worker that has other sources."""
        try:
            client.wait_for_workers(1, timeout=WORKERS_SECONDS)
        except TimeoutError:
            raise ClusterError(f"the scheduler at {self._address} has no workers") from None
        answers = _asked(client)
        for worker, answer in sorted(answers.items()):
            if isinstance(answer, BaseException):
                why = one_line(f"{type(answer).__name__}: {answer}")
                raise ClusterError(f"the worker {worker} cannot run mlx5emu: {why}")
            if answer != self._expected:
                raise ClusterError(
                    f"the worker {worker} has mlx5emu {one_line(str(answer))}, this is"
                    f" {self._expected}: install the same there"
                )

    def _served(self, client: Client, pending: Mapping[str, Description]) -> Iterator[RunResult]:
        """Submit the runs, at least 16 or twice the threads at once, and yield their results.

        Raises _SchedulerLostError when the connection is lost. Runs in flight are cancelled at the
        end.
        """
        done: queue.SimpleQueue[Future] = queue.SimpleQueue()
        waiting = list(pending.values())[::-1]
        flying: dict[str, tuple[str, Future]] = {}
        try:
            while waiting or flying:
                ahead = max(_MIN_AHEAD, 2 * sum(client.nthreads().values()))
                while waiting and len(flying) < ahead:
                    run = waiting.pop()
                    future = client.submit(
                        run_here, run.model_dump_json(), self._runner, self._expected, pure=False
                    )
                    flying[future.key] = run.name, future
                    future.add_done_callback(done.put)
                for finished in _drained(done, client):
                    name, future = flying.pop(finished.key)
                    yield _result_of(name, future)
        except (OSError, RuntimeError) as error:  # the client lost its scheduler
            raise _SchedulerLostError(one_line(str(error))) from error
        finally:
            with contextlib.suppress(Exception):
                client.cancel([future for _, future in flying.values()], force=True)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence Dask's log while the body runs: Dask logs a traceback for each lost connection."""
    loggers = [logging.getLogger(name) for name in ("distributed", "distributed.client")]
    levels = [one.level for one in loggers]
    for one in loggers:
        one.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for one, level in zip(loggers, levels):
            one.setLevel(level)


def _drained(done: queue.SimpleQueue[Future], client: Client) -> Iterator[Future]:
    """Wait up to a second for a finished future, then yield it and all others that are finished.

    Raises _SchedulerLostError if the client is no longer connected.
    """
    try:
        yield done.get(timeout=_POLL_SECONDS)
        while True:
            yield done.get_nowait()
    except queue.Empty:
        if client.status not in ("running", "connecting"):
            raise _SchedulerLostError(f"the client is {client.status}") from None


def _result_of(name: str, future: Future) -> RunResult:
    """Return the result of a finished future; ERROR if Dask gave up on the run.

    Raises ClusterError if the worker has other sources, _SchedulerLostError if it was cancelled.
    """
    if future.cancelled():
        raise _SchedulerLostError("the scheduler has forgotten the runs")
    error = future.exception()
    if error is None:
        return RunResult.model_validate_json(future.result())
    why = one_line(f"{type(error).__name__}: {error}")
    if isinstance(error, RuntimeError) and str(error).startswith("mlx5emu "):
        raise ClusterError(f"a worker has {error}: install the same there")
    # Dask gives up on a run after several workers died.
    return RunResult(name=name, ended=Ended.ERROR, why=why)


def _asked(client: Client) -> dict[str, object]:
    """Return each worker's fingerprint, or the exception that it raised."""
    answers: dict[str, object] = client.run(fingerprint, on_error="return")
    return answers


def _reach(address: str) -> None:
    """Connect to a ``tcp`` or ``tls`` address and close, to find a refused port at once.

    Other addresses are not tested. Raises OSError, ValueError.
    """
    scheme, _, rest = address.rpartition("://")
    host, _, port = rest.rpartition(":")
    if scheme in ("", "tcp", "tls") and host and port.isdecimal() and int(port) < 1 << 16:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
