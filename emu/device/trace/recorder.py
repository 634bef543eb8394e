"""The recording tracer: decodes trace points into events and passes them to a sink."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from emu.device.errors import CmdError
from emu.device.objects.queues.qp import Qp
from emu.device.rounds.costs import STEPS_PER_EVENT
from emu.device.trace import decode, mmio, work
from emu.device.trace.event import UNDECODED, TraceEvent, TracePoint
from emu.device.trace.text import TextForm
from layouts.enums.cmd import Status, op_name
from layouts.enums.eqe import EventType, PageFaultSubtype, PortChange
from layouts.enums.qp import QpType

if TYPE_CHECKING:
    from emu.device.cmdif.mailbox import DeliveryError
    from emu.device.cmdif.registry import Command
    from emu.device.cmdif.request import CommandRequest
    from emu.device.objects.eth.sq import Sq
    from emu.device.objects.memory.mkey import Mkey
    from emu.device.objects.queues.page_fault import PageFault
    from emu.device.objects.queues.send_queue import Wqe
    from emu.device.objects.table import Table
    from emu.device.ports import Buffer, Clock
    from emu.device.state.hca import Hca

log = logging.getLogger(__name__)


_SUB_TYPES = {EventType.PORT_CHANGE: PortChange, EventType.PAGE_FAULT: PageFaultSubtype}


class Sink(Protocol):
    """Receives events."""

    @property
    def is_open(self) -> bool:
        """Whether more events are accepted."""

    def write(self, event: TraceEvent) -> None:
        """Store an event. Never raises: the trace must not disturb the device."""


class EventList(list[TraceEvent]):
    """A sink in memory, for tests; ``str`` gives the text form."""

    is_open = True

    def write(self, event: TraceEvent) -> None:
        """Append an event."""
        self.append(event)

    def of(self, point: TracePoint) -> list[TraceEvent]:
        """Return the events of one point."""
        return [event for event in self if event.point == point]

    def __str__(self) -> str:
        return "\n".join(map(TextForm(), self))


class TextStream(Protocol):
    """The output stream of a :class:`LineSink`."""

    def write(self, text: str, /) -> object:
        """Write whole lines, without buffering more than one call. Raises OSError."""


class LineSink:
    """Writes a line for each event to a stream that may fail.

    The first failure (a full disk, a closed reader) ends the trace and is logged; the device
    continues.
    """

    def __init__(self, stream: TextStream, form: Callable[[TraceEvent], str]) -> None:
        self.is_open = True
        self.ended_by: OSError | None = None
        """The error that ended the trace; None while it is open."""
        self._stream = stream
        self._form = form

    def write(self, event: TraceEvent) -> None:
        """Write the event's line, unless the stream has failed before.

        The first OSError closes the sink, is kept in ``ended_by`` and logged; nothing is raised.
        """
        if not self.is_open:
            return
        try:
            self._stream.write(self._form(event) + "\n")
        except OSError as error:
            self.is_open = False
            self.ended_by = error
            log.warning("the trace ends here, the device continues: %s", error)


class Recorder:
    """Implements :class:`emu.device.function.tracer.Tracer` for one function.

    A recorder is false once its sink is closed, so that trace points cost almost nothing from then
    on.
    """

    def __init__(
        self, sink: Sink, clock: Clock, function: int = 0, guest: str = "", vf: str = ""
    ) -> None:
        """Record on ``clock``, the function's own; ``function`` is its index in a run.

        ``guest`` is the name of the guest that the function belongs to, if any; ``vf`` the name of
        a virtual function, as in ``0.vf1``.
        """
        self._sink = sink
        self._clock = clock
        self._function = function
        self._names = {key: name for key, name in (("guest", guest), ("vf", vf)) if name}
        self._uar_end = 0
        self.requests: Counter[str] = Counter()
        """Number of work requests of each kind."""

    def __bool__(self) -> bool:
        return self._sink.is_open

    def _record(self, point: TracePoint, fields: dict[str, Any]) -> None:
        self._clock.budget.charge(STEPS_PER_EVENT)
        self._sink.write(TraceEvent(self._clock.now_ns(), self._function, point, fields))

    def power_on(self, model: str, uar_end: int) -> None:
        """Record the function's power-on state, at the start or after a reset."""
        self._uar_end = uar_end
        self._record(TracePoint.RESET, {"model": model} | self._names)

    def mmio(self, kind: str, offset: int, data: Buffer) -> None:
        """Record a BAR 0 access, with the register's name."""
        access = {"access": kind, "offset": offset, "length": len(data)}
        self._record(TracePoint.MMIO, access | mmio.describe(offset, data, self._uar_end))

    def on_command(
        self, hca: Hca, request: CommandRequest, command: Command | None
    ) -> Callable[[CmdError | None], None]:
        """Decode a command's input; return the call that records the command when it has run.

        The call takes the refusal, or None for success, and adds output or reason, and the
        duration.
        """
        # The handler may change state that is needed to decode the input, so decode that first.
        given = _input(hca, request, command)
        return partial(self._command_done, request, command, given, self._clock.now_ns())

    def _command_done(
        self,
        request: CommandRequest,
        command: Command | None,
        given: dict[str, Any],
        started_ns: int,
        error: CmdError | None,
    ) -> None:
        """Record a command that has run, with its output, or syndrome and reason of its refusal."""
        took_ns = self._clock.now_ns() - started_ns
        fields = _named(request.slot, request.opcode)
        fields["status"] = (error.status if error else Status.OK).name
        fields["duration_us"] = round(took_ns / 1000, 1)
        fields["in"] = given
        if error:
            fields |= {
                "syndrome": error.syndrome, "reason": error.reason, "detail": error.detail,
            }  # fmt: skip
        elif command:
            inner = _inner(command, request)
            fields["out"] = decode.structure(command.layout_out, request.out, inner)
        self._record(TracePoint.CMD, fields)

    def undelivered(self, slot: int, entry: object, error: DeliveryError) -> None:
        """Record a command that was not delivered: delivery status, reason, inline bytes."""
        inline = getattr(entry, "in")
        fields = _named(slot, int.from_bytes(inline[:2], "big"))
        fields |= {"delivery": error.status.name, "reason": str(error)}
        fields["in"] = decode.unknown(inline)
        self._record(TracePoint.CMD, fields)

    def eqe(self, eqn: int, event: EventType, sub_type: int, data: Buffer) -> None:
        """Record an EQE, its data decoded by event type and sub-type."""
        fields: dict[str, Any] = {"eqn": eqn, "type": event.name}
        if event in _SUB_TYPES:
            names = {member.value: member.name for member in _SUB_TYPES[event]}
            fields["sub_type"] = names.get(sub_type, sub_type)
        elif sub_type:
            fields["sub_type"] = sub_type
        fields["data"] = decode.event_data(event, sub_type, data)
        self._record(TracePoint.EQE, fields)

    def irq(self, vector: int, eqn: int) -> None:
        """Record an interrupt."""
        self._record(TracePoint.IRQ, {"vector": vector, "eqn": eqn})

    def wqe(self, mkeys: Table[Mkey], queue: Qp | Sq, wqe: Wqe) -> None:
        """Record a work request, decoded by its opcode and transport service; count it by kind."""
        key = mkeys.get(wqe.imm >> 8)
        mode = key.mode if key is not None else None
        if isinstance(queue, Qp):
            st: QpType | None = queue.st
        else:
            st = QpType.UD if queue.is_ipoib else None
        shown = work.request(wqe, st, mode, is_ipoib=queue.is_ipoib)
        self.requests[shown["op"]] += 1
        self._record(TracePoint.WQE, {"qpn": queue.handle} | shown)

    def undecoded(self, point: str, known: Mapping[str, object], raw: Buffer) -> None:
        """Record an undecodable event: the ``known`` fields, an error, the first bytes."""
        fields = {**known, "error": UNDECODED, "raw": decode.raw(raw)}
        self._record(TracePoint(point), fields)

    def summary(self) -> Iterator[str]:
        """Yield one line for each kind of work request, for the end of a run."""
        for kind, count in sorted(self.requests.items()):
            yield f"{count} work requests {kind}"

    def cqe(self, cqn: int, entry: bytes, op_own: int) -> None:
        """Record a CQE, decoded by its opcode."""
        self._record(TracePoint.CQE, {"cqn": cqn} | decode.completion(entry + bytes((op_own,))))

    def nak(self, qpn: int, check: str, why: str) -> None:
        """Record a refused request, with the check that has refused it and the reason."""
        self._record(TracePoint.NAK, {"qpn": qpn, "check": check, "reason": why})

    def page_fault(self, fault: PageFault, outcome: str, took_ns: int) -> None:
        """Record a page fault at its end, with outcome, duration and the absent page."""
        fields = {
            "token": fault.token, "qpn": fault.qp.handle, "side": fault.side.value,
            "kind": fault.access.kind.name, "outcome": outcome,
            "duration_us": round(took_ns / 1000, 1), "key": fault.page.key, "va": fault.page.va,
            "length": fault.page.length,
        }  # fmt: skip
        self._record(TracePoint.FAULT, fields)


def _named(slot: int, opcode: int) -> dict[str, Any]:
    return {"slot": slot, "op": op_name(opcode), "opcode": opcode}


def _input(hca: Hca, request: CommandRequest, command: Command | None) -> dict[str, Any]:
    """Return the fields of a command's input; its bytes for an unknown command."""
    if command is None:
        return decode.unknown(request.data)
    inner = _inner(command, request, hca)
    return decode.structure(command.layout_in, request.data, inner)


def _inner(
    command: Command, request: CommandRequest, hca: Hca | None = None
) -> decode.Inner | None:
    """Return the structure in the command's open field; None if its other fields determine none.

    With ``hca``, the field's present contents are included, to show only what a write changes.
    """
    opened = command.opened
    if opened is None or len(request.data) < command.layout_in.size:
        return None
    cmd = command.layout_in.view(request.data)
    layout = opened.layout(cmd)
    if layout is None:
        return None
    before = opened.current(hca, cmd) if hca is not None and opened.current else None
    return decode.Inner(opened.field, layout, before)
