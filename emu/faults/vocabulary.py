"""The words of a plan: where a fault can strike, what can happen, and which goes with which."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Point(StrEnum):
    """What the device passes, as events, to the rules."""

    LOAD = "load"
    POWER_ON = "power_on"
    CMD = "cmd"
    CMD_DONE = "cmd.done"
    CMD_COMPLETION = "cmd.completion"
    WQE = "wqe"
    CQE = "cqe"
    EQE = "eqe"
    IRQ = "irq"
    PAGE_FAULT = "page_fault"
    PAGE_FAULT_RESUME = "page_fault.resume"
    DOORBELL = "doorbell"
    MMIO_READ = "mmio.read"
    MMIO_WRITE = "mmio.write"
    DMA_READ = "dma.read"
    DMA_WRITE = "dma.write"
    PKT_TX = "pkt.tx"
    PKT_RX = "pkt.rx"


POINT_FIELDS: Mapping[Point, tuple[str, ...]] = {
    Point.LOAD: (),
    Point.POWER_ON: ("cause",),
    Point.CMD: ("op", "op_mod", "slot"),
    Point.CMD_DONE: ("op", "op_mod", "slot", "status"),
    Point.CMD_COMPLETION: ("op", "op_mod", "slot"),
    Point.WQE: ("opcode", "qpn", "service", "index"),
    Point.CQE: ("opcode", "qpn", "cqn", "wqe_counter", "wqe_opcode", "byte_cnt", "service"),
    Point.EQE: ("type", "sub_type", "eqn"),
    Point.IRQ: ("vector",),
    Point.PAGE_FAULT: ("kind", "side", "qpn", "key", "length"),
    Point.PAGE_FAULT_RESUME: ("kind", "side", "qpn", "key", "length", "error"),
    Point.DOORBELL: ("kind", "number"),
    Point.MMIO_READ: ("offset", "length", "register"),
    Point.MMIO_WRITE: ("offset", "length", "register"),
    Point.DMA_READ: ("address", "length"),
    Point.DMA_WRITE: ("address", "length"),
    Point.PKT_TX: ("kind", "service", "qpn", "psn", "dlid", "slid", "length"),
    Point.PKT_RX: ("kind", "service", "qpn", "psn", "dlid", "slid", "length"),
}
"""What a rule can match beside fields of declared structures: the input of a command, the data of
an event (after ``data.``), the whole of a completion (after ``cqe.``)."""

OPEN_POINTS = frozenset({Point.CMD, Point.CMD_DONE, Point.CMD_COMPLETION, Point.EQE, Point.CQE})
"""Points whose events also have the fields of a declared structure."""


class Action(StrEnum):
    """What happens when a rule fires."""

    FAIL = "fail"
    DROP = "drop"
    DELAY = "delay"
    DUPLICATE = "duplicate"
    REORDER = "reorder"
    CORRUPT = "corrupt"
    REPLACE = "replace"
    RNR = "rnr"
    HEALTH = "health"
    REGISTERS = "registers"
    LINK = "link"
    GONE = "gone"
    RESTART = "restart"
    EVENT = "event"
    INTERRUPT = "interrupt"
    PAGES = "pages"
    CAPABILITIES = "capabilities"
    AER = "aer"


_PACKETS = (Point.PKT_TX, Point.PKT_RX)
_PAGE_FAULTS = (Point.PAGE_FAULT, Point.PAGE_FAULT_RESUME)
_LOSABLE = (
    Point.CMD, Point.CMD_DONE, Point.CMD_COMPLETION, Point.CQE, Point.EQE, Point.IRQ,
    Point.DOORBELL, *_PAGE_FAULTS, *_PACKETS,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Meaning:
    """Where an action is possible, and the parameters that it needs and takes."""

    points: tuple[Point, ...]
    needs: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()
    about: str = ""


_ANYWHERE = tuple(Point)

MEANINGS: Mapping[Action, Meaning] = {
    Action.FAIL: Meaning(
        (
            Point.CMD, Point.CMD_DONE, Point.WQE, Point.CQE, *_PAGE_FAULTS, Point.DMA_READ,
            Point.DMA_WRITE,
        ),
        takes=("status", "syndrome", "delivery", "vendor"),
        about="a command gets status and syndrome, or a delivery status; a work request or a"
        " completion gets an error syndrome and its queue pair stops; a DMA access is refused;"
        " a page fault fails untold, its resume gets the status",
    ),
    Action.DROP: Meaning((*_LOSABLE, Point.MMIO_WRITE), about="it is lost; a command is never"
                         " answered, at cmd without having run, at cmd.done after it; a resume is"
                         " answered, but nothing goes on"),
    Action.DELAY: Meaning(_LOSABLE, needs=("ms",), about="it comes so much later"),
    Action.DUPLICATE: Meaning(
        (
            Point.CMD_COMPLETION, Point.CQE, Point.EQE, Point.IRQ, Point.PAGE_FAULT,
            Point.DOORBELL, *_PACKETS,
        ),
        takes=("count",),
        about="it comes again, count times (1)",
    ),
    Action.REORDER: Meaning(
        (Point.EQE, *_PACKETS), about="it comes after the next one of the point"
    ),
    Action.CORRUPT: Meaning(
        (
            Point.CMD, Point.CMD_DONE, Point.EQE, Point.CQE, *_PAGE_FAULTS, Point.MMIO_READ,
            *_PACKETS,
        ),
        needs=("set",),
        about="fields get the values in set: those of the command's input (cmd) or output"
        " (cmd.done), the event's data, the completion; value of a register read; payload and psn"
        " of a packet; token of a page fault, error of its resume",
    ),
    Action.REPLACE: Meaning(
        (Point.CMD_DONE, Point.EQE, Point.CQE, Point.MMIO_READ),
        needs=("data",),
        about="its bytes are replaced by data, from the front",
    ),
    Action.RNR: Meaning(
        (Point.PKT_RX,), takes=("timer",), about="a request is answered: receiver not ready"
    ),
    Action.HEALTH: Meaning(
        _ANYWHERE,
        takes=("syndrome", "fatal", "severity", "stalled", "ms"),
        about="the health buffer shows a syndrome, with fatal a request for reset; with stalled"
        " the health counter stands still",
    ),
    Action.REGISTERS: Meaning(
        _ANYWHERE, needs=("set",), takes=("ms",),
        about="fields of the initialization segment get the values in set",
    ),
    Action.LINK: Meaning(
        _ANYWHERE, takes=("up", "ms"), about="the link goes down (or up), for ms or for good"
    ),
    Action.GONE: Meaning(
        _ANYWHERE, takes=("ms",),
        about="the function is off the bus: all reads are ones, writes and doorbells are lost",
    ),
    Action.RESTART: Meaning(
        _ANYWHERE, takes=("ms",),
        about="the firmware starts anew, after ms: nothing is left but configuration space, and the"
        " interface is disabled until the driver comes",
    ),
    Action.EVENT: Meaning(
        _ANYWHERE, needs=("event",), takes=("sub_type", "set", "data", "count"),
        about="an event that nothing has caused: its type, and its data by set or data",
    ),
    Action.INTERRUPT: Meaning(
        _ANYWHERE, needs=("vector",), takes=("count",), about="a spurious interrupt"
    ),
    Action.PAGES: Meaning(
        _ANYWHERE, needs=("count",), takes=("starve",),
        about="the firmware asks for count pages (negative: gives back); with starve no object is"
        " created until the driver has given them",
    ),
    Action.CAPABILITIES: Meaning(
        (Point.LOAD, Point.POWER_ON), needs=("set",),
        about="capabilities are lowered to the values in set; the driver reads them as it loads",
    ),
    Action.AER: Meaning(
        _ANYWHERE, needs=("error",),
        about="an error is recorded in the advanced error reporting capability; QEMU passes no"
        " message of it on to the guest",
    ),
}  # fmt: skip

EFFECTS = frozenset(
    {
        Action.HEALTH, Action.REGISTERS, Action.LINK, Action.GONE, Action.RESTART, Action.EVENT,
        Action.INTERRUPT, Action.PAGES, Action.CAPABILITIES, Action.AER,
    }
)  # fmt: skip
"""Actions on the device as a whole: the event that set them off goes on."""

PARAMETERS = frozenset(
    name for meaning in MEANINGS.values() for name in (*meaning.needs, *meaning.takes)
)
