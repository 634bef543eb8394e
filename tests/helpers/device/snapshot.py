"""All that a command could have changed, as plain values that two moments can be compared by."""

from __future__ import annotations

from enum import Enum
from functools import cache

from emu.device.objects.object import Object
from emu.device.objects.queues.eq import Eq
from emu.device.objects.queues.qp import Qp
from emu.device.state.caps import GROUPS
from layouts.enums.caps import CapMode
from layouts.prm import Prm

_REPORTS = {"armed", "has_write_failed", "is_losing", "overruns", "pi"}
"""What a CMD event changes in its EQ: refused commands are reported like all others."""


def snapshot(hca):
    """The state of a function's HCA; equal before and after means that nothing happened."""
    return {
        "state": hca.state,
        "issi": hca.driver.issi,
        "caps": [hca.caps._pages[group, mode][:] for group in GROUPS for mode in CapMode],
        "port": _port(hca.vport),
        "pages": list(hca.fwpages._given),
        "events": {event: eq.handle for event, eq in hca.events.subscribers.items()},
        "groups": freeze(hca.mcgs),
        "gids": list(hca.gids),
        "ledger": dict(hca.ledger.accounts),
        **{table.kind: _table(table) for table in hca.tables},
    }


def _port(port):
    """The vPort's fields, and those of what an Ethernet vPort is made of."""
    return {
        name: _port(value)
        if name in {"port", "sent", "received"} and value is not None and slots(type(value))
        else freeze(value)
        for name in slots(type(port))
        for value in (getattr(port, name),)
    }


def _table(table):
    """Live objects, and which handles come next."""
    objects = {item.handle: _attributes(item) for item in table}
    return objects, table.numbers._next, list(table.numbers._freed)


def _attributes(item):
    if isinstance(item, Qp):
        item.encode()  # the context as a query would show it
    found = {}
    for name in _names(type(item)):
        value = getattr(item, name, None)
        found[name] = value if type(value) in _AS_THEY_ARE else freeze(value)
    if hasattr(item, "__dict__"):
        found |= freeze(vars(item))
    return found


@cache
def _names(of):
    """The slots of a class whose values count."""
    changing = _REPORTS if issubclass(of, Eq) else set()
    names = dict.fromkeys(name for cls in of.__mro__ for name in slots(cls))
    return [name for name in names if name not in changing]


def slots(of):
    """The attributes that a class declares; one that is compiled lists them by another name."""
    return getattr(of, "__slots__", None) or getattr(of, "__mypyc_attrs__", ())


def freeze(value):
    """Objects by kind and handle, views by their bytes, and of anything else only its type."""
    return _way(type(value))(value)


@cache
def _way(of):
    """How values of a type are frozen: a snapshot meets few types, and many values."""
    for kinds, way in _WAYS:
        if issubclass(of, kinds):
            return way
    return lambda value: type(value).__name__


_AS_THEY_ARE = frozenset({int, bool, str, bytes, type(None)})
_WAYS = (
    (Object, lambda value: (value.kind, value.handle)),
    (Prm | bytearray, bytes),
    (int | str | bytes | frozenset | type(None) | Enum, lambda value: value),
    (dict, lambda value: {freeze(key): freeze(item) for key, item in value.items()}),
    (set, lambda value: frozenset(map(freeze, value))),
    (list | tuple, lambda value: tuple(map(freeze, value))),
)
