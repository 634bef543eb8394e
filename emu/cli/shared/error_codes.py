"""Explains vendor and hardware syndromes, from a number or a line of a log.

Known lines are those of mlx5_ib (error of a queue pair), mlx5_core (error CQE), libmlx5 and UCX,
and dumps of an error CQE's last 16 bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from emu.device.engine.events.error_syndromes import ERROR_SYNDROMES, ErrorSyndrome, Origin
from layouts.enums.cqe import CqeOpcode, CqeSyndrome
from layouts.enums.eqe import EventType

_WHOSE = {CqeOpcode.REQ_ERR: "a requester", CqeOpcode.RESP_ERR: "a responder"}


@dataclass(frozen=True)
class ErrorCodes:
    """Codes of an error in a log; None for a code that the log lacks."""

    vendor: int | None
    hw: tuple[int, int] | None = None
    """Type of the hardware syndrome, and hardware syndrome."""
    syndrome: int | None = None
    """Syndrome of the error CQE."""

    def __str__(self) -> str:
        words = []
        if self.vendor is not None:
            words.append(f"vendor syndrome {self.vendor:#x}")
        if self.hw is not None:
            words.append(f"hardware syndrome {self.hw[0]}/{self.hw[1]}")
        return ", ".join(words)


def _of_words(vendor: str, kind: str, hw: str) -> ErrorCodes:
    return ErrorCodes(int(vendor, 16), (int(kind, 16), int(hw, 16)))


def _of_ucx(syndrome: str, vendor: str, kind: str | None, hw: str | None) -> ErrorCodes:
    hardware = None if kind is None or hw is None else (int(kind), int(hw))
    return ErrorCodes(int(vendor, 16), hardware, int(syndrome, 16))


def _of_dump(word: str) -> ErrorCodes:
    hw, kind, vendor, syndrome = bytes.fromhex(word)
    return ErrorCodes(vendor, (kind >> 4, hw), syndrome)


def _of_vendor(vendor: str) -> ErrorCodes:
    return ErrorCodes(int(vendor, 0))


_FORMS: tuple[tuple[re.Pattern[str], Callable[..., ErrorCodes]], ...] = (
    (
        re.compile(r"error: .*\(0x([0-9a-f]{1,2}) 0x([0-9a-f]{1,2}) 0x([0-9a-f]{1,2})\)"),
        _of_words,
    ),
    (
        re.compile(r"synd 0x([0-9a-f]{1,2}) vend 0x([0-9a-f]{1,2})(?: hw_synd (\d+)/(\d+))?"),
        _of_ucx,
    ),
    (re.compile(r"(?:^|\W)0*30: (?:[0-9a-f]{2} ){4}((?:[0-9a-f]{2} ){4})"), _of_dump),
    (re.compile(r"^[0-9a-f]{8} ([0-9a-f]{8}) [0-9a-f]{8} [0-9a-f]{8}$"), _of_dump),
    (
        re.compile(
            r"(?:vendor[ _]err(?:or)?(?:_synd)?|vendor syndrome|syndrom)\W+"
            r"(0x[0-9a-f]{1,2}|[0-9]{1,3})\b"
        ),
        _of_vendor,
    ),
)


def codes_in(line: str) -> ErrorCodes | None:
    """Return the error codes in a line of a log or dump; None if no known form matches."""
    for form, read in _FORMS:
        if found := form.search(line.strip().lower()):
            return read(*found.groups())
    return None


def meanings(codes: ErrorCodes) -> list[str]:
    """Return a line for each error with these codes.

    If no error has both codes, return lines of errors with either one; empty for unknown codes. The
    lines say which codes are a guess.
    """
    both = list(dict.fromkeys(_matches(codes)))
    if both or codes.hw is None:
        return both
    either = (ErrorCodes(codes.vendor, None, codes.syndrome), ErrorCodes(None, codes.hw))
    return [line for one in either for line in dict.fromkeys(_matches(one))]


def _matches(codes: ErrorCodes) -> Iterator[str]:
    for (origin, syndrome, _), found in ERROR_SYNDROMES.items():
        if _fits(codes, origin, syndrome, found):
            yield f"{codes}: {_error(origin, syndrome)}: {found.meaning} ({_marks(codes, found)})"


def _fits(codes: ErrorCodes, origin: Origin, syndrome: CqeSyndrome, found: ErrorSyndrome) -> bool:
    return (
        codes.vendor in (None, found.vendor)
        and codes.hw in (None, (found.hw_type, found.hw))
        and (codes.syndrome in (None, syndrome) or isinstance(origin, EventType))
    )


def _error(origin: Origin, syndrome: CqeSyndrome) -> str:
    if isinstance(origin, EventType):
        return f"{origin.name} of a queue pair"
    return f"{syndrome.name} of {_WHOSE[origin]}"


def _marks(codes: ErrorCodes, found: ErrorSyndrome) -> str:
    is_seen = found.is_seen if codes.vendor is not None else True
    is_hw_seen = found.is_hw_seen if codes.hw is not None else True
    if is_seen and is_hw_seen:
        return "public logs of real adapters have it"
    return "a guess" if not is_seen else "the hardware syndrome is a guess"
