"""The text form of an event: one line, for reading and for grep.

::

    12.345678 f0 cmd   slot 3 CREATE_EQ -> OK 41.2us  eq_context_entry{log_eq_size=7} | eq_number=1
    12.345912 f0 mmio  write uar 0x8 EQ_ARM eqn=1 ci=5
    12.346001 f0 eqe   eqn 1 CMD vector=0x8
    12.346010 f0 irq   vector 0 eqn 1

Time is in seconds since the first line. A number that counts something is decimal, any other from
10 on hexadecimal. The form is derived from the event's fields alone, so that a stored trace gives
the same lines. Any content of a field gives one line of printable characters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from emu.device.trace.event import KERNEL, UNDECODED, TraceEvent, TracePoint

_NS_PER_US = 1_000
_US_PER_S = 1_000_000

_DECIMAL = re.compile(
    r"(log|max|min|num|fw_rev)_.*|.*_(size|sz|us|khz|mtu|len|num|pages|entries|count|counter|stride)"
    r"|slot|intr|count|length|lid|ds|packets|octets"
)
_MAX_NESTED = 6
_MAX_NAMED = 512
"""Maximum number of functions whose names are remembered: 16 of a server with 31 VFs each."""
_MAX_NAME_CHARACTERS = 32


LEGEND = """\
# Seconds since the first line, function (f0; k: the guest's kernel), point:
# cmd    a firmware command: slot, name -> status, time, input | output
# mmio   a register of BAR 0, or a doorbell of a UAR, is read or written
# wqe    a work request of queue qpn is read
# cqe    CQ cqn gets a completion
# eqe    EQ eqn gets an event
# irq    an interrupt is raised
# nak    the responder of queue qpn refuses a request: the check, the reason
# fault  a page fault is over
# reset  the function is in its power-on state
# log    a line of the log of the guest's kernel
# call   a call that the guest's ftrace has seen
# A number from 10 on is hexadecimal, unless it counts something."""
"""Legend of the text form's columns and points, as lines of comment for a terminal."""


def seconds(ns: int) -> str:
    """Return a time span in seconds, to the microsecond."""
    sign, microseconds = "-" if ns < 0 else "", abs(ns) // _NS_PER_US
    return f"{sign}{microseconds // _US_PER_S}.{microseconds % _US_PER_S:06}"


class FunctionNames:
    """Names of a trace's functions: ``f1``, ``f0.vf1`` for a virtual one, or ``GUEST/f1``.

    The latter two once a reset event has named virtual function or guest.
    """

    def __init__(self) -> None:
        self.width = 2
        """Characters of the longest name so far."""
        self._guests: dict[int, str] = {}
        self._vfs: dict[int, str] = {}

    def learn(self, event: TraceEvent) -> None:
        """Read the names of guest and virtual function from a reset event; ignore other events.

        A name is cut to _MAX_NAME_CHARACTERS; after _MAX_NAMED functions no new one gets a name.
        """
        if event.point != TracePoint.RESET:
            return
        for key, names in (("guest", self._guests), ("vf", self._vfs)):
            name = event.fields.get(key)
            if name and (event.function in names or len(names) < _MAX_NAMED):
                names[event.function] = _word(name)[:_MAX_NAME_CHARACTERS]
                self.width = max(self.width, len(self.of(event.function)))

    def is_one(self, function: int, wanted: int | str) -> bool:
        """Return whether a function has this index, or this name of a virtual function."""
        return wanted in (function, self._vfs.get(function))

    def numbers(self, functions: Iterable[int]) -> list[str]:
        """Return the functions, but for the kernel, as users name them: by index or ``0.vf1``."""
        return [self._vfs.get(one, str(one)) for one in sorted(functions) if one != KERNEL]

    def guest(self, function: int) -> str | None:
        """Return the name of a function's guest; None if no event has named it."""
        return self._guests.get(function)

    def guests(self) -> list[str]:
        """Return the names of all guests so far, each once, in the order of their functions."""
        return list(dict.fromkeys(name for _, name in sorted(self._guests.items())))

    def of(self, function: int) -> str:
        """Return the name of a function in a line: ``k`` for the kernel, else as in the class."""
        if function == KERNEL:
            return "k"
        guest, name = self._guests.get(function), f"f{self._vfs.get(function, function)}"
        return name if guest is None else f"{guest}/{name}"


