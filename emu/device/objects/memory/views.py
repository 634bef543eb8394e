"""Guest memory as the engine handles it: an ordered list of views of the guest's bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

Views = Sequence[memoryview]

Span = tuple[int, int, int]
"""A range of a key's addresses and the access to it: va, bytes, set of rights."""


_FULL: Final = memoryview(b"")


def copy(target: Views, source: Views) -> None:
    """Copy all bytes of ``source`` into the beginning of ``target``, which has space for them.

    Views may compute on assignment (signatures): each gets its bytes in one assignment.
    """
    if len(target) == 1 and len(source) == 1:
        whole = source[0]
        target[0][: len(whole)] = whole
        return
    spaces, views = iter(target), iter(source)
    space = _FULL
    for view in views:
        while view:
            if not space:
                space = next(spaces)
            size = len(view)
            if size == len(space):  # pages into pages
                space[:] = view
                space = _FULL
                break
            if size < len(space) and type(space) is not memoryview:
                view, space = _fill(space, view, views), _FULL
                continue
            size = min(size, len(space))
            space[:size] = view[:size]
            view, space = view[size:], space[size:]


def _fill(space: memoryview, view: memoryview, following: Iterator[memoryview]) -> memoryview:
    """Fill a computing target with as many bytes as fit, in one assignment.

    The bytes are ``view`` and those of ``following``. Returns the rest of the last view used.
    """
    octets = bytearray(view)
    view = _FULL
    for more in following:
        missing = len(space) - len(octets)
        octets += more[:missing]
        if len(more) >= missing:
            view = more[missing:]
            break
    space[: len(octets)] = memoryview(octets)
    return view


def length_of(views: Views) -> int:
    """Return the total bytes of the views."""
    return sum(map(len, views))


def part(views: Views, start: int, length: int) -> list[memoryview]:
    """Return views of ``length`` bytes from ``start`` on, without copying.

    Fewer bytes at the end.
    """
    parts: list[memoryview] = []
    for view in views:
        if start >= len(view):
            start -= len(view)
            continue
        piece = view[start : start + length]
        parts.append(piece)
        length -= len(piece)
        start = 0
        if not length:
            break
    return parts


def take_front(views: list[memoryview], size: int) -> Views:
    """Remove the first ``size`` bytes of views in reverse order, which have them; return them."""
    view = views.pop()
    if len(view) == size:
        return (view,)
    parts: list[memoryview] = []
    while len(view) < size:
        parts.append(view)
        size -= len(view)
        view = views.pop()
    if len(view) > size:
        views.append(view[size:])
        view = view[:size]
    return [*parts, view]
