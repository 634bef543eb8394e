"""Moves a fault plan to the moment of a failure, which a seed chooses from a range."""

from __future__ import annotations

import zlib

from emu.device.faults.plan import Plan
from emu.device.faults.rule import Rule

_LOAD = "load"
_USERS = ["RC", "UC", "UD", "XRC", "DCI"]
"""Transport services whose work requests come from a user, not from the driver itself."""


def chosen(when: tuple[int, int], name: str, seed: int) -> int:
    """Return a number of the range ``when``, both ends included; equal arguments give an equal one.

    Failures of one seed have independent numbers.
    """
    first, last = when
    return first + zlib.crc32(f"{seed} {name}".encode()) % (last - first + 1)


def moved(plan: Plan, number: int) -> Plan:
    """Return the plan whose faults begin at the ``number``-th event that a rule matches, from 1.

    A rule that begins with the plan (point ``load``) begins instead when the device reads the
    ``number``-th work request of a user; the plan's other rules are unchanged then. A rule with
    ``index`` fires at that event alone.
    """
    has_load = any(rule.point == _LOAD for rule in plan.rule)
    rules = [
        _moved(rule, number) if not has_load or rule.point == _LOAD else rule for rule in plan.rule
    ]
    shifted: Plan = plan.model_copy(update={"rule": rules})
    return shifted


def _moved(rule: Rule, number: int) -> Rule:
    """Return the rule that begins at the ``number``-th event."""
    if rule.point == _LOAD:
        match = {"service": list(_USERS)}
        return rule.model_copy(update={"point": "wqe", "match": match, "index": [number]})
    if rule.index is not None:
        return rule.model_copy(update={"index": [number]})
    return rule.model_copy(update={"space": number - 1})


def lasting(plan: Plan) -> float:
    """Return the seconds of the longest fault that ends by itself (``ms`` of a rule); 0 without."""
    return max((rule["ms"] or 0 for rule in plan.rule), default=0) / 1000


def counts_rdma(plan: Plan) -> bool:
    """Return whether a rule counts events of RDMA alone: packets or services of queue pairs."""
    return any(rule.point.startswith("pkt.") or "service" in rule.match for rule in plan.rule)
