"""A flow domain: decides about packets by the flow tables of one type.

Tables lead to tables of higher levels, except for entries with ignore_flow_level, which may lead to
any table. A packet visits at most MAX_TABLES tables. Decisions are cached under a key: the parts of
a packet that some group matches. Any change of the tables (``changes.py``) drops the whole cache.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable
from typing import TYPE_CHECKING, Final, NamedTuple

from emu.device.engine.eth.steering.changes import disuse_parts, use_parts
from emu.device.engine.eth.steering.fields import base
from emu.device.engine.eth.steering.match_field import Part
from emu.device.engine.eth.steering.rewrite import cost_of, rewrite
from emu.device.objects.eth.flow.action import FDB_DEFAULT, FteAction, FteVerdict, VportTarget
from emu.device.objects.eth.flow.domain import Decision, FlowDomain
from emu.device.objects.eth.flow.table import FlowTable, Miss
from emu.device.objects.eth.flow.targets import Sampler, StcJump
from emu.device.objects.eth.flow_counter import FlowCounter
from emu.device.objects.eth.flow_meter import Metering
from emu.device.objects.eth.reshape import Step, Steps, together
from emu.device.objects.object import Object
from emu.device.port.eth.headers import Headers, Marked
from emu.device.rounds.costs import LOG_STEERED_PER_STEP

if TYPE_CHECKING:
    from emu.device.ports import Clock

MAX_TABLES: Final = 256
"""Number of tables that one packet visits. The limit stops packets that several destinations
multiply, and loops of entries that ignore levels."""
MAX_GROUPS = 4096
"""Number of groups compared with one packet, in all these tables."""
MAX_FIELDS = 1 << 15
"""Number of fields read of one packet, in all these groups; changes on the path cost fields, too.
"""
FIELDS_PER_TABLE: Final = 4
"""Cost of a visited table in fields, without its groups."""
FIELDS_PER_DESTINATION: Final = 4
"""Cost of a destination in fields; most destination tables are never visited."""
MAX_DELIVERIES: Final = 256
"""Number of destinations that receive one packet."""
MAX_CHANGES: Final = 1024
"""Number of changes to one packet, over all its deliveries. A packet with more is dropped."""
MAX_METERS: Final = 8
"""Number of meters and samplers on one packet's path. A packet with more is dropped."""
MAX_LEARNED: Final = 64
"""Number of key parts read by software-owned entries. Decisions with more are not cached."""


