"""Rights to memory, and how an access to a key is refused (IBTA 10.6.3)."""

from __future__ import annotations

from enum import IntEnum

LOCAL_READ, LOCAL_WRITE, REMOTE_READ, REMOTE_WRITE, REMOTE_ATOMIC = (1 << bit for bit in range(5))

WRITES = LOCAL_WRITE | REMOTE_WRITE | REMOTE_ATOMIC
"""Rights that need memory which may be written."""


class Refusal(IntEnum):
    """Why an access is refused, in the order in which it is checked."""

    NO_KEY = 1
    FREE = 2
    DOMAIN = 3
    RIGHTS = 4
    BOUNDS = 5
    TRANSLATION = 6
    DEPTH = 7


class AccessError(Exception):
    """A key does not allow an access; nothing was touched."""

    def __init__(self, refusal: Refusal, key: int, va: int, length: int) -> None:
        super().__init__(f"key {key:#x}, {va:#x}+{length:#x}: {refusal.name.lower()}")
        self.refusal = refusal


MOST_BYTES = 4 << 20
"""What is translated and moved in one go, at most."""

PACKET_BYTES = 4096 + 64
"""What can always be had in one go, however scattered it is: a packet with its headers."""

PIECE_BYTES = 1024
"""What is moved at a time of a range that falls into too many pieces for one go."""

STEPS_PER_ROUND = 4096
"""How much work a round of the loop begins: pieces and pages found by keys, some 10 ms."""

MOST_STEPS = 4096
"""How much of it an access may be; but each byte of a packet may take one for every key."""


class InPieces(AccessError):  # noqa: N818  # not an error: more of it than one go may be
    """Key and range are in order as far as they were looked at, but it is too much at once.

    Whoever can asks again for ``most`` bytes at a time. Others are refused.
    """

    def __init__(self, key: int, va: int, length: int, most: int) -> None:
        super().__init__(Refusal.TRANSLATION, key, va, length)
        self.most = most


class PageFault(AccessError):  # noqa: N818  # the field's word for it
    """A page of a key in good order is absent: who can wait for the driver, does.

    ``key`` and ``va`` name the page where the translation ended, which may be in a key below the
    one that was asked for; ``length`` is what was still wanted of that key. Of what an implicit key
    is made of, the implicit key itself is named: its driver takes the keys below it out of use
    without a word, and then does not know them any more (hw/odp.c).
    """

    def __init__(self, key: int, va: int, length: int) -> None:
        super().__init__(Refusal.TRANSLATION, key, va, length)
        self.key = key
        self.va = va
        self.length = length
