"""Commands, registers and capability groups that drivers used without an implementation here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from layouts.enums.caps import CapType
from layouts.enums.cmd import op_name
from layouts.enums.regs import RegId


@dataclass(slots=True)
class Unhandled:
    """Number of uses of each item, over a whole run, across resets."""

    commands: Counter[int] = field(default_factory=Counter)
    registers: Counter[int] = field(default_factory=Counter)
    cap_groups: Counter[int] = field(default_factory=Counter)

    def lines(self) -> Iterator[str]:
        """Yield a line with name, number and uses for each command, register and capability group.

        No line is yielded when drivers used none.
        """
        for opcode, count in sorted(self.commands.items()):
            yield f"command {op_name(opcode)} ({opcode:#x}), {count} times"
        for register, count in sorted(self.registers.items()):
            yield f"register {_named(RegId, register)} ({register:#x}), {count} times"
        for group, count in sorted(self.cap_groups.items()):
            yield f"capability group {_named(CapType, group)} ({group:#x}), {count} times"


def _named(enum: type[RegId] | type[CapType], number: int) -> str:
    return enum(number).name if number in enum._value2member_map_ else "unknown"