def decide(
    domain: FlowDomain,
    headers: Headers,
    octets: int,
    packets: int = 1,
    root: FlowTable | None = None,
    clock: Clock | None = None,
) -> Decision:
    """Decide about a packet, and count it: ``packets`` packets of ``octets`` bytes in all.

    ``root`` is the first table, None for the domain's root. The cost is added to ``domain.steps``:
    at most that of one path through the tables. Meters and samplers on the path are queried at the
    time of ``clock``. Without a clock, and after MAX_METERS of them, ``Decision.asks`` names the
    next one; the decision has no deliveries and nothing is counted. Raises FrameError for an
    impossible change, with the cost of the path up to it added.
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
    """Decide where the cache has no final decision; cache the decision, and count nothing.

    ``decision`` is the cached one: None, or one that asks a meter or sampler. ``key`` is the
    packet's key. Without a clock, and after MAX_METERS answers, the result still asks.
    """
    answers: tuple[int, ...] = ()
    walk: Generator[Decision, int, None] | None = None
    while True:
        if decision is None:
            walk = _walk(domain, headers, root or domain.root)
            decision = next(walk)
            for answer in answers:
                if decision.asks is None:  # software's entries, not all decoded now, cost more
                    break
                decision = walk.send(answer)
            _remember(domain, headers, root, answers, key, decision)
        if decision.asks is None or clock is None or len(answers) == MAX_METERS:
            return decision
        answer = decision.asks.outcome(octets, headers.l3, clock.now_ns())
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
    """Cache a decision for packets with the same key.

    A decision with new key parts first extends the cache key, and is cached at once under the
    extended key. Do nothing if its parts are None (not known), or if the learnt parts would exceed
    MAX_LEARNED.
    """
    parts = decision.parts
    if parts is None:
        return
    if parts and not parts <= domain.users.keys():
        if not _learn(domain, parts):
            return
        key = _key(domain, headers, root, answers)
    domain.keep(key, decision)


def _key(
    domain: FlowDomain, headers: Headers, root: FlowTable | None, answers: tuple[int, ...]
) -> Hashable:
    """Return the cache key of a packet: its key parts, the root, and the answers so far."""
    key: Hashable = base(headers)
    if domain.users:
        key = (key, *[part(headers) for part in domain.users])
    if root is not None:
        key = (root.handle, key)
    if answers:
        key = (answers, key)
    return key


def _learn(domain: FlowDomain, parts: frozenset[Part]) -> bool:
    """Add key parts to the cache key, all or none; return whether all are in it.

    Return False if MAX_LEARNED would be exceeded.
    """
    new = parts.difference(domain.users)
    if len(domain.learnt) + len(new) > MAX_LEARNED:
        return False
    domain.learnt |= new
    use_parts(domain, new)
    return True


def _forget_software(domain: FlowDomain) -> None:
    """Drop all cached decisions, and the key parts learnt from software-owned entries.

    The cache follows ``domain.software.age`` from now on.
    """
    domain.age = domain.software.age
    disuse_parts(domain, domain.learnt)
    domain.learnt.clear()
    domain.flush()


def decide_beside(domain: FlowDomain, headers: Headers, octets: int, packets: int) -> Decision:
    """Decide about a packet that another port of a LAG received, and count it.

    The walk ends as a miss at the demux table. Meters and samplers are not queried: the decision
    then has no deliveries.
    """
    headers.parser = domain.parser
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
"""Constructs a named tuple in a fifth of the time."""


_TO_DEFAULT: Final = FteAction(FteVerdict.FORWARD, (FDB_DEFAULT,))


class _Visit(NamedTuple):
    """A pending table visit, and the packet's state there."""

    table: FlowTable
    headers: Headers
    tag: int = 0
    """Flow tag of the last entry that had one. The mark of a tc rule stays with its packets through
    the driver's own tables, whose entries have none (core/en_rx.c: mlx5e_build_rx_skb)."""
    steps: tuple[Step, ...] = ()
    changes: int = 0
    """Number of changes in these steps."""
    at: int = 0
    """Address of an STE in a software-owned table; 0 for the first one."""


