"""Effects on the simulated subnet that a function is connected to (--subnet)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Protocol, runtime_checkable

from pydantic import Field, StrictStr

from emu.device.faults.effects import Effects, Ending, Lasting
from emu.device.faults.event import NoEffectError
from emu.device.faults.parameters import COUNT, MS, repetitions
from emu.device.faults.registry import Parameter, Problem, effect
from emu.device.faults.rule import Rule
from emu.device.port.ib.link_errors import LinkError

_MAX_NAME = 256
_MAX_PORT = 254

_NODE = Parameter("node", Annotated[StrictStr, Field(min_length=1, max_length=_MAX_NAME)])
_PORT = Parameter("port", Annotated[int, Field(strict=True, ge=1, le=_MAX_PORT)])
_KINDS = tuple(error.value for error in LinkError)


def _check_kind(value: object, _rule: Mapping[str, object]) -> Iterator[Problem]:
    """Yield a mistake for an unknown kind of link errors."""
    if value not in _KINDS:
        yield "kind", f"no errors {value!r} of a link; there are {', '.join(_KINDS)}"


_KIND = Parameter("kind", StrictStr, _check_kind)


@runtime_checkable
class SubnetWire(Protocol):
    """A function's wire that leads into a simulated subnet."""

    def cut_cable(self, node: str, port: int, *, is_cut: bool) -> bool:
        """Cut or mend a cable; return False when it is in that state already.

        Raises NoEffectError if the port has no cable.
        """

    def fail_link(self, node: str, port: int, error: LinkError, count: int) -> None:
        """Count errors at a port. Raises NoEffectError when it has no link."""


def _wire(effects: Effects) -> SubnetWire:
    """Return the function's wire. Raises NoEffectError if it leads into no simulated subnet."""
    wire = effects.faults.function.wire
    if not isinstance(wire, SubnetWire):
        raise NoEffectError("the function is not connected to a simulated subnet (--subnet)")
    return wire


@effect(
    "the cable at a port of a node of a simulated subnet is cut, for ms or permanently",
    needs=[_NODE, _PORT], takes=[MS],
)  # fmt: skip
def cable(effects: Effects, rule: Rule) -> Ending:
    """Cut a cable of the subnet; return the ending, which mends it and survives resets.

    Raises NoEffectError without a simulated subnet or cable, and for a cable that is cut already.
    """
    wire, node, port = _wire(effects), rule["node"], rule["port"]
    if not wire.cut_cable(node, port, is_cut=True):
        raise NoEffectError(f"the cable at port {port} of {node!r} is cut already")
    return Lasting(lambda: wire.cut_cable(node, port, is_cut=False))


@effect(
    "a port of a simulated subnet has count errors (default 1): symbols, overrun or watchdog;"
    " above its PortInfo threshold, the subnet manager is notified",
    needs=[_NODE, _PORT, _KIND], takes=[COUNT],
)  # fmt: skip
def port_errors(effects: Effects, rule: Rule) -> None:
    """Count ``count`` errors (1 by default) of a kind at a port of the subnet.

    The port may report them to the subnet manager. Raises NoEffectError without a simulated subnet
    or link, and for no errors.
    """
    if not (count := repetitions(rule)):
        raise NoEffectError("count allows no errors")
    _wire(effects).fail_link(rule["node"], rule["port"], LinkError(rule["kind"]), count)
