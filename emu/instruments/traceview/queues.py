"""Summarizes each queue of a trace: created, used, failed, destroyed.

Queues are queue pairs, send, receive and shared receive queues, CQs and EQs. A reused number
is another queue. A trace may start late, so a queue's first event may be of any kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from emu.device.trace.event import TraceEvent, TracePoint
from emu.device.trace.text import number as written
from layouts.enums.qp import QpType

MAX_QUEUES = 0xFFFF - 1
"""Exceeds the queues of any run; further queues of a file are left out."""
MAX_WORDS = 8
"""Limit of states, and of kinds of requests and errors, kept per queue."""

_KINDS = {
    "qpn": "QP", "sqn": "SQ", "rqn": "RQ", "srqn": "SRQ", "xrc_srqn": "XRC SRQ", "rmpn": "RMP",
    "xrqn": "XRQ", "dctn": "DCT", "cqn": "CQ", "eqn": "EQ", "eq_number": "EQ",
}  # fmt: skip
"""Kind of queue that a command's field numbers."""
KINDS = tuple(dict.fromkeys(_KINDS.values()))
"""Kinds in display order."""
_WORK = ("QP", "SQ", "RQ", "DCT")
"""Kinds with a common number space: a completion has only the number."""
_CONTEXTS = ("qpc", "ctx", "cq_context", "eq_context_entry", "xrc_srq_context_entry", "dctc")
_OTHERS = {"cqn": "CQ", "cqn_snd": "CQ", "cqn_rcv": "CQ", "c_eqn_or_apu_element": "EQ"}
"""Fields of a context that name another queue, and its kind."""
_STATES = ("RST", "RDY", "?", "ERR")
"""States of a send or receive queue: MLX5_SQC_STATE_*, MLX5_RQC_STATE_*."""
_MAX_NAME_CHARS = 120
_NO_ERROR = ("", "OK")


class TracedQueue:
    """History of one queue."""

    __slots__ = (
        "began", "completions", "ended", "errors", "function", "kind", "number", "others",
        "requests", "service", "states",
    )  # fmt: skip

    def __init__(self, function: int, kind: str, number: int, began: bool) -> None:
        self.function = function
        self.kind = kind
        self.number = number
        self.began = began
        """Whether the trace has the command that created it; ``ended``: that destroyed it."""
        self.ended = False
        self.service = ""
        self.others: dict[str, None] = {}
        """The queues that receive its completions or events."""
        self.states: list[str] = []
        self.requests: Counter[str] = Counter()
        """Work requests of a send queue by kind; of an EQ, its events."""
        self.completions = 0
        self.errors: Counter[str] = Counter()
        """Error completions, error events, refused commands."""

    def row(self) -> list[Any]:
        """Return the queue's row of the page's table.

        Columns: function, kind, number, service with destination queues, history in words, requests
        by kind, completions, errors by kind. The counts are sorted, largest first.
        """
        leads = f"to {', '.join(self.others)}" if self.others else ""
        about = " ".join(filter(None, (self.service, leads)))
        life = [
            *(["created"] if self.began else []),
            *self.states,
            *(["destroyed"] if self.ended else []),
        ]
        return [
            *(self.function, self.kind, self.number, about, ", ".join(life)),
            *(dict(self.requests.most_common()), self.completions, dict(self.errors.most_common())),
        ]