def _walk(
    domain: FlowDomain,
    headers: Headers,
    root: FlowTable | None,
    *,
    is_beside: bool = False,
) -> Generator[Decision, int, None]:
    """Walk the tables; yield the decision last, and before it one for each meter or sampler.

    The caller sends the answer. A packet beyond MAX_TABLES, MAX_GROUPS or MAX_FIELDS counts as
    missed; one beyond MAX_CHANGES loses all deliveries.
    """
    deliveries: list[tuple[Object, int]] = []
    rewrites: list[tuple[Step, ...]] = []
    counters: list[FlowCounter] = []
    allowed = switched = False
    allowed_steps: tuple[Step, ...] = ()
    missed = root is None
    pending = [_Visit(root, headers)] if root else []
    tables = groups = fields = changes = cost = charged = 0
    parts: frozenset[Part] | None = frozenset()
    while pending and tables < MAX_TABLES and groups < MAX_GROUPS and fields < MAX_FIELDS:
        visit = pending.pop()
        table = visit.table
        tables += 1
        cost += FIELDS_PER_TABLE
        entry, after = None, None
        if table.software is not None:
            action, after, walked, read = table.software.walk(
                table, visit.headers, MAX_FIELDS - fields, visit.at, visit.steps
            )
            parts = None if parts is None or read is None else parts | read
            fields += walked
        for group in table.groups:
            groups += 1
            fields += group.criteria.cost
            entry = group.find(visit.headers)
            if entry is not None or groups >= MAX_GROUPS or fields >= MAX_FIELDS:
                break
        if entry is not None:
            action = entry.action
        elif table.software is None:
            if is_beside and table.is_demux:
                missed = True
                continue
            if isinstance(table.miss, FlowTable):
                pending.append(_onto(visit, table.miss))
            switched |= table.miss is Miss.SWITCH_DOMAIN
            if table.miss is not Miss.DEFAULT:
                continue
            missed = True
            if not domain.forwards_misses:
                continue
            action = _TO_DEFAULT
        counters += action.counters
        if action.tag:
            visit = visit._replace(tag=action.tag)
        steps = action.steps
        if action.metering is not None:
            charged = _charge(domain, groups + fields + changes + cost, charged)
            color = yield _to_ask(action.metering, parts)
            steps, after = (*steps, action.metering.marks[color]), None
        if steps:
            made = Steps(steps)
            if after is None:  # otherwise a part of the walk's cost
                fields += cost_of(made, len(visit.headers.frame)) << LOG_STEERED_PER_STEP
            # The change may be impossible, which ends the walk.
            charged = _charge(domain, groups + fields + changes + cost, charged)
            visit = _changed(visit, made, after)
            changes += len(made.changes)
        if action.verdict is FteVerdict.ALLOW:
            allowed, allowed_steps = True, visit.steps
        cost += FIELDS_PER_DESTINATION * len(action.destinations)
        for target in action.destinations:
            if isinstance(target, FlowTable):
                pending.append(_onto(visit, target))
            elif isinstance(target, StcJump):
                pending.append(_onto(visit, target.table, target.address))
            elif isinstance(target, Sampler):
                charged = _charge(domain, groups + fields + changes + cost, charged)
                answer = yield _to_ask(target, parts)
                pending += [_onto(visit, table) for table in target.tables(answer)]
            else:
                deliveries.append((target, visit.tag))
                own = target.steps if isinstance(target, VportTarget) else ()
                rewrites.append((*visit.steps, *own) if own else visit.steps)
                changes += visit.changes + len(own)
        if changes > MAX_CHANGES:
            deliveries, rewrites, missed, allowed, allowed_steps = [], [], True, False, ()
            break
    missed |= bool(pending)
    _charge(domain, groups + fields + changes + cost, charged)
    yield Decision(
        tuple(deliveries[:MAX_DELIVERIES]), tuple(counters), allowed, switched, missed,
        tuple(map(together, rewrites[:MAX_DELIVERIES])) if any(rewrites) else (),
        together(allowed_steps), parts=parts,
    )  # fmt: skip


def _charge(domain: FlowDomain, met: int, charged: int) -> int:
    """Charge the cost ``met`` beyond the cost already charged; return ``met``."""
    domain.steps += (met >> LOG_STEERED_PER_STEP) - (charged >> LOG_STEERED_PER_STEP)
    return met


def _to_ask(asked: Metering | Sampler, parts: frozenset[Part] | None) -> Decision:
    return Decision((), (), False, False, False, asks=asked, parts=parts)


def _onto(visit: _Visit, table: FlowTable, at: int = 0) -> _Visit:
    """Return the visit of another table with the same packet state."""
    return _new(_Visit, (table, visit.headers, visit.tag, visit.steps, visit.changes, at))


def _changed(visit: _Visit, made: Steps, after: Headers | None) -> _Visit:
    """Return the visit after these steps.

    ``after`` is the resulting packet if already known. Raises FrameError for a change that is
    impossible for the packet.
    """
    if after is None:
        before = visit.headers if isinstance(visit.headers, Marked) else Marked(visit.headers, {})
        after = rewrite(before, made)
    changes = visit.changes + len(made.changes)
    return visit._replace(headers=after, steps=(*visit.steps, *made.steps), changes=changes)
