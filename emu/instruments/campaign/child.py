"""Runs and restarts one worker process (:mod:`emu.instruments.campaign.worker`)."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import time

from emu.host.process_identity import module_command
from emu.instruments.campaign.description import Description, Ended, RunResult

MAX_ATTEMPTS = 3
"""Attempts at a run whose worker process dies."""

_STOP_SECONDS = 20.0
_CHUNK = 1 << 20


class WorkerLostError(Exception):
    """The worker process ended or exceeded its time limit; its run has no result."""


class Child:
    """One process of :mod:`emu.instruments.campaign.worker`, started on demand."""

    def __init__(self, runner: str) -> None:
        """Take ``runner`` as ``MODULE:FUNCTION``."""
        self._runner = runner
        self._process: subprocess.Popen[bytes] | None = None
        self._is_over = False

    def result_of(self, run: Description) -> RunResult:
        """Carry out a run in the worker process and return its result; start the process if needed.

        A worker that dies or exceeds the run's patience is replaced, up to :data:`MAX_ATTEMPTS`
        attempts. After that, or after :meth:`end`, the result is :attr:`Ended.ERROR`; no exception
        is raised.
        """
        why = ""
        for _ in range(MAX_ATTEMPTS):
            if self._is_over:
                break
            try:
                return self._carried_out(run)
            except WorkerLostError as error:
                why = str(error)
                self.stop()
        return RunResult(name=run.name, ended=Ended.ERROR, why=f"{MAX_ATTEMPTS} attempts: {why}")

    def end(self) -> None:
        """Terminate the process and start no other for this object; callable from any thread.

        A run under way gets the result ERROR. The process is not awaited.
        """
        self._is_over = True
        if (process := self._process) is not None:
            process.terminate()

    def stop(self) -> None:
        """Terminate the process, after 20 s kill it, and wait for it; its guest ends with it.

        A later run starts a new process.
        """
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
        """Send a run to the worker and return its answer.

        Raises WorkerLostError when the pipe breaks, the worker ends, answers for another run, or
        exceeds ``run.patience``. A late worker is killed.
        """
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(run.model_dump_json().encode() + b"\n")
            process.stdin.flush()
            answer = _read_line(process.stdout.fileno(), run.patience)
        except (OSError, ValueError) as error:
            # stop() may close the pipes at any time.
            raise WorkerLostError(f"the worker's pipe broke: {error}") from None
        if not answer:
            process.kill()
            raise WorkerLostError(f"the worker ended with status {process.wait()}")
        result = RunResult.model_validate_json(answer)
        if result.name != run.name:
            raise WorkerLostError("the worker answered for another run")
        return result

    def _running(self) -> subprocess.Popen[bytes]:
        """Return the worker process; start one if there is none or it has ended."""
        if self._process is None or self._process.poll() is not None:
            self.stop()
            # With its own session, the worker gets no SIGINT from Ctrl-C; the parent terminates it.
            self._process = subprocess.Popen(
                [*module_command("emu.instruments.campaign.worker"), self._runner],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,
            )
        return self._process


def _read_line(descriptor: int, patience: float) -> bytes:
    """Return one line with its newline; empty at end of file or after ``patience`` seconds."""
    deadline = time.monotonic() + patience
    data = bytearray()
    while not data.endswith(b"\n"):
        ready, _, _ = select.select([descriptor], [], [], max(deadline - time.monotonic(), 0))
        chunk = os.read(descriptor, _CHUNK) if ready else b""
        if not chunk:
            return b""
        data += chunk
    return bytes(data)