class TracedQueues:
    """Processes a trace's events in order and assigns them to queues."""

    def __init__(self) -> None:
        self.all: list[TracedQueue] = []
        self._living: dict[tuple[int, str, int], int] = {}
        self._receivers: dict[tuple[int, int], set[int]] = {}
        """The receive queues of a function's CQ: a receive completion may name none."""
        self._cq_of: dict[int, tuple[int, int]] = {}
        """The function and CQ of a receive queue."""

    def feed(self, event: TraceEvent) -> tuple[int, int]:
        """Count an event at its queues; return its queue and the CQ or EQ that received it.

        Numbers are indexes in :attr:`all` plus one; 0 is none. Feed events in the order of the
        trace.
        """
        about = _READERS.get(event.point)
        return about(self, event) if about is not None else (0, 0)

    def _command(self, event: TraceEvent) -> tuple[int, int]:
        """Record a command at the queue that it creates, changes or destroys; return (queue, 0).

        Return (0, 0) for a command about no queue, or beyond MAX_QUEUES.
        """
        op = str(event.fields.get("op"))
        makes = op.startswith("CREATE_")
        named = _mapping(event.fields.get("out" if makes else "in"))
        for field, number in named.items():
            if field in _KINDS and isinstance(number, int) and _fits(op, field):
                place = self._index(event.function, _KINDS[field], number, makes)
                if place:
                    self._note(place, op, event)
                return place, 0
        return 0, 0

    def _note(self, place: int, op: str, event: TraceEvent) -> None:
        """Record a command's effects; a destroyed queue's number is free for another queue.

        After CREATE_RQ, the RQ is a receive queue of its CQ, until one of both is destroyed.
        """
        queue = self.all[place - 1]
        _note(queue, op, event)
        if queue.ended:
            self._living.pop((queue.function, queue.kind, queue.number), None)
            if queue.kind == "CQ":
                self._receivers.pop((queue.function, queue.number), None)
            elif (key := self._cq_of.pop(place, None)) is not None:
                self._receivers.get(key, set()).discard(place)
        elif op == "CREATE_RQ":
            cqn = _mapping(_mapping(event.fields.get("in")).get("ctx")).get("cqn")
            if isinstance(cqn, int):
                self._cq_of[place] = key = event.function, cqn
                self._receivers.setdefault(key, set()).add(place)

    def _request(self, event: TraceEvent) -> tuple[int, int]:
        """Count a work request at its send queue; return (queue, 0)."""
        place = self._work(event.function, event.fields.get("qpn"))
        if place:
            _count(self.all[place - 1].requests, str(event.fields.get("op")))
        return place, 0

    def _completion(self, event: TraceEvent) -> tuple[int, int]:
        """Count a completion, and its syndrome if failed, at work queue and CQ; return both.

        A completion without a queue's number belongs to the CQ's only receive queue.
        """
        work = self._work(event.function, event.fields.get("qpn"))
        cqn = event.fields.get("cqn")
        if not work and isinstance(cqn, int):
            receivers = self._receivers.get((event.function, cqn), ())
            work = next(iter(receivers)) if len(receivers) == 1 else 0
        queue = self._known(event.function, "CQ", cqn)
        syndrome = str(event.fields.get("syndrome", ""))
        for place in filter(None, (work, queue)):
            self.all[place - 1].completions += 1
            if syndrome not in _NO_ERROR:
                _count(self.all[place - 1].errors, syndrome)
        return work, queue

    def _event(self, event: TraceEvent) -> tuple[int, int]:
        """Count an event at its EQ, and an error event at the CQ or work queue that it names.

        Return that queue and the EQ; 0 for an unknown one. SRQ events name no queue here.
        """
        data, name = _mapping(event.fields.get("data")), str(event.fields.get("type"))
        queue = self._known(event.function, "EQ", event.fields.get("eqn"))
        if queue:
            _count(self.all[queue - 1].requests, name)
        about = 0
        if "cqn" in data:
            about = self._known(event.function, "CQ", data["cqn"])
        elif "qp_srq_n" in data and "SRQ" not in name:
            about = self._work(event.function, data["qp_srq_n"])
        if about and name.endswith(("_ERROR", "_ERR")):
            _count(self.all[about - 1].errors, name)
        return about, queue

    def _fault(self, event: TraceEvent) -> tuple[int, int]:
        """Return the queue of a page fault and 0; count the fault as an error if it failed."""
        place = self._work(event.function, event.fields.get("qpn"))
        if place and event.fields.get("outcome") == "error":
            _count(self.all[place - 1].errors, "page fault")
        return place, 0

    def _reset(self, event: TraceEvent) -> tuple[int, int]:
        """Forget the numbers of a function's queues, which are not marked as destroyed.

        Return (0, 0).
        """
        gone = [key for key in self._living if key[0] == event.function]
        for key in gone:
            del self._living[key]
        self._receivers = {k: v for k, v in self._receivers.items() if k[0] != event.function}
        return 0, 0

    def _work(self, function: int, number: object) -> int:
        """Return the index plus one of the work queue with a number; 0 if ``number`` is no integer.

        An unknown queue is recorded as a QP.
        """
        if not isinstance(number, int):
            return 0
        keys = ((function, kind, number) for kind in _WORK)
        place = next((self._living[key] for key in keys if key in self._living), 0)
        return place or self._index(function, "QP", number, False)

    def _known(self, function: int, kind: str, number: object) -> int:
        return self._index(function, kind, number, False) if isinstance(number, int) else 0

    def _index(self, function: int, kind: str, number: int, makes: bool) -> int:
        """Return the index plus one of a queue.

        Record the queue if it is unknown, or ``makes`` another. ``makes``: the event is the
        creating command. Events that precede the command's end belong to the queue that it creates.
        Beyond MAX_QUEUES return 0 and record nothing.
        """
        key = function, kind, number
        place = self._living.get(key, 0)
        if makes and place and not self.all[place - 1].began:
            # Events recorded while the creating command runs precede it, for example an EQ's.
            self.all[place - 1].began = True
        elif makes or not place:
            if len(self.all) >= MAX_QUEUES:
                return 0
            self.all.append(TracedQueue(function, kind, number, makes))
            self._living[key] = len(self.all)
        return self._living[key]


