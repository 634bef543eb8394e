"""The fault points of BAR 0: registers that the driver reads and writes."""

from __future__ import annotations

from emu.device.faults.event import Event, EventField, RuleInjector
from emu.device.faults.parameters import DATA, of_bits, set_of
from emu.device.faults.registry import action, point
from emu.device.faults.rule import Rule
from emu.device.function.function import MMIO_READ_POINT, MMIO_WRITE_POINT
from emu.device.ports import Buffer

_FIELDS = (
    EventField("offset", int),
    EventField("length", int),
    EventField("register", str, is_recorded=True),
)


class _Access:
    """The fields of an access to BAR 0."""

    __slots__ = ()
    data: Buffer
    offset: int
    uar_end: int

    @property
    def length(self) -> int:
        """Size of the access in bytes."""
        return len(self.data)

    @property
    def register(self) -> str:
        """Name of the register in traces, empty if it has none."""
        from emu.device.trace.mmio import (
            describe,  # imported late: it builds a table of all registers
        )

        return str(describe(self.offset, self.data, self.uar_end).get("register", ""))


@point(
    MMIO_READ_POINT, "the driver reads BAR 0; `register` is the register's name in traces",
    *_FIELDS,
)  # fmt: skip
class RegisterRead(_Access, Event[bytes]):
    """A read; its result can be changed."""

    __slots__ = ("data", "offset", "uar_end")

    def __init__(self, faults: RuleInjector, offset: int, data: bytes) -> None:
        super().__init__(faults)
        self.offset = offset
        self.uar_end = faults.function.model.uar_end
        self.data = data

    def go_on(self) -> bytes:
        """Return the register's bytes."""
        return bytes(self.data)

    @action("the driver reads the value in set", needs=[set_of(value=of_bits(64))])
    def corrupt(self, rule: Rule) -> bytes:
        """Return the rule's ``value`` (0 by default), cut to the size of the access."""
        size = len(self.data)
        value: int = rule["set"].get("value", 0)
        return (value & (1 << 8 * size) - 1).to_bytes(size, "big")

    @action("data replaces the first bytes", needs=[DATA])
    def replace(self, rule: Rule) -> bytes:
        """Return the rule's bytes, and behind them the register's own, cut to the access."""
        return (bytes.fromhex(rule["data"]) + bytes(self.data))[: len(self.data)]


@point(MMIO_WRITE_POINT, "the driver writes BAR 0", *_FIELDS)
class RegisterWritten(_Access, Event[bool]):
    """A write; its result is whether it takes effect."""

    __slots__ = ("data", "offset", "uar_end")

    def __init__(self, faults: RuleInjector, offset: int, data: Buffer) -> None:
        super().__init__(faults)
        self.offset = offset
        self.uar_end = faults.function.model.uar_end
        self.data = data

    def go_on(self) -> bool:
        """Let the write take effect."""
        return True

    @action("the write is lost")
    def drop(self, _rule: Rule) -> bool:
        """Ignore the write."""
        return False
