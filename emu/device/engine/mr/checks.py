"""Checks of a key's owner, rights and bounds (IBTA 10.6.3, 10.6.7, 9.7.4.1.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.engine.mr import special_keys
from emu.device.engine.mr.access_error import TOO_FRAGMENTED, AccessError, Violation
from emu.device.objects.domains import Pd
from emu.device.objects.memory.key_context import ANY_QPN
from emu.device.objects.memory.mkey import Mkey
from emu.device.objects.memory.views import Span

if TYPE_CHECKING:
    from emu.device.objects.queues.qp import Qp
    from emu.device.objects.table import Table
    from emu.device.state.hca import Hca, HcaOptions


def check_access(hca: Hca, pd: Pd | None, qpn: int, key: int, span: Span) -> None:
    """Check only the key of an ``access.access``, without translating; raise AccessError.

    Zero bytes always pass. A special key passes even if the span is longer than one access.
    """
    mkey = hca.mkeys.get(key >> 8)
    if not span[1]:
        return
    if mkey is None or mkey.variant != key & 0xFF:
        try:
            special_keys.views(hca, qpn, key, span, 0)
        except AccessError as error:
            if error.violation is not TOO_FRAGMENTED:
                raise
    else:
        check_key(hca.qps, hca.options, mkey, pd, qpn, key, span)


def check_key(
    qps: Table[Qp], options: HcaOptions, mkey: Mkey, pd: Pd | None, qpn: int, key: int, span: Span
) -> None:
    """Check an existing key in the order of IBTA 10.6.3; raise AccessError at the first violation.

    The violations are FREE, DOMAIN (another PD, or bound to another queue pair), RIGHTS and BOUNDS.
    A type 2A window of the queue pair passes the domain check.
    """
    va, length, need = span
    if mkey.free:
        raise AccessError(Violation.FREE, key, va, length)
    is_own = mkey.pd is pd and (mkey.qpn == ANY_QPN or is_for(qps, mkey, qpn))
    if not is_own and not is_type_2a(qps, options, mkey, qpn):
        raise AccessError(Violation.DOMAIN, key, va, length)
    if need & ~mkey.rights:
        raise AccessError(Violation.RIGHTS, key, va, length)
    if va < mkey.start or va + length > mkey.end:
        raise AccessError(Violation.BOUNDS, key, va, length)


def is_type_2a(qps: Table[Qp], options: HcaOptions, mkey: Mkey, qpn: int) -> bool:
    """Return whether the key is a type 2A window of this queue pair: its PD does not matter.

    Always False unless the function is configured for 2A windows. ConnectX has 2B.
    """
    return options.windows_2a and is_bound_to(qps, mkey, qpn)


def is_for(qps: Table[Qp], mkey: Mkey, qpn: int) -> bool:
    """Return whether a queue pair may use the key: an unbound key, or one bound to it."""
    return mkey.qpn == ANY_QPN or is_bound_to(qps, mkey, qpn)


def is_bound_to(qps: Table[Qp], mkey: Mkey, qpn: int) -> bool:
    """Return whether the key is bound to the queue pair that has this number now.

    A new queue pair may get the number of a destroyed one; the key is not bound to the new one. A
    type 2 window must not become valid again (IBTA 10.6.7).
    """
    qp = qps.get(qpn)
    return mkey.qpn == qpn and qp is not None and qp.serial == mkey.qp_serial


def bind_to_owner(qps: Table[Qp], mkey: Mkey) -> None:
    """Bind the key to the queue pair that now has the number in the key's context.

    Without such a queue pair no later one with that number can use the key.
    """
    owner = qps.get(mkey.qpn)
    mkey.qp_serial = owner.serial if owner is not None else 0
