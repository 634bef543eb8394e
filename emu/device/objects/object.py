"""The base class of all objects, their owners, and the classes that have declared themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, Final

from emu.device.objects.numbering import Numbering

DRIVER_UID: Final = 0
SHARED_UID: Final = 0xFFFF
"""Uids that are not user contexts: the driver's own, and that of objects for all users."""

MAX_CHILDREN: Final = 64
"""Maximum number of listed children (keys, receive queues) in an object's description."""


class Object:
    """An object with a handle, and the number of objects that refer to it.

    A subclass with its own ``kind`` and a ``numbering`` is a kind of object that each function has.
    No other declaration is needed.
    """

    __slots__ = ("charge", "handle", "refs", "uid")
    kind: ClassVar[str] = "object"
    """Name in refusals, counts and ``mlx5emu objects``."""
    numbering: ClassVar[Numbering | None] = None
    """The range of handles; None for classes without a table."""
    BASE_BYTES: ClassVar[int] = 256
    """Cost of one object on the host, without its lists, in bytes."""

    def __init__(self) -> None:
        self.handle = 0
        self.refs = 0
        self.uid = DRIVER_UID
        """Uid of the owning user context."""
        self.charge = 0
        """Bytes charged to the ledger for the object."""

    @property
    def host_bytes(self) -> int:
        """Current cost on the host, including all of its own lists, in bytes."""
        return self.BASE_BYTES

    def about(self) -> dict[str, object]:
        """Return the fields for ``mlx5emu objects`` besides the handle: plain values by name.

        A long list is cut to the first :data:`MAX_CHILDREN` elements. Empty in the base class.
        """
        return {}

    def holds(self) -> tuple[Object, ...]:
        """Return the objects whose ``refs`` count this one while it is in a table.

        None by default.
        """
        return ()

    def cancel_work(self) -> int:
        """Cancel timers and drop pending work, as the function has stopped; no effect by default.

        Returns the cost as a number of freed objects.
        """
        return 0

    def unlink(self) -> None:
        """Break the reference cycles of an object that is about to be freed.

        No effect by default.
        """

    def __repr__(self) -> str:
        return f"{self.kind} {self.handle:#x}"


class CommandIssuer:
    """The sender of the running command: the ``uid`` that the driver writes into its header."""

    __slots__ = ("owned", "uid")

    def __init__(self) -> None:
        self.uid = DRIVER_UID
        self.owned: Counter[int] = Counter()
        """Number of objects by owner uid."""

    def owns(self, item: Object) -> bool:
        """Return whether the sender may destroy ``item``: the driver any, a user only its own."""
        return self.uid in (DRIVER_UID, SHARED_UID, item.uid)

    def may_use(self, item: Object) -> bool:
        """Return whether the sender may refer to ``item``: the driver to any, a user to its own.

        Objects with SHARED_UID are for all users.
        """
        return item.uid == SHARED_UID or self.owns(item)


def kinds_below(base: type[Object]) -> dict[str, type[Object]]:
    """Return the classes below ``base``, at any depth, that have their own table, by kind.

    A class counts if it declares ``kind`` itself and has a numbering. Raises ValueError when two
    classes have the same kind.
    """
    kinds: dict[str, type[Object]] = {}
    for cls in base.__subclasses__():
        own = {cls.kind: cls} if "kind" in vars(cls) and cls.numbering is not None else {}
        for kind, of in [*own.items(), *kinds_below(cls).items()]:
            if kinds.setdefault(kind, of) is not of:
                raise ValueError(f"two classes have the kind {kind!r}: {kinds[kind]} and {of}")
    return kinds


@contextmanager
def holding(*items: Object | None) -> Iterator[None]:
    """Count a reference to each object while the body runs, so that no command destroys it.

    For commands with several steps; None is ignored. References end also after an exception.
    """
    there = [item for item in items if item is not None]
    for item in there:
        item.refs += 1
    try:
        yield
    finally:
        for item in there:
            item.refs -= 1
