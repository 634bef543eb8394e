"""What becomes of a packet in the flow tables of one type, and which changes of them are allowed.

Tables of a domain lead to tables of higher levels, except for entries that may lead anywhere
(ignore_flow_level). A packet's way ends after MAX_TABLES tables in any case. Decisions
are cached by the parts of a packet that some group matches; any change drops the whole cache.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Generator, Hashable, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from emu.device.engine.eth.steering.fields import base, source
from emu.device.engine.eth.steering.match_field import COSTS, Part
from emu.device.engine.eth.steering.rewrite import marked, rewrite
from emu.device.errors import CmdError
from emu.device.objects.eth.flow import (
    Decision,
    FlowDomain,
    FlowEntry,
    FlowGroup,
    FlowTable,
    FteAction,
    FteVerdict,
    Miss,
    Sampler,
    StcJump,
    VportTarget,
)
from emu.device.objects.eth.flow_counter import FlowCounter
from emu.device.objects.eth.flow_meter import Metering
from emu.device.objects.eth.reshape import Step, Steps, together
from emu.device.objects.object import Object
from emu.device.port.eth.headers import Headers, Marked
from emu.device.rounds.costs import LOG_STEERED_PER_STEP
from layouts.enums import Status
from layouts.eth_enums import FlowSource

if TYPE_CHECKING:
    from emu.device.ports import Clock

MAX_TABLES: Final = 256
"""Tables that one packet visits. Without a limit entries with several destinations could make it
ever more, and entries that ignore levels could lead in a circle."""
MAX_GROUPS = 4096
"""Groups that one packet is compared with, in all of these tables."""
MAX_FIELDS = 1 << 15
"""Fields that are read of one packet, in all of these groups."""
FIELDS_PER_DESTINATION: Final = 4
"""Cost of a destination, beside what is met there; most of those to tables are never visited."""
MAX_DELIVERIES: Final = 256
"""Destinations that get one packet."""
MAX_CHANGES: Final = 1024
"""Changes that are made to one packet, over all that it is delivered to. With more it is lost."""
MAX_METERS: Final = 8
"""Meters and samplers on the way of one packet. With more it is lost."""
MAX_LEARNED: Final = 64
"""Parts of packets that entries of software read, beyond which decisions are not kept."""


# -- packets


def decide(
    domain: FlowDomain,
    headers: Headers,
    octets: int,
    packets: int = 1,
    root: FlowTable | None = None,
    clock: Clock | None = None,
) -> Decision:
    """Decide what happens to a packet, and count it: ``packets`` of ``octets`` in all.

    ``root`` is where it begins, None for the domain's root. What that has cost is added to
    ``domain.steps``: at most what one way through the tables takes. Meters and samplers on the way
    are asked at the time of the ``clock``. Without one, and after MAX_METERS of them, the decision
    is to ask the next one (``Decision.asks``), and nothing is counted.
    """
    headers.parser = domain.parser
    if domain.software is not None and domain.software.age != domain.age:
        _forget_software(domain)
    key = _key(domain, headers, root, ())
    decision = domain.decisions.get(key)
    if decision is None or (decision.asks is not None and clock is not None):
        decision = _decide_anew(domain, headers, octets, root, clock, key, decision)
    for counter in decision.counters:
        counter.packets += packets
        counter.octets += octets
    domain.steps += len(decision.counters) + domain.key_cost >> LOG_STEERED_PER_STEP
    return decision


def _decide_anew(
    domain: FlowDomain,
    headers: Headers,
    octets: int,
    root: FlowTable | None,
    clock: Clock | None,
    key: Hashable,
    decision: Decision | None,
) -> Decision:
    """As :func:`decide`, where ``decision`` is all that is kept: none, or to ask somebody.

    ``key`` is the packet's.

    Once a decision is not kept, the packet goes through the tables: all of its way, but no part of
    it twice.
    """
    answers: tuple[int, ...] = ()
    walk: Generator[Decision, int, None] | None = None
    while True:
        if decision is None:
            walk = _walk(domain, headers, root or domain.root)
            decision = next(walk)
            for answer in answers:
                decision = walk.send(answer)
            _remember(domain, headers, root, answers, key, decision)
        if decision.asks is None or clock is None or len(answers) == MAX_METERS:
            return decision
        answer = decision.asks.answer(octets, headers.l3, clock.now_ns())
        answers = (*answers, answer)
        key = _key(domain, headers, root, answers)
        if walk is None:
            decision = domain.decisions.get(key)
        else:
            decision = walk.send(answer)
            _remember(domain, headers, root, answers, key, decision)


def _remember(
    domain: FlowDomain,
    headers: Headers,
    root: FlowTable | None,
    answers: tuple[int, ...],
    key: Hashable,
    decision: Decision,
) -> None:
    """Keep a decision for the packets like this one, if it is known which these are."""
    parts = decision.parts
    if parts is None:
        return
    if parts and _learn(domain, parts):
        key = _key(domain, headers, root, answers)
    if domain.users.keys() >= parts:
        domain.keep(key, decision)


def _key(
    domain: FlowDomain, headers: Headers, root: FlowTable | None, answers: tuple[int, ...]
) -> Hashable:
    key: Hashable = base(headers)
    if domain.users:
        key = (key, *[part(headers) for part in domain.users])
    if root is not None:
        key = (root.handle, key)
    if answers:
        key = (answers, key)
    return key


def _learn(domain: FlowDomain, parts: frozenset[Part]) -> bool:
    """Let these parts decide which packets are alike, as far as there is room; if any is new."""
    new = parts.difference(domain.users)
    if not new or len(domain.learnt) + len(new) > MAX_LEARNED:
        return False
    domain.learnt |= new
    _use(domain, new)
    return True


def _forget_software(domain: FlowDomain) -> None:
    """Entries of software have changed."""
    domain.age = domain.software.age
    _disuse(domain, domain.learnt)
    domain.learnt.clear()
    domain.flush()


def decide_beside(domain: FlowDomain, headers: Headers, octets: int, packets: int) -> Decision:
    """As :func:`decide`, for a packet that has come by another port of a LAG.

    Where the ports are told apart, its way through these tables ends, as a miss.
    """
    key = ("beside", base(headers), *[part(headers) for part in domain.users])
    decision = domain.decisions.get(key)
    if decision is None:
        decision = next(_walk(domain, headers, domain.root, is_beside=True))
        if decision.parts == frozenset():
            domain.keep(key, decision)
    for counter in decision.counters:
        counter.packets += packets
        counter.octets += octets
    domain.steps += len(decision.counters) + domain.key_cost >> LOG_STEERED_PER_STEP
    return decision


_new: Final = tuple.__new__
"""Makes a named tuple in a fifth of the time."""


class _Way(NamedTuple):
    """Where a packet is going, and what entries have made of it so far."""

    table: FlowTable
    headers: Headers
    tag: int = 0
    """Of the last entry that had one: the mark of a tc rule goes with its packets through the
    driver's own tables, whose entries have none (core/en_rx.c: mlx5e_build_rx_skb)."""
    steps: tuple[Step, ...] = ()
    changes: int = 0
    """In all of these steps."""
    at: int = 0
    """The address of an entry of the table that software owns; 0 for its first one."""


