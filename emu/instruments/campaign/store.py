"""Stores a campaign in a directory: runs, finished results, records, the report.

    campaign.json   format version, name, description of every run
    results/*.json  one result per run, written atomically
    outputs/*.txt   for people: a run's command, the end of its output, its end
    records/*.jsonl record of a run with faults that did not pass, for ``replay``
    traces/*.json   trace of an observed run from its fault on; ``.html`` pages beside them
    minimized/      minimized plans, by finding

A result file is complete and stays, even if a process dies or the disk is full.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StrictStr, ValidationError

from emu.host.user_error import UserError
from emu.host.userfiles import PART, read_infile, replacing
from emu.instruments.campaign.changes import check_same, compared_again
from emu.instruments.campaign.description import Description, Ended, RunResult
from emu.instruments.campaign.report import unfired
from emu.model_words import first_in_words

VERSION = 2
_MAX_BYTES = 1 << 30
_MAX_RESULT = 32 << 20
_OWN_FOLDERS = ("results", "outputs", "records", "traces", "minimized")
_REPORTS = ("report.json", "report.xml", "report.tap", "report.html")
_LOCK = "lock"


class _CampaignFile(BaseModel):
    """Content of campaign.json."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    campaign: Annotated[int, Field(strict=True, ge=VERSION, le=VERSION)] = VERSION
    name: StrictStr
    runs: tuple[Description, ...]


class Store:
    """The directory of one campaign. Every method raises OSError with the file's name."""

    def __init__(self, path: Path, name: str, runs: Sequence[Description]) -> None:
        """Take the directory's content; callers use :meth:`create` or :meth:`open`."""
        self.path = path
        self.name = name
        self.runs: Mapping[str, Description] = {run.name: run for run in runs}

    @classmethod
    def create(
        cls,
        path: Path,
        name: str,
        runs: Sequence[Description],
        repeated: Collection[str] = (),
    ) -> Store:
        """Return the store of a new campaign, or of an existing one with the same runs.

        Directory and campaign.json are made when absent. Results are compared with expectations
        that have changed; those of ``repeated`` runs are removed instead. Raises UserError if
        ``path`` has a campaign with other runs, or for a changed expectation of the kernel's log.
        """
        if (path / "campaign.json").exists():
            there = cls.open(path)
            asked = _as_stored([*there.runs.values()], runs)
            return there if asked == [*there.runs.values()] else there._renewed(asked, repeated)
        path.mkdir(parents=True, exist_ok=True)
        _write_campaign(path, name, runs)
        return cls(path, name, runs)

    @classmethod
    def renew(cls, path: Path, name: str, runs: Sequence[Description]) -> Store:
        """Return the store of a new campaign; one of observed runs that is there is removed.

        The new campaign.json replaces the old one, so an interrupted call can be repeated.

        Raises UserError for a directory with other files and without a campaign, for a campaign
        with other runs, and for one that another process works on.
        """
        if path.is_dir() and not _is_unused(path):
            there = cls.open(path)
            if not all(run.is_observed for run in there.runs.values()):
                raise UserError(f"{path} has the results of `mlx5emu campaign`: choose another")
            with there.locked():
                for one in _OWN_FOLDERS:
                    shutil.rmtree(path / one, ignore_errors=True)
                for one in _REPORTS:
                    (path / one).unlink(missing_ok=True)
                _write_campaign(path, name, runs)
            return cls(path, name, runs)
        return cls.create(path, name, runs)

    def _renewed(self, runs: Sequence[Description], repeated: Collection[str]) -> Store:
        """Take the expectations of ``runs``, compare the results with them, return the store.

        The results of ``repeated`` runs are removed.

        Raises UserError for other runs, before anything is changed.
        """
        before = list(self.runs.values())
        check_same(before, runs, str(self.path))
        with self.locked():
            kept = {name: one for name, one in self.results().items() if name not in repeated}
            again = compared_again(kept, runs, before)
            self.forget(repeated)
            _write_campaign(self.path, self.name, runs)
            store = Store(self.path, self.name, runs)
            for result in again:
                store.put(result)
        return store

    def forget(self, names: Collection[str]) -> None:
        """Remove the results and records of runs, which are then pending."""
        for name in names:
            self._result(name).unlink(missing_ok=True)
            self.record(name).unlink(missing_ok=True)

    def extended(self, runs: Sequence[Description]) -> Store:
        """Add runs to the campaign; return its store, which has the results so far."""
        every = [*self.runs.values(), *runs]
        _write_campaign(self.path, self.name, every)
        return Store(self.path, self.name, every)

    @classmethod
    def open(cls, path: Path) -> Store:
        """Return the campaign stored in a directory.

        Raises UserError if there is none, or if it is damaged or of another version.
        """
        file = path / "campaign.json"
        if not file.is_file():
            raise UserError(f"{path} is no campaign directory: campaign.json is missing")
        try:
            content = _CampaignFile.model_validate_json(read_infile(file, _MAX_BYTES))
        except ValidationError as error:
            why = first_in_words(error)
            raise UserError(f"{file} is damaged or of another version: {why}") from None
        return cls(path, content.name, content.runs)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the campaign's lock while the body runs; UserError at once if another holds it."""
        with (self.path / _LOCK).open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserError(f"{self.path}: another process writes its results") from None
            yield

    def put(self, result: RunResult) -> None:
        """Write record and trace, if any, the output for people, and finally a run's result.

        An earlier result is replaced. The result file has neither record nor trace.
        """
        if result.record:
            self.write(record_name(result.name), result.record)
        if result.trace:
            self.write(trace_name(result.name), result.trace)
        self.write(output_name(result.name), _shown(self.runs[result.name], result))
        short = result.model_copy(update={"record": "", "trace": ""})
        self.write(_result_name(result.name), short.model_dump_json() + "\n")

    def results(self) -> dict[str, RunResult]:
        """Return the results by name in matrix order; skip missing and damaged files.

        The runs' records are not in them (:meth:`record`).
        """
        results = {}
        for name in self.runs:
            with contextlib.suppress(OSError, ValidationError, UserError):
                data = read_infile(self._result(name), _MAX_RESULT)
                result = RunResult.model_validate_json(data)
                if result.name == name:
                    results[name] = result
        return results

    def pending(self, names: Collection[str] | None = None) -> list[Description]:
        """Return the runs of ``names`` (all by default) without a result other than ERROR."""
        done = {name for name, result in self.results().items() if result.ended is not Ended.ERROR}
        asked = self.runs if names is None else names
        return [run for name, run in self.runs.items() if name in asked and name not in done]

    def selected(self, patterns: Sequence[str]) -> Collection[str] | None:
        """Return the names of runs that any of ``patterns`` matches; None without patterns.

        Raises UserError for a pattern without a match.
        """
        return selected(self.runs, patterns)

    def record(self, name: str) -> Path:
        """Return the path of a run's record, which may not exist."""
        return self.path / record_name(name)

    def write(self, name: str, text: str) -> Path:
        """Write a file atomically below the campaign's directory; return its path."""
        path = self.path / name
        path.parent.mkdir(exist_ok=True)
        _write_whole(path, text)
        return path

    def _result(self, name: str) -> Path:
        return self.path / _result_name(name)


