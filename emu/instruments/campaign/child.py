"""A worker's process as its parent sees it: gets runs, may die, is replaced."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import time

from emu.host.process_identity import module_command
from emu.instruments.campaign.description import Description, Ended, RunResult

MAX_ATTEMPTS = 3
"""How often a run is begun whose worker dies over it."""

_STOP_SECONDS = 20.0
_CHUNK = 1 << 20


class WorkerLostError(Exception):
    """The process has ended, or was killed because it took too long; its run has no result."""


class Child:
    """One process of :mod:`emu.instruments.campaign.worker`, started when it is needed."""

    def __init__(self, runner: str) -> None:
        """``runner`` is ``MODULE:FUNCTION``."""
        self._runner = runner
        self._process: subprocess.Popen[bytes] | None = None
        self._is_over = False

    def result_of(self, run: Description) -> RunResult:
        """Carry a run out, again when the worker dies, at most :data:`MAX_ATTEMPTS` times."""
        why = ""
        for _ in range(MAX_ATTEMPTS):
            if self._is_over:
                break
            try:
                return self._carried_out(run)
            except WorkerLostError as error:
                why = str(error)
                self.stop()
        return RunResult(name=run.name, ended=Ended.ERROR, why=f"{MAX_ATTEMPTS} times: {why}")

    def end(self) -> None:
        """From another thread: end the process, and start none any more."""
        self._is_over = True
        if (process := self._process) is not None:
            process.terminate()

    def stop(self) -> None:
        """End the process, with the guest that it has. Harmless when there is none."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()

    def _carried_out(self, run: Description) -> RunResult:
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(run.model_dump_json().encode() + b"\n")
            process.stdin.flush()
            answer = _read_line(process.stdout.fileno(), run.patience)
        except (OSError, ValueError) as error:
            # A stopped worker's pipes are closed under us.
            raise WorkerLostError(f"the worker has gone: {error}") from None
        if not answer:
            process.kill()
            raise WorkerLostError(f"the worker ended with status {process.wait()}")
        result = RunResult.model_validate_json(answer)
        if result.name != run.name:
            raise WorkerLostError("the worker answered for another run")
        return result

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self.stop()
            # A session of its own: Ctrl-C is for us, who then end it in order.
            self._process = subprocess.Popen(
                [*module_command("emu.instruments.campaign.worker"), self._runner],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,
            )
        return self._process


def _read_line(descriptor: int, patience: float) -> bytes:
    """One line; empty when the writer is gone or has taken longer than ``patience`` seconds."""
    deadline = time.monotonic() + patience
    data = bytearray()
    while not data.endswith(b"\n"):
        ready, _, _ = select.select([descriptor], [], [], max(deadline - time.monotonic(), 0))
        chunk = os.read(descriptor, _CHUNK) if ready else b""
        if not chunk:
            return b""
        data += chunk
    return bytes(data)
