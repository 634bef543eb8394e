"""The faults of a server: the rules at all its functions, and the record of what fired."""

from __future__ import annotations

import logging
import platform
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pydantic

from emu.device.faults import record
from emu.device.faults.injector import Injector
from emu.device.faults.link import Link
from emu.device.faults.plan import MOST_RULES, Plan
from emu.device.faults.record import Fired
from emu.device.faults.rule import Rule
from emu.device.faults.text import MOST_BYTES, PlanError, load
from emu.device.function.function import Function
from emu.host.cut_short import LimitError, complaint
from emu.host.user_error import UserError
from emu.host.userfiles import read_infile
from emu.server.service.fault_options import FaultOptions
from emu.server.service.links import Cabling, Links
from emu.server.service.trace_file import TraceFile
from emu.version import version

log = logging.getLogger(__name__)


def read_plan(path: Path) -> Plan:
    """The plan in a file. Raises UserError, with the place of every mistake."""
    try:
        plan = load(read_infile(path, MOST_BYTES).decode(), str(path))
    except PlanError as error:
        raise UserError(str(error)) from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: not UTF-8") from None
    return plan if plan.name else plan.model_copy(update={"name": path.stem})


def read_plans(directory: Path) -> dict[str, Plan]:
    """Every plan of a directory, by its file's name. Raises UserError."""
    return {path.stem: read_plan(path) for path in sorted(directory.glob("*.toml"))}


class RecordFile:
    """A record's file. The first write error is logged and ends the record; the run goes on."""

    def __init__(self, path: Path, head: Mapping[str, Any]) -> None:
        """Raises OSError when the file cannot be made."""
        self.path = path
        self._lines = 0
        self._ended_by: OSError | None = None
        self._file: TraceFile | None = TraceFile(path)
        self.write(record.line(head))

    def write(self, line: str) -> None:
        """Add a line, unless writing has failed."""
        if self._file is None:
            return
        self._lines += 1
        try:
            if self._lines > record.MOST_LINES:
                raise LimitError(f"it has {record.MOST_LINES} lines")
            self._file.write(line)
        except OSError as error:
            self._ended_by = error
            log.warning("the record %s ends here, the run goes on: %s", self.path, error)
            self.close()

    @property
    def complaint(self) -> str:
        """What the file lacks at the end, if anything."""
        return complaint("record", self.path, self._ended_by)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


class FaultSession:
    """The rules of one server."""

    def __init__(
        self,
        functions: Sequence[Function],
        options: FaultOptions,
        cabling: Cabling,
        on_fired: Callable[[Fired], None] | None = None,
    ) -> None:
        """``on_fired`` is told of each fault that fires.

        Raises UserError for an invalid plan, and OSError when the record cannot be created.
        """
        plan = read_plan(options.plan) if options.plan is not None else None
        self._seed = plan.seed if plan is not None else 0
        self._added = 0
        self._record: RecordFile | None = None
        self._on_fired = on_fired
        if options.record is not None:
            head = record.head(plan or Plan(), _versions(), options.devices, options.run)
            self._record = RecordFile(options.record, head)
        self._injectors = [
            Injector(function, index, self._note) for index, function in enumerate(functions)
        ]
        self._links = Links(functions, cabling, self._seed)
        for function, injector in zip(functions, self._injectors):
            function.use_faults(injector)
            if plan is not None:
                injector.start(plan)
        for link in plan.link if plan is not None else ():
            self._plan_link(link)

    @property
    def complaint(self) -> str:
        """What the record lacks at the end, if anything."""
        return self._record.complaint if self._record is not None else ""

    def close(self) -> None:
        """Take all rules away and close the record."""
        for injector in self._injectors:
            injector.clear()
        if self._record is not None:
            self._record.close()

    def _plan_link(self, link: Link) -> None:
        """Set a link when its functions have run as many commands as it wants."""
        for index in self._links.functions(link):
            self._injectors[index].at(link.after, partial(self._links.set, link, index))

    def set_link(self, link: Link) -> None:
        """Set links from now on, or clear them. Raises ValueError for a missing function."""
        self._links.check(link)
        self._tell({"link": link.to_table()})
        self._plan_link(link)

    def links(self) -> list[dict[str, Any]]:
        """The links that are or were set."""
        return list(self._links.listing())

    def load(self, plan: Plan) -> None:
        """Replace all rules, and set the plan's links."""
        if self._record is not None:
            for name in self._names():
                self._tell({"removed": name})
            for rule in plan.rule:
                self._tell({"added": rule.to_table()})
        self._seed = self._links.seed = plan.seed
        self._tell({"seed": plan.seed})
        for injector in self._injectors:
            injector.load(plan)
        for link in plan.link:
            self.set_link(link)

    def add(self, rule: Rule) -> str:
        """Add a rule; return its name. ValueError if the name is taken or there are too many."""
        taken = self._names()
        if not rule.name:
            self._added += 1
            while f"added-{self._added}" in taken:
                self._added += 1
            rule = rule.model_copy(update={"name": f"added-{self._added}"})
        if len(taken) >= MOST_RULES:
            raise ValueError(f"there are {MOST_RULES} rules already")
        if rule.name in taken:
            raise ValueError(f"there is a rule {rule.name!r} already")
        self._tell({"added": rule.to_table()})
        for injector in self._injectors:
            injector.add([rule], self._seed)
        name: str = rule.name
        return name

    def remove(self, name: str) -> bool:
        """Remove a rule; False if there is none with that name."""
        found = [injector.remove(name) for injector in self._injectors]
        if any(found):
            self._tell({"removed": name})
        return any(found)

    def _names(self) -> Collection[str]:
        """What the rules are called, in their order."""
        return dict.fromkeys(
            state.rule.name for injector in self._injectors for state in injector.states
        )

    def listing(self) -> list[dict[str, Any]]:
        """Every rule, with how often it matched and fired at each function."""
        rules: dict[str, dict[str, Any]] = {}
        for injector in self._injectors:
            for state in injector.states:
                told = rules.setdefault(
                    state.rule.name,
                    {"name": state.rule.name, "rule": state.rule.to_table(), "counts": []},
                )
                told["counts"].append(injector.told(state))
        return list(rules.values())

    def _note(self, fired: Fired) -> None:
        if self._record is not None:
            self._record.write(fired.to_line())
        if self._on_fired is not None and not fired.without_effect:
            self._on_fired(fired)

    def _tell(self, change: Mapping[str, Any]) -> None:
        """Record that a rule was added or removed, and how many commands each function had run."""
        if self._record is not None:
            commands = [injector.function.commands for injector in self._injectors]
            self._record.write(record.line({**change, "commands": commands}))


def _versions() -> dict[str, str]:
    return {
        "mlx5emu": version(),
        "python": platform.python_version(),
        "pydantic": pydantic.VERSION,
    }
