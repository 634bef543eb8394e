"""Guest memory as the engine handles it: an ordered list of views of the guest's own bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

Views = Sequence[memoryview]

Span = tuple[int, int, int]
"""A range of a key's addresses and what is to be done there: va, bytes, set of rights."""


_FULL: Final = memoryview(b"")


def copy(target: Views, source: Views) -> None:
    """Copy all bytes of ``source`` into ``target``, which has room for them."""
    if len(target) == 1 and len(source) == 1:
        whole = source[0]
        target[0][: len(whole)] = whole
        return
    spaces = iter(target)
    space = _FULL
    for view in source:
        while view:
            if not space:
                space = next(spaces)
            size = len(view)
            if size == len(space):  # pages into pages
                space[:] = view
                space = _FULL
                break
            size = min(size, len(space))
            space[:size] = view[:size]
            view, space = view[size:], space[size:]


def length_of(views: Views) -> int:
    """Bytes in all views."""
    return sum(map(len, views))


def part(views: Views, start: int, length: int) -> list[memoryview]:
    """``length`` bytes from ``start`` on, still as views."""
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