class TextForm:
    """Produces each event's line; time starts at the first event."""

    def __init__(self) -> None:
        self._origin_ns: int | None = None
        self.names = FunctionNames()

    def origin_ns(self, event: TraceEvent) -> int:
        """Return the time of the first event that this form has seen, perhaps of this one."""
        if self._origin_ns is None:
            self._origin_ns = event.t_ns
        return self._origin_ns

    def __call__(self, event: TraceEvent) -> str:
        """Return the line, without its end."""
        return " ".join(self.columns(event))

    def columns(self, event: TraceEvent) -> tuple[str, str, str, str]:
        """Return time, function, point and description, all but the last padded to columns.

        The time is in seconds since the first event. A reset event names the function's guest from
        now on.
        """
        time = f"{seconds(event.t_ns - self.origin_ns(event)):>12}"
        self.names.learn(event)
        whose = f"{self.names.of(event.function):{self.names.width}}"
        return time, whose, f"{_word(event.point):5}", body(event)


def number(value: object) -> str:
    """Return a number that names something as each view of a trace writes it: see above."""
    return _value("", value)


def body(event: TraceEvent) -> str:
    """Return an event's description, in words if the point has some, otherwise as ``name=value``.

    An undecoded event is shown by its bytes.
    """
    is_decoded = event.fields.get("error") != UNDECODED
    words = _WORDS.get(event.point) if is_decoded else _undecoded
    return " ".join(words(event.fields) if words else _pairs(event.fields)).rstrip()


def _undecoded(fields: Mapping[str, object]) -> Iterator[str]:
    yield f"{UNDECODED}:"
    yield from _pairs({name: value for name, value in fields.items() if name != "error"})


def _reset(fields: Mapping[str, object]) -> Iterator[str]:
    yield _word(fields.get("model"))


def _cmd(fields: Mapping[str, object]) -> Iterator[str]:
    """Yield slot, opcode and result of a command, then input and output as ``name=value``."""
    yield f"slot {_word(fields.get('slot'))} {_word(fields.get('op'))} ->"
    if "delivery" in fields:
        yield f"not delivered, {_word(fields['delivery'])}: {_word(fields.get('reason'))}"
    else:
        yield _word(fields.get("status"))
        yield f"{_word(fields.get('duration_us'))}us"
    if "syndrome" in fields:
        detail = f" ({_word(fields['detail'])})" if fields.get("detail") else ""
        yield f"syndrome {_value('', fields['syndrome'])}: {_word(fields.get('reason'))}{detail}"
    yield ""
    yield from _pairs(fields.get("in"))
    if fields.get("out"):
        yield "|"
        yield from _pairs(fields["out"])


def _mmio(fields: Mapping[str, object]) -> Iterator[str]:
    """Yield an access, its register or offset, and the decoded fields or the value."""
    yield f"{_word(fields.get('access')):5}"
    if "uar" in fields:
        yield f"uar {_value('', fields['uar'])}"
    if "vector" in fields:
        yield f"vector {_word(fields['vector'])}"
    register = fields.get("register")
    yield f"at {_value('', fields.get('offset'))}" if register is None else _word(register)
    if fields.get("fields"):
        yield from _pairs(fields["fields"])
    else:
        yield f"= {_value(_word(register), fields.get('value'))}"


def _eqe(fields: Mapping[str, object]) -> Iterator[str]:
    """Yield EQ number, event type, sub-type and data of an EQE."""
    yield f"eqn {_value('', fields.get('eqn'))} {_word(fields.get('type'))}"
    if "sub_type" in fields:
        yield _word(fields["sub_type"])
    yield from _pairs(fields.get("data"))


def _irq(fields: Mapping[str, object]) -> Iterator[str]:
    yield f"vector {_word(fields.get('vector'))} eqn {_value('', fields.get('eqn'))}"


