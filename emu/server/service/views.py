"""A server's report about its functions: state, counts and objects, as plain values."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from emu.device.function.function import Function
from emu.device.objects.eth.flow.table import FlowTable
from emu.device.objects.memory.mkey import Mkey
from emu.device.objects.object import MAX_CHILDREN, Object
from emu.device.objects.queues.qp import Qp
from emu.device.rounds.portions import Portions
from emu.device.rounds.sizes import ITEMS_PER_PORTION, KEYS_PER_PORTION
from emu.device.state import tables
from emu.device.state.hca import Hca
from emu.device.state.observers import UNREADABLE, ObserverErrors
from emu.near import near
from emu.server.service.adapter_view import adapter
from layouts.enums.caps import PortType
from layouts.enums.mkey import AccessMode
from layouts.enums.roce import RoceVersion

MAX_ENTRIES: Final = 4096
"""Maximum number of examined entries of a key list; most of them may be empty."""

_json = json.JSONEncoder(separators=(",", ":")).encode
_errors: Final = ObserverErrors("objects")


def status(function: Function, index: int, guest: str = "") -> dict[str, Any]:
    """Return state, port, counters and memory use of a function, as plain values for JSON.

    Counts of completions and events are sums over the existing CQs and EQs. ``roce`` exists for
    Ethernet ports only; keys of :func:`adapter` are added. Changes nothing.
    """
    hca = function.hca
    vport, faults = hca.vport, hca.probes.faults
    rules = faults.listing() if faults is not None else []
    sent, received = vport.totals()
    return {
        "function": index,
        "guest": guest,
        "model": function.model.name,
        "state": hca.state.name,
        "driver": hca.driver.version,
        "guid": f"{vport.guid:#018x}",
        "address": vport.address,
        "link": hca.port.link_state,
        "internal_errors": hca.health.internal_errors,
        "faults": len(rules),
        "held": faults.held if faults is not None else 0,
        "in_force": faults.in_force if faults is not None else 0,
        "page_faults": len(hca.page_faults),
        "dropped": dict(sorted(hca.link.dropped.items())),
        "counts": {
            "commands": function.cmdif.executed,
            "refused": function.cmdif.refused,
            "completions": sum(cq.pi for cq in hca.cqs),
            "error_completions": hca.cqes.errors,
            "compressed_completions": hca.cqes.compressed,
            "events": sum(eq.pi for eq in hca.eqs),
            "lost_events": sum(eq.overruns for eq in hca.eqs),
            "page_faults": hca.page_faults.raised,
            "faults_fired": sum(rule["fired"] for rule in rules),
            "sent_packets": sent.packets,
            "sent_bytes": sent.octets,
            "received_packets": received.packets,
            "received_bytes": received.octets,
        },
        "objects": {table.kind: len(table) for table in hca.tables},
        **({"roce": _roce(hca)} if hca.model.port_type is PortType.ETH else {}),
        **adapter(hca),
        "ledger": {
            "used": hca.ledger.used,
            "limit": hca.ledger.limit,
            "accounts": dict(sorted(hca.ledger.accounts.items())),
        },
    }


def _roce(hca: Hca) -> dict[str, Any]:
    """Return whether RoCE is enabled, and the GID table's used entries by index."""
    used = {index: entry for index, entry in enumerate(hca.gids) if not entry.is_empty}
    return {
        "enabled": hca.nic_vport.roce_en,
        "gids": {
            str(index): {
                "gid": str(entry),
                "mac": entry.mac.hex(":"),
                "vlan": entry.vlan,
                "version": 2 if entry.version == RoceVersion.VERSION_2 else 1,
            }
            for index, entry in used.items()
        },
    }


def objects(function: Function, kind: str | None, limit: int) -> Iterator[bytes]:
    """Yield the JSON text of a function's objects by kind: the total, and up to ``limit`` items.

    ``kind`` None means all kinds, including page faults that wait for the driver, and fault rules.
    An unknown kind yields ``{}``. Each step takes some milliseconds; objects may be created and
    destroyed between steps.
    """
    parts = ["{"]
    for number, (name, entries) in enumerate(_by_kind(function, kind)):
        chosen = list(islice(entries, limit))
        parts.append(f'{"," * bool(number)}{_json(name)}:{{"total":{len(entries)},"items":[')
        for at, item in enumerate(chosen):
            shown = _item(function, item) if isinstance(item, Object) else _json(item)
            parts.append("," * bool(at) + shown)
            if len(parts) > ITEMS_PER_PORTION:
                yield "".join(parts).encode()
                parts.clear()
        parts.append("]}")
    yield "".join((*parts, "}")).encode()