def ordered(queues: list[TracedQueue]) -> Iterator[tuple[int, TracedQueue]]:
    """Yield index plus one and queue: failed ones first, then by function, kind and number."""
    places = sorted(range(len(queues)), key=lambda place: _rank(queues[place]))
    return ((place + 1, queues[place]) for place in places)


def _rank(queue: TracedQueue) -> tuple[bool, int, int, int]:
    return not queue.errors, queue.function, KINDS.index(queue.kind), queue.number


def _note(queue: TracedQueue, op: str, event: TraceEvent) -> None:
    """Record a command on the queue: state, service, receiving CQs and EQs, or the end.

    A refused command counts as an error and has no other effect.
    """
    if event.is_refusal:
        _count(queue.errors, f"{op} {event.fields.get('status', 'not delivered')}")
        return
    given = _mapping(event.fields.get("in"))
    context = next((_mapping(given[name]) for name in _CONTEXTS if name in given), {})
    if op == "CREATE_QP":
        queue.service = _service(context.get("st", 0))
    for field, kind in _OTHERS.items():
        if isinstance(context.get(field), int) and len(queue.others) < MAX_WORDS:
            queue.others[f"{kind} {written(context[field])}"] = None
    state = _state(op, context)
    if state and queue.states[-1:] != [state]:
        queue.states.append(state)
        del queue.states[:-MAX_WORDS]
    queue.ended = queue.ended or op.startswith("DESTROY_")


def _state(op: str, context: Mapping[str, Any]) -> str:
    """Return the state that a command sets (2RST_QP, RST2INIT_QP, MODIFY_SQ, MODIFY_RQ).

    "" if none. Return "?" for an unknown state of an SQ or RQ.
    """
    if op in ("MODIFY_SQ", "MODIFY_RQ"):
        state = context.get("state", 0)
        return _STATES[state] if isinstance(state, int) and 0 <= state < len(_STATES) else "?"
    before, to, after = op.partition("2")
    return after.removesuffix("_QP") if to and after.endswith("_QP") and before != "QUERY" else ""


def _service(number: object) -> str:
    known = [one.name for one in QpType if one == number]
    return known[0] if known else "?"


def _fits(op: str, field: str) -> bool:
    """Return whether the command's object is the queue that the field numbers."""
    return op.endswith(f"_{_KINDS[field].replace(' ', '_')}")


def _count(counter: Counter[str], name: str) -> None:
    """Add one to a name's count.

    Beyond MAX_WORDS names add to "other". Names are cut at 120 characters.
    """
    name = name[:_MAX_NAME_CHARS]
    counter[name if name in counter or len(counter) < MAX_WORDS else "other"] += 1


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


_READERS: Mapping[str, Callable[[TracedQueues, TraceEvent], tuple[int, int]]] = {
    TracePoint.RESET: TracedQueues._reset,
    TracePoint.CMD: TracedQueues._command,
    TracePoint.WQE: TracedQueues._request,
    TracePoint.CQE: TracedQueues._completion,
    TracePoint.EQE: TracedQueues._event,
    TracePoint.FAULT: TracedQueues._fault,
}
