"""What all objects have in common, and the classes that have declared themselves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, Final

from emu.device.objects.numbering import Numbering

DRIVER_UID: Final = 0
SHARED_UID: Final = 0xFFFF
"""Uids that are not user contexts: the driver's own, and that of objects for all users."""

MAX_CHILDREN: Final = 64
"""Maximum number of entries told of an object that has many: keys, receive queues."""


class Object:
    """Something that has a handle, with the number of objects that refer to it.

    A subclass with a ``kind`` of its own and with a ``numbering`` is a kind of object that each
    function has: nothing else declares it.
    """

    __slots__ = ("charge", "handle", "refs", "uid")
    kind: ClassVar[str] = "object"
    """What refusals, counts and ``mlx5emu objects`` call it."""
    numbering: ClassVar[Numbering | None] = None
    """How its handles run; None for what no table holds."""
    BASE_BYTES: ClassVar[int] = 256
    """What one object costs the host by itself."""

    def __init__(self) -> None:
        self.handle = 0
        self.refs = 0
        self.uid = DRIVER_UID
        """The user context that owns it."""
        self.charge = 0
        """The cost that the ledger has been charged for it."""

    @property
    def host_bytes(self) -> int:
        """What it costs the host now, including all of its own lists."""
        return self.BASE_BYTES

    def about(self) -> dict[str, object]:
        """What ``mlx5emu objects`` tells of it besides its handle: plain values by name.

        Of what may be a long list, the first :data:`MAX_CHILDREN`.
        """
        return {}

    def holds(self) -> tuple[Object, ...]:
        """The objects that this one refers to as long as it exists."""
        return ()

    def give_up(self) -> int:
        """Take back all that waits: its function has stopped, and no timer of it acts any more.

        Returns what that costs, in objects freed.
        """
        return 0

    def unlink(self) -> None:
        """It has gone and is about to be freed: take apart what refers to itself."""

    def __repr__(self) -> str:
        return f"{self.kind} {self.handle:#x}"


def kinds_below(base: type[Object]) -> dict[str, type[Object]]:
    """The classes that are a kind of object of their own, by kind. Each has a table.

    Raises ValueError when two classes have one kind.
    """
    kinds: dict[str, type[Object]] = {}
    for cls in base.__subclasses__():
        own = {cls.kind: cls} if "kind" in vars(cls) and cls.numbering is not None else {}
        for kind, of in [*own.items(), *kinds_below(cls).items()]:
            if kinds.setdefault(kind, of) is not of:
                raise ValueError(f"{kinds[kind]} is a {kind} already, not {of}")
    return kinds


@contextmanager
def holding(*items: Object | None) -> Iterator[None]:
    """Protect objects from being destroyed meanwhile, for a command that takes several turns."""
    there = [item for item in items if item is not None]
    for item in there:
        item.refs += 1
    try:
        yield
    finally:
        for item in there:
            item.refs -= 1
