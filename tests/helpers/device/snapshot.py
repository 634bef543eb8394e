"""All that a command could have changed, as plain values that two moments can be compared by."""

from __future__ import annotations

from enum import Enum

from emu.device.objects.object import Object
from emu.device.objects.queues.eq import Eq
from emu.device.objects.queues.qp import Qp
from emu.device.state.caps import GROUPS
from layouts.codec import View
from layouts.enums import CapMode

_REPORTS = {"armed", "has_write_failed", "is_losing", "overruns", "pi"}
"""What a CMD event changes in its EQ: refused commands are reported like all others."""

_PLAIN = (int, str, bytes, bytearray, frozenset, type(None), Enum)


def snapshot(hca):
    """The state of a function's HCA; equal before and after means that nothing happened."""
    return {
        "state": hca.state,
        "issi": hca.issi,
        "caps": [hca.caps._pages[group, mode][:] for group in GROUPS for mode in CapMode],
        "port": _port(hca.vport),
        "pages": list(hca.fwpages._given),
        "events": {event: eq.handle for event, eq in hca._event_eqs.items()},
        "groups": freeze(hca.mcgs),
        "gids": list(hca.gids),
        "ledger": hca.ledger.accounts,
        **{table.kind: _table(table) for table in hca.tables},
    }


def _port(port):
    """The vPort's fields, and those of what an Ethernet vPort is made of."""
    return {
        name: _port(value)
        if name in {"port", "sent", "received"}
        and value is not None
        and hasattr(value, "__slots__")
        else freeze(value)
        for name in port.__slots__
        for value in (getattr(port, name),)
    }


def _table(table):
    """Live objects, and which handles come next."""
    objects = {item.handle: _attributes(item) for item in table}
    return objects, table.numbers._next, list(table.numbers._freed)


def _attributes(item):
    if isinstance(item, Qp):
        item.encode()  # the context as a query would show it
    names = [name for cls in type(item).__mro__ for name in getattr(cls, "__slots__", ())]
    changing = _REPORTS if isinstance(item, Eq) else set()
    return {
        name: freeze(getattr(item, name, None))
        for name in (*names, *_free_names(item))
        if name not in changing
    }


def _free_names(item):
    return getattr(item, "__dict__", ())


def freeze(value):
    """Objects by kind and handle, views by their bytes, and of anything else only its type."""
    if isinstance(value, Object):
        return value.kind, value.handle
    if isinstance(value, View):
        return bytes(value)
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, dict):
        return {freeze(key): freeze(item) for key, item in value.items()}
    if isinstance(value, set):
        return frozenset(map(freeze, value))
    if isinstance(value, list | tuple):
        return tuple(map(freeze, value))
    return type(value).__name__