def _walk(
    domain: FlowDomain,
    headers: Headers,
    root: FlowTable | None,
    *,
    is_beside: bool = False,
) -> Generator[Decision, int, None]:
    """Go through the tables: the decision comes last.

    Before it come those to ask a meter or a sampler; what that answers is sent in.
    """
    deliveries: list[tuple[Object, int]] = []
    rewrites: list[tuple[Step, ...]] = []
    counters: list[FlowCounter] = []
    allowed = switched = False
    passed: tuple[Step, ...] = ()
    missed = root is None
    ways = [_Way(root, headers)] if root else []
    tables = groups = fields = changes = led = charged = 0
    parts: frozenset[Part] | None = frozenset()
    while ways and tables < MAX_TABLES and groups < MAX_GROUPS and fields < MAX_FIELDS:
        way = ways.pop()
        table = way.table
        tables += 1
        entry, after = None, None
        if table.software is not None:
            action, after, cost, read = table.software.walk(
                table, way.headers, MAX_FIELDS - fields, way.at, way.steps
            )
            parts = None if parts is None or read is None else parts | read
            fields += cost
        for group in table.groups:
            groups += 1
            fields += group.criteria.cost
            entry = group.find(way.headers)
            if entry is not None or groups >= MAX_GROUPS or fields >= MAX_FIELDS:
                break
        if entry is not None:
            action = entry.action
        elif table.software is None:
            if is_beside and table.is_demux:
                missed = True
                continue
            if isinstance(table.miss, FlowTable):
                ways.append(_onto(way, table.miss))
            switched |= table.miss is Miss.SWITCH_DOMAIN
            missed |= table.miss is Miss.DEFAULT
            continue
        counters += action.counters
        if action.tag:
            way = way._replace(tag=action.tag)
        steps = action.steps
        if action.metering is not None:
            charged = _charge(domain, tables + groups + fields + changes + led, charged)
            color = yield _to_ask(action.metering, parts)
            steps, after = (*steps, action.metering.marks[color]), None
        if steps:
            way, before = _changed(way, steps, after), way.changes
            changes += way.changes - before
        if action.verdict is FteVerdict.ALLOW:
            allowed, passed = True, way.steps
        led += FIELDS_PER_DESTINATION * len(action.destinations)
        for target in action.destinations:
            if isinstance(target, FlowTable):
                ways.append(_onto(way, target))
            elif isinstance(target, StcJump):
                ways.append(_onto(way, target.table, target.address))
            elif isinstance(target, Sampler):
                charged = _charge(domain, tables + groups + fields + changes + led, charged)
                answer = yield _to_ask(target, parts)
                ways += [_onto(way, table) for table in target.tables(answer)]
            else:
                deliveries.append((target, way.tag))
                own = target.steps if isinstance(target, VportTarget) else ()
                rewrites.append((*way.steps, *own) if own else way.steps)
                changes += way.changes + len(own)
        if changes > MAX_CHANGES:
            deliveries, rewrites, missed, allowed, passed = [], [], True, False, ()
            break
    missed |= bool(ways)
    _charge(domain, tables + groups + fields + changes + led, charged)
    yield Decision(
        tuple(deliveries[:MAX_DELIVERIES]), tuple(counters), allowed, switched, missed,
        tuple(map(together, rewrites[:MAX_DELIVERIES])) if any(rewrites) else (),
        together(passed), parts=parts,
    )  # fmt: skip


