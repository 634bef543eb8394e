"""Stores a corpus in a folder: inputs, findings, and the progress of runs.

``inputs/ID.toml`` is a fault plan; ``inputs/ID.json`` has its workload, its kernel and the blocks
that were new. ``findings/NAME/`` has ``plan.toml``, ``log.txt`` and ``about.json`` for each
distinct title. ``blocks.json`` has the number of runs that reached each block, by kernel.
``progress.jsonl`` has a line for each input, ``progress.svg`` plots it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from emu.device.faults.parser import MAX_BYTES, PlanError, dump, load
from emu.host.user_error import UserError
from emu.host.userfiles import read_infile, write_outfile
from emu.instruments.fuzz.mutate import Input
from emu.instruments.fuzz.schedule import Block
from emu.model_words import first_in_words

_MARK = "fuzz.json"
_VERSION = 1
_FOLDERS = ("inputs", "findings")
_DEEPEST = 3
"""Depth of a file below the corpus, at most: findings/NAME/plan.toml."""
_MAX_CORPUS_BYTES = 64 << 20
_ID = re.compile(r"[0-9a-f]{12}")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_]+")
_MAX_NAME_CHARS = 80

BlockText = Annotated[tuple[str, int], Field()]


class About(BaseModel):
    """Metadata of a kept input."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    workload: Annotated[str, Field(max_length=80)]
    kernel: Annotated[str, Field(max_length=200)]
    device: list[str]
    parent: Annotated[str, Field(max_length=80)] = ""
    new: list[BlockText]
    """The blocks that no earlier input ran."""


class FindingAbout(BaseModel):
    """Metadata of a finding."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: Annotated[str, Field(max_length=500)]
    workload: Annotated[str, Field(max_length=80)]
    kernel: Annotated[str, Field(max_length=200)]
    device: list[str]
    times: Annotated[int, Field(ge=1)] = 1
    again: Annotated[int, Field(ge=0)] = 0
    """Number of the 3 extra trials of its minimized plan that reproduced it."""


class Hits(BaseModel):
    """Blocks that the runs in one kernel reached."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    workloads: list[str]
    """Workloads that ran without faults."""
    modules: dict[str, dict[int, int]]
    """Number of runs that reached a block, by module and offset."""


@dataclass(frozen=True)
class CorpusEntry:
    """An input of a corpus, with its metadata."""

    input: Input
    about: About


