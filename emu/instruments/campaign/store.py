"""A campaign's directory: its runs, the results that are finished, records, the report.

    campaign.json   the format's version, the name, every run's description
    results/*.json  a result each, written whole or not at all
    records/*.jsonl the record of a run with faults in which something went wrong: for ``replay``
    minimized/      smallest plans, by finding

Whoever dies, whatever disk is full: a result that is there is whole, and stays.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StrictStr, ValidationError

from emu.host.user_error import UserError
from emu.host.userfiles import read_infile
from emu.instruments.campaign.description import Description, Ended, RunResult

VERSION = 1
_MAX_BYTES = 1 << 30
_MAX_RESULT = 32 << 20


class _CampaignFile(BaseModel):
    """campaign.json."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    campaign: Annotated[int, Field(strict=True, ge=VERSION, le=VERSION)] = VERSION
    name: StrictStr
    runs: tuple[Description, ...]


class Store:
    """The directory of one campaign. Every method raises OSError, with the file's name."""

    def __init__(self, path: Path, name: str, runs: Sequence[Description]) -> None:
        """Use :meth:`create` or :meth:`open`."""
        self.path = path
        self.name = name
        self.runs: Mapping[str, Description] = {run.name: run for run in runs}

    @classmethod
    def create(cls, path: Path, name: str, runs: Sequence[Description]) -> Store:
        """Make the directory, or take one that has the same runs. Raises UserError for another."""
        if (path / "campaign.json").exists():
            there = cls.open(path)
            if list(there.runs.values()) != list(runs):
                raise UserError(
                    f"{path} holds another campaign, or the matrix has changed: another --out"
                )
            return there
        (path / "results").mkdir(parents=True, exist_ok=True)
        (path / "records").mkdir(exist_ok=True)
        _write_whole(
            path / "campaign.json",
            _CampaignFile(name=name, runs=tuple(runs)).model_dump_json() + "\n",
        )
        return cls(path, name, runs)

    @classmethod
    def open(cls, path: Path) -> Store:
        """The campaign in a directory. Raises UserError when there is none."""
        file = path / "campaign.json"
        if not file.is_file():
            raise UserError(f"{path} is no campaign's directory: it has no campaign.json")
        try:
            content = _CampaignFile.model_validate_json(read_infile(file, _MAX_BYTES))
        except ValidationError as error:
            raise UserError(f"{file} is damaged: {error.errors()[0]['msg']}") from None
        return cls(path, content.name, content.runs)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Be the only one who works on it. Raises UserError when another process is."""
        with (self.path / "lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserError(f"{self.path}: another process works on this campaign") from None
            yield

    def put(self, result: RunResult) -> None:
        """Keep a result, and its record in a file of its own; the result comes last."""
        if result.record:
            _write_whole(self.record(result.name), result.record)
        short = result.model_copy(update={"record": ""})
        _write_whole(self._result(result.name), short.model_dump_json() + "\n")

    def results(self) -> dict[str, RunResult]:
        """The results by name, in the order of the runs; a damaged file counts as none."""
        results = {}
        for name in self.runs:
            with contextlib.suppress(OSError, ValidationError, UserError):
                data = read_infile(self._result(name), _MAX_RESULT)
                result = RunResult.model_validate_json(data)
                if result.name == name:
                    results[name] = result
        return results

    def pending(self) -> list[Description]:
        """The runs without a result, and those that could not be carried out."""
        done = {name for name, result in self.results().items() if result.ended is not Ended.ERROR}
        return [run for name, run in self.runs.items() if name not in done]

    def record(self, name: str) -> Path:
        """Where a run's record is, if there is one."""
        return self.path / "records" / f"{name}.jsonl"

    def write(self, name: str, text: str) -> Path:
        """Write a file of the report; its path."""
        path = self.path / name
        path.parent.mkdir(exist_ok=True)
        _write_whole(path, text)
        return path

    def _result(self, name: str) -> Path:
        return self.path / "results" / f"{name}.json"


def as_json(value: object) -> str:
    """JSON for a report: sorted, so that equal values are equal bytes."""
    return json.dumps(value, indent=1, sort_keys=True) + "\n"


def _write_whole(path: Path, text: str) -> None:
    """Write a file so that it is there whole, or as before. Raises OSError with its name."""
    temporary: Path | None = None
    try:
        descriptor, name = tempfile.mkstemp(prefix=".", suffix=".part", dir=path.parent)
        temporary = Path(name)
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except OSError as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from None