def _charge(domain: FlowDomain, met: int, charged: int) -> int:
    """Charge what a packet has met beyond what it has been charged for; return ``met``."""
    domain.steps += (met >> LOG_STEERED_PER_STEP) - (charged >> LOG_STEERED_PER_STEP)
    return met


def _to_ask(asked: Metering | Sampler, parts: frozenset[Part] | None) -> Decision:
    return Decision((), (), False, False, False, asks=asked, parts=parts)


def _onto(way: _Way, table: FlowTable, at: int = 0) -> _Way:
    """The way on to another table."""
    return _new(_Way, (table, way.headers, way.tag, way.steps, way.changes, at))


def _changed(way: _Way, steps: tuple[Step, ...], after: Headers | None) -> _Way:
    """The way behind these steps; ``after`` is the packet then, if somebody knows it already."""
    if after is None:
        before = way.headers if isinstance(way.headers, Marked) else marked(way.headers, {})
        after = rewrite(before, Steps(steps))
    changes = way.changes + sum(len(step.changes) for step in steps)
    return way._replace(headers=after, steps=(*way.steps, *steps), changes=changes)


# -- checks before a change: each raises BAD_PARAM_ERR


def check_miss(level: int, miss: FlowTable | Miss) -> None:
    """A table's miss leads to a higher level only."""
    if isinstance(miss, FlowTable) and miss.level <= level:
        raise CmdError(
            Status.BAD_PARAM_ERR,
            "a flow table's miss must lead to a higher level",
            f"{miss.level} from {level}",
        )


def check_group(table: FlowTable, first: int, last: int) -> None:
    """Indices of a new group."""
    if not 0 <= first <= last < table.size:
        raise CmdError(
            Status.BAD_PARAM_ERR,
            "flow group's indices lie outside its table",
            f"{first} to {last} of {table.size}",
        )
    if table.is_taken(first, last):
        raise CmdError(
            Status.BAD_PARAM_ERR,
            "flow group's indices overlap another group's",
            f"{first} to {last}",
        )


