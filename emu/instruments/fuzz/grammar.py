"""Lists the data that a rule can change: outputs, events, completions, registers.

The targets follow from the declared structures. Each number is one: in the output of each firmware
command, in each capability page, register, event and completion, and in the initialization segment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from emu.device.cmdif.registry import Command
from emu.device.faults.enum_names import name_of
from emu.device.trace.decode import event_layout
from layouts.enums.cqe import CqeOpcode
from layouts.enums.eqe import EventType
from layouts.enums.regs import RegId
from layouts.fields import Nested, Number
from layouts.function.iseg import init_seg
from layouts.prm import Prm
from layouts.rings.cqe import cqe64

_GROUPS = range(0, 256)
"""Values of op_mod that may select a capability page: group, and current or maximum."""
_SUB_TYPES = range(3)
_BYTE_BITS = 8
_WORD_BYTES = 4


@dataclass(frozen=True, slots=True)
class Leaf:
    """A number in a structure: dotted name, width and offset in bits."""

    name: str
    width: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class FaultTarget:
    """Events of one kind, and the numbers that they carry."""

    family: str
    point: str
    match: tuple[tuple[str, Any], ...]
    leaves: tuple[Leaf, ...]

    @property
    def key(self) -> str:
        """The target's name in counts."""
        return key_of(self.point, dict(self.match))


def key_of(point: str, match: Mapping[str, Any]) -> str:
    """Return the name in counts of a rule's events, independent of the rule's author.

    If a field may have several values, the first one counts.
    """
    words = (f"{name}={_first(match[name])}" for name in _KEY_FIELDS if name in match)
    return " ".join([point, *words])


def _first(value: object) -> Any:
    return value[0] if isinstance(value, list) and value else value


_KEY_FIELDS = ("op", "op_mod", "register_id", "type", "opcode", "offset")


def leaves(prm: type[Prm], prefix: str = "", start: int = 0) -> Iterator[Leaf]:
    """Yield the numbers of a structure and of nested ones; skip arrays and byte fields.

    Names are dotted; offsets are in bits from the outer structure's start.
    """
    for field in prm.fields:
        name, offset = prefix + field.name, start + field.offset
        if isinstance(field.kind, Nested):
            yield from leaves(field.kind.prm, f"{name}.", offset)
        elif isinstance(field.kind, Number):
            yield Leaf(name, field.width, offset)


def targets(commands: Mapping[int, Command]) -> tuple[FaultTarget, ...]:
    """Return all targets: outputs, capability pages, registers, events, completions, reads.

    The order is always the same.
    """
    return (
        *_outputs(commands),
        *_events(),
        *_completions(),
        *_register_reads(),
    )


def _outputs(commands: Mapping[int, Command]) -> Iterator[FaultTarget]:
    for _, command in sorted(commands.items()):
        match = (("op", name_of(command.op)),)
        yield FaultTarget("output", "cmd.done", match, tuple(leaves(command.layout_out)))
        if command.opened is not None:
            yield from _opened(command)


def _opened(command: Command) -> Iterator[FaultTarget]:
    """Yield a target for each capability page or register that ``command`` can return.

    None are yielded for a command without such a field, and for numbers without a known structure.
    """
    opened = command.opened
    if opened is None or opened.field not in {one.name for one in command.layout_out.fields}:
        return
    is_register = any(one.name == "register_id" for one in command.layout_in.fields)
    name, numbers = ("register_id", list(RegId)) if is_register else ("op_mod", list(_GROUPS))
    for number in numbers:
        layout = opened.layout(command.layout_in.new(**{name: int(number)}))
        if layout is not None:
            family = "register" if is_register else "capability"
            match = (("op", name_of(command.op)), (name, int(number)))
            yield FaultTarget(family, "cmd.done", match, tuple(leaves(layout, f"{opened.field}.")))


def _events() -> Iterator[FaultTarget]:
    for kind in EventType:
        event_targets = dict.fromkeys(
            leaf
            for sub_type in _SUB_TYPES
            if (layout := event_layout(kind, sub_type)) is not None
            for leaf in leaves(layout, "data.")
        )
        yield FaultTarget("event", "eqe", (("type", name_of(kind)),), tuple(event_targets))


def _completions() -> Iterator[FaultTarget]:
    for opcode in CqeOpcode:
        yield FaultTarget("completion", "cqe", (("opcode", name_of(opcode)),), tuple(leaves(cqe64)))


def _register_reads() -> Iterator[FaultTarget]:
    """Yield a target for each word of the initialization segment that has a field."""
    words = dict.fromkeys(
        leaf.offset // (_BYTE_BITS * _WORD_BYTES) * _WORD_BYTES for leaf in leaves(init_seg)
    )
    for offset in words:
        leaf = Leaf("value", _BYTE_BITS * _WORD_BYTES)
        yield FaultTarget("read", "mmio.read", (("offset", offset),), (leaf,))


SEGMENT = tuple(leaves(init_seg))
"""Fields of the initialization segment, for rules that change them permanently."""
