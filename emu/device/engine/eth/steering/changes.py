"""Changes of the flow tables of one domain, and the checks before them.

Every change drops the domain's cached decisions (``domain.py``), and counts the users of each part
of a packet: parts with users are the cache's key. A check raises BAD_PARAM_ERR.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable

from emu.device.engine.eth.steering.fields import source
from emu.device.engine.eth.steering.match_field import COSTS, Part
from emu.device.errors import BadParamError
from emu.device.objects.eth.flow.action import FteAction, FteVerdict
from emu.device.objects.eth.flow.domain import FlowDomain
from emu.device.objects.eth.flow.table import FlowEntry, FlowGroup, FlowTable, Miss
from emu.device.objects.eth.flow.targets import Sampler
from layouts.enums.fte import FlowSource


def check_miss(level: int, miss: FlowTable | Miss) -> None:
    """Refuse with BAD_PARAM_ERR a miss table whose level is not above ``level``."""
    if isinstance(miss, FlowTable) and miss.level <= level:
        raise BadParamError(
            "flow table's miss table must have a higher level", f"{miss.level} from {level}"
        )


def check_group(table: FlowTable, first: int, last: int) -> None:
    """Refuse with BAD_PARAM_ERR a new group whose indices are outside the table or taken."""
    if not 0 <= first <= last < table.size:
        raise BadParamError(
            "flow group's indices are outside its table", f"{first} to {last} of {table.size}"
        )
    if table.is_taken(first, last):
        raise BadParamError("flow group's indices overlap another group's", f"{first} to {last}")


def check_index(group: FlowGroup, index: int) -> None:
    """Refuse with BAD_PARAM_ERR a new entry whose index is outside the group or taken."""
    if not group.first <= index <= group.last:
        raise BadParamError(
            "flow table entry's index is outside its group",
            f"{index}, group has {group.first} to {group.last}",
        )
    if index in group.entries:
        raise BadParamError("flow table already has an entry at this index", f"{index}")


def check_action(table: FlowTable, action: FteAction, *, ignores_level: bool = False) -> None:
    """Refuse with BAD_PARAM_ERR an action whose destinations are invalid.

    Destinations exist exactly if the entry forwards. Tables and samplers need a higher level,
    unless ``ignores_level``. Entries may also lead to software-owned tables of any level: rdma-core
    gives all of them the same level (dr_action.c: dr_action_create_dest_array_tbl).
    """
    if (action.verdict is FteVerdict.FORWARD) != bool(action.destinations):
        raise BadParamError("flow table entry must have destinations if it forwards, else none")
    for target in action.destinations:
        if not isinstance(target, (FlowTable, Sampler)):
            continue
        is_free = ignores_level or (isinstance(target, FlowTable) and target.roots is not None)
        if target.level <= table.level and not is_free:
            raise BadParamError(
                "flow table entry's destination must have a higher level",
                f"{target.level} from {table.level}",
            )


# -- changes


def set_root(domain: FlowDomain, table: FlowTable | None) -> None:
    """Set the domain's first table; None removes it."""
    domain.root = table
    domain.flush()


def set_underlay(domain: FlowDomain, qpn: int, table: FlowTable | None) -> None:
    """Set the first table for an underlay QP's packets, None for none; drop cached decisions."""
    if table is None:
        domain.underlays.pop(qpn, None)
    else:
        domain.underlays[qpn] = table
    domain.flush()


def forget_underlays(domain: FlowDomain, table: FlowTable) -> None:
    """Detach the underlays rooted at a destroyed table."""
    for qpn in [qpn for qpn, root in domain.underlays.items() if root is table]:
        set_underlay(domain, qpn, None)


def add_group(domain: FlowDomain, group: FlowGroup) -> None:
    """Add a group to its table, in the order of indices; drop all cached decisions."""
    insort(group.table.groups, group, key=lambda each: each.first)
    use_parts(domain, group.criteria.parts)
    domain.flush()


def remove_group(domain: FlowDomain, group: FlowGroup) -> None:
    """Remove an empty group from its table; drop all cached decisions."""
    group.table.groups.remove(group)
    disuse_parts(domain, group.criteria.parts)
    domain.flush()


def add_entry(domain: FlowDomain, entry: FlowEntry) -> None:
    """Add an entry to its group; drop all cached decisions."""
    entry.group.add(entry)
    use_parts(domain, _copied(entry.action))
    use_parts(domain, _sources(entry))
    domain.flush()


def change_action(domain: FlowDomain, entry: FlowEntry, action: FteAction) -> None:
    """Replace an entry's action; drop all cached decisions."""
    disuse_parts(domain, _copied(entry.action))
    entry.action = action
    use_parts(domain, _copied(action))
    domain.flush()


def remove_entry(domain: FlowDomain, entry: FlowEntry) -> None:
    """Remove an entry from its group; drop all cached decisions.

    Packets that matched the entry then match a later entry, or miss.
    """
    entry.group.discard(entry)
    disuse_parts(domain, _copied(entry.action))
    disuse_parts(domain, _sources(entry))
    domain.flush()


def _sources(entry: FlowEntry) -> tuple[Part, ...]:
    """Return the key part for an entry that matches one packet source only."""
    return () if entry.source is FlowSource.ANY else (source,)


def _copied(action: FteAction) -> frozenset[Part]:
    """Return the key parts that decide fields and registers after an action."""
    return frozenset[Part]().union(*(step.parts for step in action.steps))


def use_parts(domain: FlowDomain, parts: Iterable[Part]) -> None:
    """Count one more user of each key part; the first one adds the part to the cache key."""
    users = domain.users
    for part in parts:
        count = users.get(part, 0)
        if not count:
            domain.key_cost += COSTS.get(part, 1)
        users[part] = count + 1


def disuse_parts(domain: FlowDomain, parts: Iterable[Part]) -> None:
    """Count one user less of each key part; the last one removes the part from the cache key."""
    users = domain.users
    for part in parts:
        count = users[part] - 1
        if count:
            users[part] = count
        else:
            domain.key_cost -= COSTS.get(part, 1)
            del users[part]
