"""The interface of all trace points of a function, and the containment of its tracer's
exceptions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Protocol

from emu.device.cmdif.interface import CommandTracer
from emu.device.state.observers import ObserverErrors
from emu.device.state.tracer import DeviceTracer
from layouts.enums.cmd import Status, op_name

if TYPE_CHECKING:
    from emu.device.cmdif.mailbox import DeliveryError
    from emu.device.cmdif.registry import Command
    from emu.device.cmdif.request import CommandRequest
    from emu.device.errors import CmdError
    from emu.device.objects.eth.sq import Sq
    from emu.device.objects.memory.mkey import Mkey
    from emu.device.objects.queues.page_fault import PageFault
    from emu.device.objects.queues.qp import Qp
    from emu.device.objects.queues.send_queue import Wqe
    from emu.device.objects.table import Table
    from emu.device.ports import Buffer
    from emu.device.state.hca import Hca
    from layouts.cmd import cmd_layout
    from layouts.enums.eqe import EventType


class Tracer(DeviceTracer, CommandTracer, Protocol):
    """Receives all trace points of a function; ``emu.device.trace.recorder`` implements it."""

    def undecoded(self, point: str, known: Mapping[str, object], raw: Buffer) -> None:
        """Record an undecodable trace point: ``known`` are fields of its event, ``raw`` its bytes.

        ``point`` is its name in a trace (``emu.device.trace.event``).
        """


class ContainedTracer:
    """Implements :class:`Tracer` over another tracer and keeps its exceptions from the device.

    An event lost by an exception is recorded by :meth:`Tracer.undecoded`.
    """

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._errors = ObserverErrors("trace")

    def __bool__(self) -> bool:
        return bool(self._tracer)

    def power_on(self, model: str, uar_end: int) -> None:
        """Forward a function's power-on; an exception of the tracer is logged, not raised."""
        try:
            self._tracer.power_on(model, uar_end)
        except Exception:
            self._failed("reset", {"model": model})

    def mmio(self, kind: str, offset: int, data: Buffer) -> None:
        """Forward a BAR 0 access; if the tracer raises, record the event as undecoded."""
        try:
            self._tracer.mmio(kind, offset, data)
        except Exception:
            self._failed("mmio", {"access": kind, "offset": offset, "length": len(data)}, data)

    def eqe(self, eqn: int, event: EventType, sub_type: int, data: Buffer) -> None:
        """Forward an event queue entry; if the tracer raises, record the event as undecoded."""
        try:
            self._tracer.eqe(eqn, event, sub_type, data)
        except Exception:
            known = {"eqn": eqn, "type": event.name, "sub_type": sub_type}
            self._failed("eqe", known, data)

    def irq(self, vector: int, eqn: int) -> None:
        """Forward an interrupt; if the tracer raises, record the event as undecoded."""
        try:
            self._tracer.irq(vector, eqn)
        except Exception:
            self._failed("irq", {"vector": vector, "eqn": eqn})

    def wqe(self, mkeys: Table[Mkey], queue: Qp | Sq, wqe: Wqe) -> None:
        """Forward a work request; if the tracer raises, record the event as undecoded."""
        try:
            self._tracer.wqe(mkeys, queue, wqe)
        except Exception:
            known = {"qpn": queue.handle, "index": wqe.index, "opcode": wqe.opcode, "ds": wqe.ds}
            self._failed("wqe", known, wqe.buf)

    def cqe(self, cqn: int, entry: bytes, op_own: int) -> None:
        """Forward a completion queue entry; if the tracer raises, record the event as undecoded."""
        try:
            self._tracer.cqe(cqn, entry, op_own)
        except Exception:
            self._failed("cqe", {"cqn": cqn}, entry + bytes((op_own & 0xFF,)))

    def nak(self, qpn: int, check: str, why: str) -> None:
        """Forward a refused request; if the tracer raises, record the event as undecoded."""
        try:
            self._tracer.nak(qpn, check, why)
        except Exception:
            self._failed("nak", {"qpn": qpn, "check": check})

    def page_fault(self, fault: PageFault, outcome: str, took_ns: int) -> None:
        """Forward the end of a page fault; if the tracer raises, record the event as undecoded."""
        try:
            self._tracer.page_fault(fault, outcome, took_ns)
        except Exception:
            self._failed("fault", {"token": fault.token, "outcome": outcome})

    def on_command(
        self, hca: Hca, request: CommandRequest, command: Command | None
    ) -> Callable[[CmdError | None], None]:
        """Forward the start of a command; return the function to call at its end, with its refusal.

        If the tracer raises, now or at the end, the command is recorded as undecoded at its end.
        """
        try:
            done = self._tracer.on_command(hca, request, command)
        except Exception:
            self._errors.note("cmd")
            return partial(self._undecoded_command, request)
        return partial(self._command_done, request, done)

    def _command_done(
        self,
        request: CommandRequest,
        done: Callable[[CmdError | None], None],
        error: CmdError | None,
    ) -> None:
        """Forward the end of a command; if the tracer raises, record the command as undecoded."""
        try:
            done(error)
        except Exception:
            self._errors.note("cmd")
            self._undecoded_command(request, error)

    def _undecoded_command(self, request: CommandRequest, error: CmdError | None) -> None:
        """Record a command by its raw input, opcode and status."""
        status = error.status if error is not None else Status.OK
        known = _named(request.slot, request.opcode) | {"status": status.name}
        self._undecoded("cmd", known, request.data)

    def undelivered(self, slot: int, entry: cmd_layout, error: DeliveryError) -> None:
        """Forward a command that was not accepted; if the tracer raises, record it as undecoded."""
        try:
            self._tracer.undelivered(slot, entry, error)
        except Exception:
            inline: bytes = getattr(entry, "in")
            known = _named(slot, int.from_bytes(inline[:2], "big"))
            self._failed("cmd", known | {"delivery": error.status.name}, inline)

    def undecoded(self, point: str, known: Mapping[str, object], raw: Buffer) -> None:
        """Forward an undecodable event."""
        self._undecoded(point, known, raw)

    def summary(self) -> Iterator[str]:
        """Yield the tracer's lines, and the number of exceptions of the tracer, if any.

        An exception of its summary leaves out lines and is counted too.
        """
        lines: list[str] = []
        try:
            lines += self._tracer.summary()
        except Exception:
            self._errors.note("summary")
        yield from lines
        if count := self._errors.count:
            yield f"{count} events could not be decoded"

    def _failed(self, point: str, known: Mapping[str, object], raw: Buffer = b"") -> None:
        """Count the current exception, log the first one at a point, record the raw event."""
        self._errors.note(point)
        self._undecoded(point, known, raw)

    def _undecoded(self, point: str, known: Mapping[str, object], raw: Buffer) -> None:
        """Record an event by its raw bytes; an exception of the tracer is counted, not raised."""
        try:
            self._tracer.undecoded(point, known, raw)
        except Exception:
            self._errors.note(f"{point}, undecoded")


def _named(slot: int, opcode: int) -> dict[str, object]:
    return {"slot": slot, "op": op_name(opcode), "opcode": opcode}
