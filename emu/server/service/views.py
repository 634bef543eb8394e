"""What a server reports about its functions: state, counts and objects, as plain values."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from emu.device.function.function import Function
from emu.device.objects import (
    Cq,
    Eq,
    FlowCounter,
    FlowEntry,
    FlowGroup,
    FlowTable,
    Mkey,
    Qp,
    Rqt,
    Srq,
    Tir,
    Tis,
)
from emu.device.objects.table import Object
from emu.device.state.hca import Hca
from emu.device.turns import Turns
from layouts.enums import AccessMode, PortType, QpType
from layouts.eth_enums import RxHashFn

_ITEMS_PER_PART = 256
_KEYS_PER_TURN = 10_000
_json = json.JSONEncoder(separators=(",", ":")).encode

MOST_CHILDREN = 64
"""Maximum number of entries reported of an indirect key, or of a table of receive queues."""


def status(function: Function, index: int) -> dict[str, Any]:
    """State, port and counts of one function."""
    hca = function.hca
    vport, faults = hca.vport, hca.faults
    rules = faults.listing() if faults is not None else []
    sent, received = vport.totals()
    return {
        "function": index,
        "model": function.model.name,
        "state": hca.state.name,
        "guid": f"{vport.guid:#018x}",
        "address": vport.address,
        "link": hca.port.link_state,
        "internal_errors": hca.internal_errors,
        "faults": len(rules),
        "held": faults.held if faults is not None else 0,
        "in_force": faults.in_force if faults is not None else 0,
        "page_faults": len(hca.page_faults),
        "dropped": dict(sorted(hca.link.dropped.items())),
        "counts": {
            "commands": function.cmdif.executed,
            "refused": function.cmdif.refused,
            "completions": sum(cq.pi for cq in hca.cqs),
            "error_completions": hca.error_completions,
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
        "ledger": {
            "used": hca.ledger.used,
            "limit": hca.ledger.limit,
            "accounts": dict(sorted(hca.ledger.accounts.items())),
        },
    }


def _roce(hca: Hca) -> dict[str, Any]:
    """GIDs by index."""
    used = {index: entry for index, entry in enumerate(hca.gids) if not entry.is_empty}
    return {
        "enabled": hca.nic_vport.roce_en,
        "gids": {
            str(index): {"gid": str(entry), "mac": entry.mac.hex(":"), "vlan": entry.vlan}
            for index, entry in used.items()
        },
    }


def objects(function: Function, kind: str | None, limit: int) -> Iterator[bytes]:
    """The objects of one function by kind, ``limit`` of each at most: the parts of a JSON object.

    Also included: page faults that wait for the driver, and fault rules. A part is some
    milliseconds of work; objects may come and go between two of them.
    """
    parts = ["{"]
    for number, (name, found) in enumerate(_by_kind(function, kind)):
        chosen = list(islice(found, limit))
        parts.append(f'{"," * bool(number)}{_json(name)}:{{"total":{len(found)},"items":[')
        for at, item in enumerate(chosen):
            told = _item(function, item) if isinstance(item, Object) else item
            parts.append("," * bool(at) + _json(told))
            if len(parts) > _ITEMS_PER_PART:
                yield "".join(parts).encode()
                parts.clear()
        parts.append("]}")
    yield "".join((*parts, "}")).encode()


def _by_kind(function: Function, kind: str | None) -> Iterator[tuple[str, Any]]:
    """The tables, and lists of plain values, by name."""
    for table in function.hca.tables:
        if kind in (None, table.kind):
            yield table.kind, table
    for name, items in _OUTSTANDING.items():
        if kind in (None, name):
            yield name, items(function)


def census(functions: Sequence[Function]) -> Turns[dict[str, int]]:
    """How many objects of each kind are in use, of all functions together.

    A memory key that is free is not: drivers keep such keys in caches of theirs, and take another
    one from there without a command.
    """
    counts: Counter[str] = Counter()
    for function in functions:
        hca = function.hca
        for table in hca.tables:
            counts[table.kind] += len(table)
        for number, key in enumerate(list(hca.mkeys), 1):
            counts[hca.mkeys.kind] -= key.free
            if not number % _KEYS_PER_TURN:
                yield
    return dict(counts)


def kinds(function: Function) -> list[str]:
    """The kinds of objects that exist."""
    return [*(table.kind for table in function.hca.tables), *_OUTSTANDING]


def _page_faults(function: Function) -> list[dict[str, Any]]:
    return [
        {
            "token": fault.token, "qpn": fault.qp.handle, "side": fault.side.value,
            "kind": fault.access.kind.name, "key": fault.page.key, "va": fault.page.va,
            "bytes": fault.page.length,
        }
        for fault in function.hca.page_faults.open()
    ]  # fmt: skip


def _rules(function: Function) -> list[dict[str, Any]]:
    faults = function.hca.faults
    return faults.listing() if faults is not None else []


_OUTSTANDING: Mapping[str, Callable[[Function], list[dict[str, Any]]]] = {
    "page_fault": _page_faults,
    "fault": _rules,
}


def _item(function: Function, item: Object) -> dict[str, Any]:
    about = {"handle": item.handle, "refs": item.refs}
    describe = _DESCRIBE.get(type(item))
    return about | describe(function, item) if describe is not None else about


def _qp(function: Function, qp: Qp) -> dict[str, Any]:
    return {
        "service": QpType(qp.st).name, "state": qp.state.name, "remote_qpn": qp.remote_qpn,
        "remote_address": function.hca.link.about(qp.destination),
        "scq": qp.scq.handle if qp.scq else None, "rcq": qp.rcq.handle if qp.rcq else None,
        "srq": qp.srq.handle if qp.srq else None,
        "psn": qp.psn, "epsn": qp.epsn, "retries": qp.retries, "rnr_retries": qp.rnr_retries,
        "packets": qp.connection is not None,
    }  # fmt: skip


def _cq(_function: Function, cq: Cq) -> dict[str, Any]:
    return {
        "entries": cq.entries, "pi": cq.pi, "ci": cq.ci, "eqn": cq.eq.handle,
        "status": cq.status.name, "notification": cq.notification.name,
    }  # fmt: skip


def _eq(_function: Function, eq: Eq) -> dict[str, Any]:
    return {
        "entries": 1 << eq.log_size, "pi": eq.pi, "ci": eq.ci, "vector": eq.vector,
        "armed": eq.armed, "overruns": eq.overruns,
    }  # fmt: skip


def _srq(_function: Function, srq: Srq) -> dict[str, Any]:
    return {"form": srq.form.value, "pd": srq.pd.handle, "in_error": srq.is_in_error}


def _tis(_function: Function, tis: Tis) -> dict[str, Any]:
    return {"td": tis.td.handle, "prio": tis.prio}


def _rqt(_function: Function, rqt: Rqt) -> dict[str, Any]:
    return {
        "size": len(rqt.rqs), "max_size": rqt.ctx.rqt_max_size,
        "rqs": [rq.handle for rq in rqt.rqs[:MOST_CHILDREN]],
    }  # fmt: skip


def _tir(_function: Function, tir: Tir) -> dict[str, Any]:
    return {
        "td": tir.td.handle if tir.td else None, "rqn": tir.rq.handle if tir.rq else None,
        "rqtn": tir.rqt.handle if tir.rqt else None,
        "hash": RxHashFn(tir.ctx.rx_hash_fn).name if tir.hasher else None,
        "self_lb": int(tir.ctx.self_lb_block),
    }  # fmt: skip


def _flow_table(function: Function, table: FlowTable) -> dict[str, Any]:
    domain = function.hca.flow_domains.get(table.table_type)
    miss = table.miss
    return {
        "type": table.table_type.name, "level": table.level, "size": table.size,
        "groups": len(table.groups), "root": domain is not None and domain.root is table,
        "miss": miss.handle if isinstance(miss, FlowTable) else miss.value,
    }  # fmt: skip


def _flow_group(_function: Function, group: FlowGroup) -> dict[str, Any]:
    return {
        "table": group.table.handle, "first": group.first, "last": group.last,
        "entries": len(group.entries), "masks": group.criteria.masks,
    }  # fmt: skip


def _flow_entry(_function: Function, entry: FlowEntry) -> dict[str, Any]:
    action = entry.action
    return {
        "table": entry.group.table.handle, "index": entry.index,
        "values": dict(zip(entry.group.criteria.masks, entry.key)),
        "action": action.verdict.value, "tag": action.tag,
        "destinations": [repr(target) for target in action.destinations],
        "counters": [counter.handle for counter in action.counters],
    }  # fmt: skip


def _flow_counter(_function: Function, counter: FlowCounter) -> dict[str, Any]:
    return {"packets": counter.packets, "octets": counter.octets}


def _mkey(function: Function, mkey: Mkey) -> dict[str, Any]:
    about = {
        "key": mkey.key, "mode": AccessMode(mkey.mode).name, "pd": mkey.pd.handle,
        "start": mkey.start, "bytes": mkey.end - mkey.start, "rights": _rights(mkey.rights),
        "free": mkey.free,
    }  # fmt: skip
    if mkey.mode in (AccessMode.KLMS, AccessMode.KSM):
        about["below"] = list(islice(_below(function, mkey), MOST_CHILDREN))
    return about


def _below(function: Function, mkey: Mkey) -> Iterator[dict[str, Any]]:
    """The keys that an indirect key leads to."""
    for count, key, va in mkey.below():
        if key or count:
            lives = function.hca.mkeys.get(key >> 8) is not None
            yield {"key": key, "bytes": count, "va": va, "exists": lives}


def _rights(rights: int) -> str:
    names = ("lr", "lw", "rr", "rw", "a")
    return " ".join(name for bit, name in enumerate(names) if rights >> bit & 1)


_DESCRIBE: Mapping[type[Object], Callable[[Function, Any], dict[str, Any]]] = {
    Qp: _qp,
    Cq: _cq,
    Eq: _eq,
    Srq: _srq,
    Mkey: _mkey,
    Tis: _tis,
    Rqt: _rqt,
    Tir: _tir,
    FlowTable: _flow_table,
    FlowGroup: _flow_group,
    FlowEntry: _flow_entry,
    FlowCounter: _flow_counter,
}
