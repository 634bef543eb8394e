"""Domains and doorbell pages: numbers that queues and keys refer to, without other state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.cmdif.registry import command
from emu.device.objects.domains import Pd, TransportDomain, Uar, Xrcd
from layouts.enums import Op
from layouts.objects import pd as layout
from layouts.objects import uar as uar_layout

if TYPE_CHECKING:
    from emu.device.state.hca import Hca


@command(Op.ALLOC_PD, layout.alloc_pd_in, layout.alloc_pd_out)
def alloc_pd(hca: Hca, cmd: layout.AllocPdIn, out: layout.AllocPdOut) -> None:
    """Make a protection domain."""
    out.pd = hca.pds.add(Pd())


@command(Op.DEALLOC_PD, layout.dealloc_pd_in, layout.dealloc_pd_out)
def dealloc_pd(hca: Hca, cmd: layout.DeallocPdIn, out: layout.DeallocPdOut) -> None:
    """Destroy the domain; refused while a key or queue belongs to it.

    The refusal is BAD_RES_STATE_ERR, as for an unknown number.
    """
    hca.pds.remove(cmd.pd)


@command(Op.ALLOC_XRCD, layout.alloc_xrcd_in, layout.alloc_xrcd_out)
def alloc_xrcd(hca: Hca, cmd: layout.AllocXrcdIn, out: layout.AllocXrcdOut) -> None:
    """Make an XRC domain."""
    out.xrcd = hca.xrcds.add(Xrcd())


@command(Op.DEALLOC_XRCD, layout.dealloc_xrcd_in, layout.dealloc_xrcd_out)
def dealloc_xrcd(hca: Hca, cmd: layout.DeallocXrcdIn, out: layout.DeallocXrcdOut) -> None:
    """Destroy the domain; refused while a queue belongs to it.

    The refusal is BAD_RES_STATE_ERR, as for an unknown number.
    """
    hca.xrcds.remove(cmd.xrcd)


@command(
    Op.ALLOC_TRANSPORT_DOMAIN, layout.alloc_transport_domain_in, layout.alloc_transport_domain_out
)
def alloc_transport_domain(
    hca: Hca, cmd: layout.AllocTransportDomainIn, out: layout.AllocTransportDomainOut
) -> None:
    """Make a transport domain.

    TIRs and TISs refer to its number. Refuse with LIM_ERR when no number is free.
    """
    out.transport_domain = hca.tds.add(TransportDomain())


@command(
    Op.DEALLOC_TRANSPORT_DOMAIN,
    layout.dealloc_transport_domain_in,
    layout.dealloc_transport_domain_out,
)
def dealloc_transport_domain(
    hca: Hca, cmd: layout.DeallocTransportDomainIn, out: layout.DeallocTransportDomainOut
) -> None:
    """Destroy the domain.

    Refuse with BAD_RES_STATE_ERR while a TIR or TIS refers to it, and for an unknown number.
    """
    hca.tds.remove(cmd.transport_domain)


@command(Op.ALLOC_UAR, uar_layout.alloc_uar_in, uar_layout.alloc_uar_out)
def alloc_uar(hca: Hca, cmd: uar_layout.AllocUarIn, out: uar_layout.AllocUarOut) -> None:
    """Assign a doorbell page of BAR 0 with log_uar_page_sz (core/uar.c: uar2pfn)."""
    out.uar = hca.uars.add(Uar())


@command(Op.DEALLOC_UAR, uar_layout.dealloc_uar_in, uar_layout.dealloc_uar_out)
def dealloc_uar(hca: Hca, cmd: uar_layout.DeallocUarIn, out: uar_layout.DeallocUarOut) -> None:
    """Free the doorbell page, even if a queue still uses it.

    Refuse an unknown number with BAD_RES_STATE_ERR.
    """
    hca.uars.remove(cmd.uar)
