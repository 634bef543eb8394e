"""The control protocol: JSON objects, one on a line, over a Unix stream socket of mode 0600.

The server greets: ``{"mlx5emu": VERSION, "protocol": 1, "methods": [...]}``. Then it answers
each request, in their order. A request is ``{"id": ID, "method": NAME, "params": {...}}``, where
``id`` (a number or a string) and ``params`` are optional; the answer has the same ``id`` and either
``result`` or ``error``, which is ``{"message": TEXT}``. An invalid request gets an error
without an id and ends the connection. Lines are at most 256 KiB from a client and 16 MiB from the
server, and nested at most 32 deep. A change of a method's meaning raises ``protocol``; new methods,
parameters and keys of results do not.

``status``, ``objects``, ``fault.*`` and ``net.*`` take ``guest`` as well, which may be missing: a
name of ``serve --guest``. The method is then about the functions of that guest only. A function's
``guest`` in a result is its name, or empty.

============ =================================== ==================================================
method       params                              result
============ =================================== ==================================================
status                                           ``functions``: state, port, counts of each, and
                                                 what the host holds for it (``ledger``, bytes);
                                                 ``t_ns``: the server's monotonic clock;
                                                 ``segments``: their ports, what has passed them
                                                 and what was dropped there, by reason
objects      function, kind, limit (all may be   by kind: ``total`` and ``items``; by default every
             missing)                            kind, 1000 of each; ``segments``: their ports
                                                 with the addresses behind them; an object that
                                                 could not be read has ``handle``, ``refs``, and
                                                 ``error``, which says so
fault.list                                       ``rules``: each with what it has met and fired
fault.add    rule: as in a plan                  ``name``: what the rule is called
fault.remove name                                {}
fault.load   plan: the text of one (TOML); none  ``rules``: how many there are now
             takes all rules away
net.show                                         ``links``: each with its properties and counts
net.set      link: as in a plan                  {}
============ =================================== ==================================================
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from types import NoneType
from typing import Any, Final

VERSION: Final = 1
MAX_REQUEST: Final = 256 << 10
MAX_ANSWER: Final = 16 << 20
MAX_DEPTH: Final = 32
"""Maximum nesting of objects and lists; bounds the recursion of code that walks them."""

_LONGEST_NAME: Final = 100


class MessageError(ValueError):
    """Bytes that are no valid message of the protocol."""


def encode(message: Mapping[str, object]) -> bytes:
    """Return the line of a message, with its newline."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


CLOSING: Final = b"}\n"


def opening(head: Mapping[str, object]) -> bytes:
    """Return the start of an answer whose result follows in segments; CLOSING ends it."""
    text = json.dumps(dict(head), separators=(",", ":"))[:-1].encode()
    return text + (b"," if head else b"") + b'"result":'


def decode(line: bytes) -> dict[str, object]:
    """Return the JSON object of a line.

    Raises :class:`MessageError` for other text, for another value than an object, and for more than
    MAX_DEPTH levels of nesting. Methods and parameters are not checked.
    """
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        raise MessageError("a line is not JSON") from None
    if not isinstance(message, dict):
        raise MessageError("a line is not a JSON object")
    # Fast path: few lines contain more than MAX_DEPTH brackets.
    if line.count(b"[") + line.count(b"{") > MAX_DEPTH and _is_too_deep(message):
        raise MessageError(f"a line is nested more than {MAX_DEPTH} deep")
    return message


def _is_too_deep(value: object) -> bool:
    """Return whether objects and lists are nested more than MAX_DEPTH deep."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [child for one in level for child in _children(one)]
    return any(isinstance(one, dict | list) for one in level)


def _children(value: object) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def request(message: Mapping[str, object]) -> tuple[str, dict[str, object]]:
    """Return method and parameters of a request; parameters are empty if it has none.

    Raises :class:`MessageError` for a missing or too long method, params that are no object, or an
    id that is neither number, string nor null. Does not check that the method exists.
    """
    method, params = message.get("method"), message.get("params", {})
    if not isinstance(method, str) or not isinstance(params, dict):
        raise MessageError("a request needs a method (string) and params (object)")
    if len(method) > _LONGEST_NAME:
        raise MessageError(f"a method's name has at most {_LONGEST_NAME} characters")
    if type(message.get("id", 0)) not in (int, float, str, NoneType):
        raise MessageError("a request's id is a number or a string")
    return method, params