class Corpus:
    """A corpus folder. Every method raises UserError for an invalid corpus, and OSError."""

    def __init__(self, path: Path, *, create: bool = False) -> None:
        self.path = path
        mark = path / _MARK
        if create and (not path.exists() or not any(path.iterdir())):
            for folder in _FOLDERS:
                (path / folder).mkdir(parents=True, exist_ok=True)
            write_outfile(mark, json.dumps({"mlx5emu_fuzz": _VERSION}) + "\n")
        if not mark.is_file():
            raise UserError(f"{path}: not a corpus: {_MARK} is missing")
        if _table(mark).get("mlx5emu_fuzz") != _VERSION:
            raise UserError(f"{mark}: not a corpus of version {_VERSION}")

    @classmethod
    def around(cls, path: Path) -> tuple[Corpus, str]:
        """Return the corpus around an input's or finding's path, and the name of that one.

        ``DIR/ID`` and ``DIR/NAME`` are accepted as short forms; whether the name exists is not
        checked. Raises UserError for a path in no corpus.
        """
        parts = path.absolute().parts
        for depth in range(1, min(len(parts), _DEEPEST + 1)):
            root, below = Path(*parts[:-depth]), parts[-depth:]
            if (root / _MARK).is_file():
                name = below[1] if below[0] in _FOLDERS and len(below) > 1 else below[0]
                is_input = below[0] == "inputs" and Path(name).suffix in (".toml", ".json")
                return cls(root), Path(name).stem if is_input else name
        raise UserError(f"{path}: not in a corpus: no parent folder has {_MARK}")

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder's lock while the body runs; UserError at once if another run holds it."""
        with (self.path / _MARK).open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserError(f"{self.path}: another run uses this corpus") from None
            yield

    def entries(self) -> Iterator[CorpusEntry]:
        """Yield the inputs, sorted by ID. Raises UserError for an invalid one."""
        for path in sorted((self.path / "inputs").glob("*.toml")):
            yield self.entry(path.stem)

    def entry(self, name: str) -> CorpusEntry:
        """Return a kept input by its ID.

        Raises UserError unless the ID is 12 hexadecimal digits, and for an invalid plan or
        metadata; OSError if the files are missing.
        """
        if not _ID.fullmatch(name):
            raise UserError(f"{name}: not an input's ID: 12 hexadecimal digits")
        about = About.model_validate(_table(self.path / "inputs" / f"{name}.json", About))
        return CorpusEntry(
            Input(_plan(self.path / "inputs" / f"{name}.toml"), about.workload), about
        )

    def add(self, entry: CorpusEntry) -> None:
        """Store an input with its metadata under ``inputs/ID``; replace an equal one."""
        base = self.path / "inputs" / entry.input.id
        write_outfile(base.with_suffix(".json"), entry.about.model_dump_json() + "\n")
        write_outfile(base.with_suffix(".toml"), dump(entry.input.plan))

    def findings(self) -> dict[str, FindingAbout]:
        """Return the metadata of all findings by the names of their folders."""
        return {
            path.parent.name: FindingAbout.model_validate(_table(path, FindingAbout))
            for path in sorted((self.path / "findings").glob("*/about.json"))
        }

    def finding(self, name: str) -> CorpusEntry:
        """Return the input of a finding by its folder's name; UserError if unknown."""
        about_finding = self.findings().get(name)
        if about_finding is None:
            raise UserError(f"{self.path}: no finding {name}")
        about = About(
            workload=about_finding.workload,
            kernel=about_finding.kernel,
            device=about_finding.device,
            new=[],
        )
        plan = _plan(self.path / "findings" / name / "plan.toml")
        return CorpusEntry(Input(plan, about_finding.workload), about)

    def note_finding(self, what: FindingAbout, plan_text: str, log: str) -> bool:
        """Store a finding; return whether its title is new.

        Plan and log of a known title are replaced only by a shorter plan. Its number of times is
        added up, and the larger number of reproductions is kept.
        """
        folder = self.path / "findings" / name_of(what.title)
        known = self.findings().get(folder.name)
        folder.mkdir(exist_ok=True)
        plan = folder / "plan.toml"
        if known is None or len(plan_text) < plan.stat().st_size:
            write_outfile(plan, plan_text)
            write_outfile(folder / "log.txt", log)
        times, again = what.times, what.again
        if known is not None:
            times, again = times + known.times, max(again, known.again)
        about = what.model_copy(update={"times": times, "again": again})
        write_outfile(folder / "about.json", about.model_dump_json() + "\n")
        return known is None

    def hits(self, kernel: str) -> tuple[Counter[Block], set[str]]:
        """Return the number of runs that reached each block, and the workloads run without faults.

        Both are empty for a kernel that never ran.
        """
        path = self.path / "blocks.json"
        if not path.exists() or kernel not in (table := _table(path)):
            return Counter(), set()
        try:
            stored = Hits.model_validate(table[kernel])
        except ValidationError as error:
            raise UserError(f"{path}: {first_in_words(error)}") from None
        counts = Counter(
            {
                (module, offset): count
                for module, offsets in stored.modules.items()
                for offset, count in offsets.items()
            }
        )
        return counts, set(stored.workloads)

    def kernels(self) -> list[str]:
        """Return the releases of kernels with stored blocks."""
        path = self.path / "blocks.json"
        return sorted(_table(path)) if path.exists() else []

    def save_hits(self, kernel: str, hits: Mapping[Block, int], workloads: Iterable[str]) -> None:
        """Replace the stored blocks and workloads of a kernel; keep those of other kernels."""
        path = self.path / "blocks.json"
        table = _table(path) if path.exists() else {}
        modules: dict[str, dict[int, int]] = {}
        for (module, offset), count in sorted(hits.items()):
            modules.setdefault(module, {})[offset] = count
        stored = Hits(workloads=sorted(workloads), modules=modules)
        write_outfile(path, json.dumps(table | {kernel: stored.model_dump()}) + "\n")

    def merge(self, other: Corpus) -> tuple[int, int]:
        """Copy inputs and findings of another corpus; return the numbers of new inputs and titles.

        Inputs with a known ID are skipped; known findings are merged by :meth:`note_finding`. Block
        counts are not copied.
        """
        known = {path.stem for path in (self.path / "inputs").glob("*.toml")}
        new = [entry for entry in other.entries() if entry.input.id not in known]
        for entry in new:
            self.add(entry)
        titles = 0
        for name, what in other.findings().items():
            folder = other.path / "findings" / name
            log = read_infile(folder / "log.txt", _MAX_CORPUS_BYTES).decode(errors="replace")
            titles += self.note_finding(what, dump(_plan(folder / "plan.toml")), log)
        return len(new), titles


def name_of(title: str) -> str:
    """Return the name of a finding's folder."""
    return _NOT_IN_NAMES.sub("-", title).strip("-")[:_MAX_NAME_CHARS] or "untitled"


def _plan(path: Path) -> Any:
    """Return the fault plan in a file. Raises UserError for an invalid one."""
    try:
        return load(read_infile(path, MAX_BYTES).decode(errors="replace"), str(path))
    except PlanError as error:
        raise UserError(str(error)) from None


def _table(path: Path, kind: type[BaseModel] | None = None) -> dict[str, object]:
    """Return the object in a JSON file.

    Raises UserError for invalid JSON, or if ``kind`` refuses it.
    """
    try:
        table = json.loads(read_infile(path, _MAX_CORPUS_BYTES))
        if not isinstance(table, dict):
            raise ValueError("not an object")
        if kind is not None:
            kind.model_validate(table)
    except ValidationError as error:
        raise UserError(f"{path}: {first_in_words(error)}") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: invalid JSON: {error}") from None
    return table


def blocks_of(entry: CorpusEntry) -> list[Block]:
    """Return the blocks for which an input was kept."""
    return [(module, offset) for module, offset in entry.about.new]
