"""A traced event, and its JSON form: one object on one line.

Every line has ``t_ns`` (the device's clock when the line was made, in nanoseconds since some fixed
moment), ``function`` (index of the PCI function; ``KERNEL`` for the guest's kernel) and ``point``.
The other keys follow the point:

====== ============================================================================================
point  keys
====== ============================================================================================
reset  ``model``: the function is in its power-on state, at the start or after a reset; ``guest``:
       the name of its guest, where several guests have functions of the server; ``vf``: the name of
       a virtual function that SR-IOV enables, such as 0.vf1
cmd    ``slot``, ``op`` (the PRM's name), ``opcode``, ``status`` (name), ``duration_us``, ``in`` and
       ``out`` (fields of input and output); when refused, ``syndrome``, ``reason`` and ``detail``
       instead of ``out``; when not delivered, ``delivery`` (name) instead of ``status``
mmio   ``access`` (read, write), ``offset`` in BAR 0, ``length``, ``register`` (its name, where it
       has one), ``uar`` (index) or ``vector`` (MSI-X entry) it belongs to, ``value`` (a number up
       to 8 bytes, else a hexadecimal string), ``fields`` of the value; boot firmware's accesses by
       the gateway are among them, those of its NIC as the register nodnic
eqe    ``eqn``, ``type`` (name), ``sub_type`` (name or number), ``data`` (fields of the event)
irq    ``vector``, ``eqn``
wqe    ``qpn``, ``index`` (its number in the send queue), ``op`` (its opcode's name; of a UMR, its
       use: ``UMR register``, ``invalidate``, ``bind``, ``layout``, ``translations``, ``change``),
       ``ds``, ``flags`` and ``imm`` of the control segment, and its other segments by name: ``umr``
       (flags and mask by name), ``mkc`` (selected fields), ``list``, ``bsf``, ``eth_seg``,
       ``headers`` (the length of those inline), ``data``. A retried request is another event.
cqe    ``cqn``, ``qpn`` (of a received Ethernet packet: ``flow_tag``), ``type`` (its opcode's
       name), ``syndrome`` (name) when it is an error, ``compressed`` when it shares an entry with
       others, ``data`` (fields of the entry, of a compressed one in uncompressed form),
       ``scattered`` (the message's bytes in the entry)
nak    a responder refuses a request, on UC without a NAK: ``qpn``, ``check`` (rxe's name:
       CHK_PSN, CHK_OP_SEQ, CHK_OP_VALID, CHK_RESOURCE, CHK_LENGTH, CHK_RKEY, EXECUTE), ``reason``
fault  a page fault is over: ``token``, ``qpn``, ``side`` (requester, responder), ``kind`` (name),
       ``outcome`` (resumed, error, cancelled), ``duration_us`` since its event, ``key``, ``va`` and
       ``length`` of the absent bytes
log    a line of the log of a guest's kernel: ``text``; added by emu.guests.timeline
call   a call recorded by a guest's ftrace: ``name``, ``caller``, ``task``, ``pid``, ``cpu``
====== ============================================================================================

An event that the recorder could not decode has ``error`` (``UNDECODED``), ``raw`` (its first bytes)
and those keys of its point that are known without decoding. The log then has a traceback.

Fields have the PRM's names. Zero fields are left out, except where a change is shown.
Numbers are JSON numbers of up to 64 bits. Nested structures are objects. A list of more than
``MAX_ITEMS`` is ``{"count": all, "first": [some]}``. Bytes are a hexadecimal string, ``0x...``, or
their text if printable. Later versions may add keys; no key changes its meaning.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

MAX_ITEMS = 16
"""Longest list that is shown whole."""

UNDECODED = "could not be decoded"
"""The ``error`` of an event that an exception in the decoder kept out of the trace."""

KERNEL = -1
"""Replaces a function's index in events of the guest's kernel."""

_COMMON = ("t_ns", "function", "point")
_NUMBER_BITS = 64


class TracePoint(StrEnum):
    """The trace points."""

    RESET = "reset"
    CMD = "cmd"
    MMIO = "mmio"
    EQE = "eqe"
    IRQ = "irq"
    WQE = "wqe"
    CQE = "cqe"
    NAK = "nak"
    FAULT = "fault"
    LOG = "log"
    CALL = "call"


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """One event. ``fields`` holds plain values only: numbers, strings, lists and dicts."""

    t_ns: int
    function: int
    point: str
    """A :class:`TracePoint`, or a point of a later version."""
    fields: Mapping[str, Any]

    def to_json(self) -> str:
        """Return the JSON form, without the end of line."""
        common = {"t_ns": self.t_ns, "function": self.function, "point": self.point}
        return json.dumps(common | dict(self.fields), separators=(",", ":"))

    @classmethod
    def from_json(cls, line: str) -> TraceEvent:
        """Return the event of a JSON line.

        Raises ValueError for any other text, without ``t_ns``, ``function`` and ``point``, and if
        one of the first two exceeds 64 bits.
        """
        try:
            values = json.loads(line)
        except (ValueError, RecursionError):
            raise ValueError("not JSON") from None
        if not isinstance(values, dict):
            raise ValueError("not a JSON object")
        t_ns, function, point = (values.pop(key, None) for key in _COMMON)
        if type(t_ns) is not int or type(function) is not int or not isinstance(point, str):
            raise ValueError(f"{', '.join(_COMMON)} are not all present")
        if max(abs(t_ns), abs(function)) >> _NUMBER_BITS:
            raise ValueError("t_ns or function exceeds 64 bits")
        return cls(t_ns, function, point, values)

    @property
    def is_refusal(self) -> bool:
        """Whether the event is a command that did not succeed."""
        return self.point == TracePoint.CMD and self.fields.get("status") != "OK"
