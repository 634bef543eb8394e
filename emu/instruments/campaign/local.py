"""Carries runs out on this machine, in several worker processes, each served by a thread."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Sequence

from emu.instruments.campaign.child import Child
from emu.instruments.campaign.description import Description, RunResult


class Local:
    """Carries runs out in ``jobs`` worker processes."""

    def __init__(self, jobs: int, runner: str) -> None:
        self._jobs = jobs
        self._runner = runner

    def results(self, runs: Sequence[Description]) -> Generator[RunResult, None, None]:
        """Yield results in order of completion; closing the iterator terminates the workers.

        A worker process that dies gives an ERROR result. An exception of a serving thread is raised
        here.
        """
        waiting: queue.SimpleQueue[Description] = queue.SimpleQueue()
        for run in runs:
            waiting.put(run)
        done: queue.SimpleQueue[RunResult | BaseException] = queue.SimpleQueue()
        children = [Child(self._runner) for _ in range(min(self._jobs, len(runs)))]
        is_over = threading.Event()

        def serve(child: Child) -> None:
            try:
                while not is_over.is_set():
                    done.put(child.result_of(waiting.get_nowait()))
            except queue.Empty:
                pass
            except BaseException as error:
                done.put(error)
            finally:
                child.stop()

        threads = [
            threading.Thread(target=serve, args=(child,), name=f"job {number}")
            for number, child in enumerate(children)
        ]
        for thread in threads:
            thread.start()
        try:
            for _ in runs:
                result = done.get()
                if isinstance(result, BaseException):
                    raise result
                yield result
        finally:
            is_over.set()
            for child in children:
                child.end()
            for thread in threads:
                thread.join()