def check_index(group: FlowGroup, index: int) -> None:
    """Index of a new entry."""
    if not group.first <= index <= group.last:
        raise CmdError(
            Status.BAD_PARAM_ERR,
            "flow table entry's index is outside its group",
            f"{index}, group has {group.first} to {group.last}",
        )
    if index in group.entries:
        raise CmdError(
            Status.BAD_PARAM_ERR, "flow table already has an entry at this index", f"{index}"
        )


def check_action(table: FlowTable, action: FteAction, *, ignores_level: bool = False) -> None:
    """What an entry of this table does; one that ``ignores_level`` may lead to any table.

    So may all to tables of software, whose own levels nobody sees: rdma-core gives all of them one
    (dr_action.c: dr_action_create_dest_array_tbl).
    """
    if (action.verdict is FteVerdict.FORWARD) != bool(action.destinations):
        raise CmdError(
            Status.BAD_PARAM_ERR,
            "flow table entry must have destinations if it forwards, and only then",
        )
    targets: list[FlowTable | Sampler] = [*action.tables, *action.samplers]
    for target in targets:
        is_free = ignores_level or (isinstance(target, FlowTable) and target.roots is not None)
        if target.level <= table.level and not is_free:
            raise CmdError(
                Status.BAD_PARAM_ERR,
                "flow table entries must lead to a higher level",
                f"{target.level} from {table.level}",
            )


# -- changes


def set_root(domain: FlowDomain, table: FlowTable | None) -> None:
    """Let packets begin elsewhere, or nowhere."""
    domain.root = table
    domain.flush()


def set_underlay(domain: FlowDomain, qpn: int, table: FlowTable | None) -> None:
    """Let the packets of an underlay queue pair begin elsewhere, or nowhere."""
    if table is None:
        domain.underlays.pop(qpn, None)
    else:
        domain.underlays[qpn] = table
    domain.flush()


def forget_underlays(domain: FlowDomain, table: FlowTable) -> None:
    """A table goes: no underlay's packets begin there any more."""
    for qpn in [qpn for qpn, root in domain.underlays.items() if root is table]:
        set_underlay(domain, qpn, None)


def add_group(domain: FlowDomain, group: FlowGroup) -> None:
    """Let packets of its table be compared with a group."""
    insort(group.table.groups, group, key=lambda each: each.first)
    _use(domain, group.criteria.parts)
    domain.flush()


def remove_group(domain: FlowDomain, group: FlowGroup) -> None:
    """Take out a group, which has no entries."""
    group.table.groups.remove(group)
    _disuse(domain, group.criteria.parts)
    domain.flush()


def add_entry(domain: FlowDomain, entry: FlowEntry) -> None:
    """Let packets find an entry."""
    entry.group.add(entry)
    _use(domain, _copied(entry.action))
    _use(domain, _sources(entry))
    domain.flush()


def change_action(domain: FlowDomain, entry: FlowEntry, action: FteAction) -> None:
    """Let an entry do something else with its packets."""
    _disuse(domain, _copied(entry.action))
    entry.action = action
    _use(domain, _copied(action))
    domain.flush()


def remove_entry(domain: FlowDomain, entry: FlowEntry) -> None:
    """Packets go to the next entry that they match."""
    entry.group.discard(entry)
    _disuse(domain, _copied(entry.action))
    _disuse(domain, _sources(entry))
    domain.flush()


def _sources(entry: FlowEntry) -> tuple[Part, ...]:
    """The part of a packet that decides whether the entry is for packets from there."""
    return () if entry.source is FlowSource.ANY else (source,)


def _copied(action: FteAction) -> frozenset[Part]:
    """The parts of a packet that decide what its fields or registers are after this."""
    return frozenset[Part]().union(*(step.parts for step in action.steps))


def _use(domain: FlowDomain, parts: Iterable[Part]) -> None:
    users = domain.users
    for part in parts:
        count = users.get(part, 0)
        if not count:
            domain.key_cost += COSTS.get(part, 1)
        users[part] = count + 1


def _disuse(domain: FlowDomain, parts: Iterable[Part]) -> None:
    users = domain.users
    for part in parts:
        count = users[part] - 1
        if count:
            users[part] = count
        else:
            domain.key_cost -= COSTS.get(part, 1)
            del users[part]