def _by_kind(function: Function, kind: str | None) -> Iterator[tuple[str, Any]]:
    """Yield name and content of each table, or list of plain values, of this kind.

    Of all for None.
    """
    for table in function.hca.tables:
        if kind in (None, table.kind):
            yield table.kind, table
    for name, items in _OUTSTANDING.items():
        if kind in (None, name):
            yield name, items(function)


def census(functions: Sequence[Function]) -> Portions[dict[str, int]]:
    """Count the used objects of each kind, over all functions, in steps; return the counts.

    A free memory key is not counted: drivers cache such keys, and reuse one without a command.
    """
    counts: Counter[str] = Counter()
    for function in functions:
        hca = function.hca
        for table in hca.tables:
            counts[table.kind] += len(table)
        for number, key in enumerate(list(hca.mkeys), 1):
            counts[hca.mkeys.kind] -= key.free
            if not number % KEYS_PER_PORTION:
                yield
    return dict(counts)


def kinds() -> list[str]:
    """Return the kinds of objects of a report."""
    return [*(of.kind for of in tables.kinds()), *_OUTSTANDING]


def kind_named(name: str) -> str:
    """Return the kind of objects of a report with this name, also with ``_`` or ``-`` for spaces.

    Case is ignored. Raises ValueError, with similar kinds or else all of them, for another name.
    """
    known, wanted = kinds(), name.translate(_SPACES).lower()
    for kind in known:
        if kind.lower() == wanted:
            return kind
    similar = near(wanted, known) or f"; kinds: {', '.join(known)}"
    raise ValueError(f"no objects of kind {name!r}{similar}")


def _page_faults(function: Function) -> list[dict[str, Any]]:
    """Return the page faults that wait for the driver's PAGE_FAULT_RESUME, as plain values."""
    return [
        {
            "token": fault.token, "qpn": fault.qp.handle, "side": fault.side.value,
            "kind": fault.access.kind.name, "key": fault.page.key, "va": fault.page.va,
            "bytes": fault.page.length,
        }
        for fault in function.hca.page_faults.open()
    ]  # fmt: skip


def _rules(function: Function) -> list[dict[str, Any]]:
    faults = function.hca.probes.faults
    return faults.listing() if faults is not None else []


_OUTSTANDING: Mapping[str, Callable[[Function], list[dict[str, Any]]]] = {
    "page fault": _page_faults,
    "fault": _rules,
}


_SPACES = str.maketrans("_-", "  ")


def _item(function: Function, item: Object) -> str:
    """Return the JSON text of an object: handle, references, and its own fields.

    If reading the fields raises, the text has ``error`` instead of them, and the error is logged.
    """
    about: dict[str, Any] = {"handle": item.handle, "refs": item.refs}
    more = _MORE.get(type(item))
    try:
        shown = about | item.about()
        return _json(shown | more(function, item) if more is not None else shown)
    except Exception:
        _errors.note(item.kind)
        return _json(about | {"error": UNREADABLE})


def _qp(function: Function, qp: Qp) -> dict[str, Any]:
    return {"remote_address": function.hca.link.describe_address(qp.destination)}


def _flow_table(function: Function, table: FlowTable) -> dict[str, Any]:
    domain = function.hca.flow_domains.get(table.table_type)
    return {"root": domain is not None and domain.root is table}


def _mkey(function: Function, mkey: Mkey) -> dict[str, Any]:
    """Return the keys below an indirect key (KLMS, KSM), at most MAX_CHILDREN.

    Empty for other keys.
    """
    if mkey.mode not in (AccessMode.KLMS, AccessMode.KSM):
        return {}
    return {"below": list(islice(_below(function, mkey), MAX_CHILDREN))}


def _below(function: Function, mkey: Mkey) -> Iterator[dict[str, Any]]:
    """Yield key, bytes, address and existence of the non-empty entries of an indirect key.

    Examines the first MAX_ENTRIES entries only.
    """
    for count, key, va in mkey.below(MAX_ENTRIES):
        if key or count:
            lives = function.hca.mkeys.get(key >> 8) is not None
            yield {"key": key, "bytes": count, "va": va, "exists": lives}


_MORE: Mapping[type[Object], Callable[[Function, Any], dict[str, Any]]] = {
    Qp: _qp,
    Mkey: _mkey,
    FlowTable: _flow_table,
}
"""Additional values of some objects that only the function knows."""
