"""Domains and doorbell pages: numbers that queues and keys refer to, without other state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.cmdif.registry import command
from emu.device.objects.domains import Pd, TransportDomain, Uar, Xrcd
from layouts.enums.cmd import Op
from layouts.objects import pd as layout
from layouts.objects import uar as uar_layout

if TYPE_CHECKING:
    from emu.device.state.tables import ObjectTables


@command(Op.ALLOC_PD)
def alloc_pd(tables: ObjectTables, cmd: layout.alloc_pd_in, out: layout.alloc_pd_out) -> None:
    """Make a protection domain."""
    out.pd = tables.pds.add(Pd())


@command(Op.DEALLOC_PD)
def dealloc_pd(tables: ObjectTables, cmd: layout.dealloc_pd_in, out: layout.dealloc_pd_out) -> None:
    """Destroy the domain; refused while a key or queue belongs to it."""
    tables.pds.remove(cmd.pd)


@command(Op.ALLOC_XRCD)
def alloc_xrcd(tables: ObjectTables, cmd: layout.alloc_xrcd_in, out: layout.alloc_xrcd_out) -> None:
    """Make an XRC domain."""
    out.xrcd = tables.xrcds.add(Xrcd())


@command(Op.DEALLOC_XRCD)
def dealloc_xrcd(
    tables: ObjectTables, cmd: layout.dealloc_xrcd_in, out: layout.dealloc_xrcd_out
) -> None:
    """Destroy the domain; refused while a queue belongs to it."""
    tables.xrcds.remove(cmd.xrcd)


@command(Op.ALLOC_TRANSPORT_DOMAIN)
def alloc_transport_domain(
    tables: ObjectTables,
    cmd: layout.alloc_transport_domain_in,
    out: layout.alloc_transport_domain_out,
) -> None:
    """Make a transport domain."""
    out.transport_domain = tables.tds.add(TransportDomain())


@command(Op.DEALLOC_TRANSPORT_DOMAIN)
def dealloc_transport_domain(
    tables: ObjectTables,
    cmd: layout.dealloc_transport_domain_in,
    out: layout.dealloc_transport_domain_out,
) -> None:
    """Destroy the domain; refused while a TIR or TIS refers to it."""
    tables.tds.remove(cmd.transport_domain)


@command(Op.ALLOC_UAR)
def alloc_uar(
    tables: ObjectTables, cmd: uar_layout.alloc_uar_in, out: uar_layout.alloc_uar_out
) -> None:
    """Assign a doorbell page of BAR 0 with log_uar_page_sz (core/uar.c: uar2pfn)."""
    out.uar = tables.uars.add(Uar())


@command(Op.DEALLOC_UAR)
def dealloc_uar(
    tables: ObjectTables, cmd: uar_layout.dealloc_uar_in, out: uar_layout.dealloc_uar_out
) -> None:
    """Free the doorbell page, even if a queue still uses it."""
    tables.uars.remove(cmd.uar)