def _wqe(fields: Mapping[str, object]) -> Iterator[str]:
    """Yield queue number, index and opcode of a work request, then its other fields."""
    yield f"qpn {_value('', fields.get('qpn'))} {_word(fields.get('index'))}"
    yield _word(fields.get("op"))
    named = ("qpn", "index", "op")
    yield from _pairs({name: value for name, value in fields.items() if name not in named})


def _cqe(fields: Mapping[str, object]) -> Iterator[str]:
    """Yield CQ number, queue number or flow tag, type, syndrome and fields of a CQE."""
    whose = "flow_tag" if "flow_tag" in fields else "qpn"
    yield f"cqn {_value('', fields.get('cqn'))} {whose} {_value('', fields.get(whose))}"
    yield _word(fields.get("type"))
    if "syndrome" in fields:
        yield _word(fields["syndrome"])
    if "compressed" in fields:
        yield "compressed"
    yield from _pairs(fields.get("data"))
    yield from _pairs({name: fields[name] for name in ("scattered",) if name in fields})


def _nak(fields: Mapping[str, object]) -> Iterator[str]:
    """Yield queue pair, check and reason of a refused request."""
    yield f"qpn {_value('', fields.get('qpn'))} {_word(fields.get('check'))}:"
    yield _word(fields.get("reason"))


def _fault(fields: Mapping[str, object]) -> Iterator[str]:
    """Yield token, queue pair, outcome, duration and absent page of a page fault."""
    yield f"token {_value('', fields.get('token'))} qpn {_value('', fields.get('qpn'))}"
    yield f"{_word(fields.get('side'))} {_word(fields.get('kind'))} ->"
    yield f"{_word(fields.get('outcome'))} {_word(fields.get('duration_us'))}us"
    yield from _pairs({name: fields[name] for name in ("key", "va", "length") if name in fields})


def _log(fields: Mapping[str, object]) -> Iterator[str]:
    yield _word(fields.get("text"))


def _call(fields: Mapping[str, object]) -> Iterator[str]:
    yield f"{_word(fields.get('name'))} <- {_word(fields.get('caller'))}"
    yield f"{_word(fields.get('task'))}-{_word(fields.get('pid'))} cpu {_word(fields.get('cpu'))}"


_WORDS: Mapping[str, Callable[[Mapping[str, object]], Iterator[str]]] = {
    TracePoint.RESET: _reset,
    TracePoint.CMD: _cmd,
    TracePoint.MMIO: _mmio,
    TracePoint.EQE: _eqe,
    TracePoint.IRQ: _irq,
    TracePoint.WQE: _wqe,
    TracePoint.CQE: _cqe,
    TracePoint.NAK: _nak,
    TracePoint.FAULT: _fault,
    TracePoint.LOG: _log,
    TracePoint.CALL: _call,
}


def _pairs(fields: object, depth: int = 0) -> Iterator[str]:
    """Yield ``name=value`` for each field; none for a value that is no mapping."""
    if not isinstance(fields, Mapping):
        return
    for name, value in fields.items():
        opening = "" if isinstance(value, Mapping) else "="
        yield f"{_word(name)}{opening}{_value(name, value, depth)}"


def _value(name: str, value: object, depth: int = 0) -> str:
    """Return a value as text: lists and mappings in brackets, down to six levels.

    Numbers of two digits or more are hexadecimal, unless the field's name means a count or a size.
    """
    if depth > _MAX_NESTED:
        return "..."
    if isinstance(value, Mapping):
        return f"{{{' '.join(_pairs(value, depth + 1))}}}"
    if isinstance(value, list):
        return f"[{','.join(_value(name, item, depth + 1) for item in value)}]"
    if type(value) is not int or -10 < value < 10 or _DECIMAL.fullmatch(name):
        return _word(value)
    return f"{value:#x}"


def _word(value: object) -> str:
    """Return a value as text, in JSON form if a character could affect a terminal."""
    if isinstance(value, (Mapping, list)):
        return _value("", value)
    text = str(value)
    return text if text.isascii() and text.isprintable() else json.dumps(text)