def selected(
    names: Iterable[str], patterns: Sequence[str], option: str = "--only"
) -> Collection[str] | None:
    """Return the names that any of the shell ``patterns`` matches; None without patterns.

    Raises UserError, with the ``option``, for a pattern without a match.
    """
    if not patterns:
        return None
    by_pattern = {each: [name for name in names if fnmatchcase(name, each)] for each in patterns}
    for pattern, matched in by_pattern.items():
        if not matched:
            raise UserError(
                f"{option} {pattern} matches no run; an example is {next(iter(names))};"
                " mlx5emu campaign list prints all"
            )
    return {name: None for matched in by_pattern.values() for name in matched}


def _result_name(name: str) -> str:
    return f"results/{name}.json"


def output_name(name: str) -> str:
    """Return the path of a run's output in the campaign's directory."""
    return f"outputs/{name}.txt"


def record_name(name: str) -> str:
    """Return the path of a run's record in the campaign's directory."""
    return f"records/{name}.jsonl"


def trace_name(name: str, suffix: str = "json") -> str:
    """Return the path of a run's trace in the campaign's directory, or of its page (``html``)."""
    return f"traces/{name}.{suffix}"


def _is_unused(path: Path) -> bool:
    """Return whether a directory has at most what a campaign leaves that could not be created.

    A lock, empty folders of a campaign, and a part of a file are no results.
    """
    return all(
        one.name == _LOCK
        or (one.name.startswith(".") and one.name.endswith(PART))
        or (one.name in _OWN_FOLDERS and one.is_dir() and not any(one.iterdir()))
        for one in path.iterdir()
    )


def _write_campaign(path: Path, name: str, runs: Sequence[Description]) -> None:
    text = _CampaignFile(name=name, runs=tuple(runs)).model_dump_json()
    _write_whole(path / "campaign.json", f"{text}\n")


def _shown(run: Description, result: RunResult) -> str:
    """Return a run's command, output, end, findings and comparison as text for people.

    Threads and queues of an observed command that did not end are last.
    """
    output = result.output if result.output.endswith("\n") else f"{result.output}\n"
    status = [] if result.status is None else [f"status {result.status}"]
    findings = [f"{one.kind.value}: {one.title}" for one in result.findings]
    notes = filter(None, (unfired([result]), result.why))
    ended = ", ".join([result.ended.value, *status, *notes])
    compared = {None: [], "": ["as expected"]}.get(
        result.otherwise, [f"unexpected: {result.otherwise}"]
    )
    end = [ended, *findings, *compared]
    text = f"$ {run.command}\n{output if result.output else ''}\n" + "".join(
        f"[{line}]\n" for line in end
    )
    if result.peer_output:
        text += f"\nThe second guest:\n{result.peer_output.rstrip()}\n"
    if (observed := result.observed) is None or not observed.threads:
        return text
    return "\n".join([text, observed.threads.rstrip(), *observed.waiting, ""])


def _as_stored(there: Sequence[Description], asked: Sequence[Description]) -> list[Description]:
    """Return the requested runs, without directories if no stored run has one (older versions)."""
    if any(run.directory is not None for run in there):
        return list(asked)
    return [one.model_copy(update={"directory": None}) for one in asked]


def as_json(value: object) -> str:
    """Return JSON with sorted keys, so equal values are equal bytes."""
    return json.dumps(value, indent=1, sort_keys=True) + "\n"


def _write_whole(path: Path, text: str) -> None:
    """Write a file atomically and durably (fsync), with mode 0644.

    Raises OSError with the file's name; the old file is then unchanged.
    """
    try:
        with replacing(path) as part:
            with part.open("w", encoding="utf-8", errors="replace") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            part.chmod(0o644)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
