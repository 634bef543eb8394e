"""What can still be reached: a walk along references, as Python's collector follows them.

A function that was reset or torn down, and an object that was destroyed, must not be reachable from
anything that goes on: the clock, the wire, the loop, other functions, fault rules, the tracer.
"""

from __future__ import annotations

import functools
import gc
import logging
import struct
import types
from array import array
from collections import deque

from emu.device.engine.rc.packets.connection import PacketConnection
from emu.device.objects.object import Object
from emu.device.objects.queues.cq import Moderation
from emu.device.objects.queues.message import Message
from emu.device.objects.queues.page_fault import PageFault
from emu.device.objects.queues.qp import Qp
from emu.device.objects.queues.receive_queue import RecvQueue, RecvWqe
from emu.device.objects.queues.send_queue import SendRing

STATE = (
    Object, PageFault, Message, RecvWqe, RecvQueue, SendRing, Moderation, PacketConnection,
)  # fmt: skip
"""What belongs to one function between two resets."""

_APART = (
    type, types.ModuleType, types.BuiltinFunctionType, logging.Logger,
    str, bytes, bytearray, memoryview, int, float, array, struct.Struct, type(None),
)  # fmt: skip
"""What leads to all of the program, or nowhere."""


def referents(item):
    """What an object refers to, without the program itself."""
    if isinstance(item, types.FunctionType):
        return [item.__closure__, item.__defaults__, item.__kwdefaults__]
    return gc.get_referents(item)


def walk(roots, barriers=()):
    """All that the roots lead to, with where it was found first: {id: (item, id of the finder)}."""
    stop = {id(one) for one in barriers}
    found = {id(root): (root, None) for root in roots}
    leads = {}  # by type: looking a type up is cheaper than isinstance with so many
    line = deque(roots)
    while line:
        item = line.popleft()
        for other in referents(item):
            at, kind = id(other), type(other)
            if at in found or at in stop:
                continue
            if kind not in leads:
                leads[kind] = not issubclass(kind, _APART)
            if leads[kind]:
                found[at] = other, id(item)
                line.append(other)
    return found


def way_to(found, item):
    """How the walk came to an item, in words."""
    steps, at = [], id(item)
    while at is not None:
        one, at = found[at]
        steps.append(_named(one))
    return " <- ".join(steps)


def _named(item):
    if isinstance(item, functools.partial):
        return f"partial {item.func!r}"[:80]
    if isinstance(item, types.MethodType):
        return f"method {item.__func__.__qualname__}"
    if isinstance(item, types.FunctionType):
        return f"function {item.__qualname__}"
    return type(item).__name__


def owned(hca, *others):
    """What belongs to a function's state; ``others`` are those whose own is not meant."""
    outside = [hca, *others, hca.wire, hca.switch, hca.clock, hca.memory, hca.events.interrupts]
    outside += [hca.health, hca.scheduler, hca.events, hca.probes]
    outside.append(hca.clock.now_ns)  # leads to the timers of all functions
    theirs = [item for other in others for item in _first(other)]
    found = walk(_first(hca), [*outside, *theirs])
    return [item for item, _ in found.values() if isinstance(item, STATE)]


def _first(hca):
    """The objects of a function by which all others of its state are known."""
    items = [item for table in hca.tables for item in table]
    for dct in hca.dcts:
        items += dct.responders
    for qp in [item for item in items if isinstance(item, Qp)]:
        items += [one for one in (qp.waiting_receive, qp.moving) if one is not None]
    return items + hca.page_faults.open()


def still_reached(roots, gone, barriers=()):
    """How the roots lead to what should be gone; empty when they do not."""
    if not gone:
        return []
    found = walk(roots, barriers)
    return [way_to(found, item) for item in gone if id(item) in found]
