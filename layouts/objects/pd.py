"""Protection domains, XRC domains and transport domains.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CMD_IN, CMD_OUT
from layouts.prm import Prm, bits, rsvd

# Fields stand in rows, as in the PRM's figures.
# fmt: off

alloc_pd_in = Prm("alloc_pd_in", *CMD_IN, rsvd(64))
alloc_pd_out = Prm("alloc_pd_out", *CMD_OUT, rsvd(8), "pd" / bits(24), rsvd(32))
dealloc_pd_in = Prm("dealloc_pd_in", *CMD_IN, rsvd(8), "pd" / bits(24), rsvd(32))
dealloc_pd_out = Prm("dealloc_pd_out", *CMD_OUT, rsvd(64))
alloc_xrcd_in = Prm("alloc_xrcd_in", *CMD_IN, rsvd(64))
alloc_xrcd_out = Prm("alloc_xrcd_out", *CMD_OUT, rsvd(8), "xrcd" / bits(24), rsvd(32))
dealloc_xrcd_in = Prm("dealloc_xrcd_in", *CMD_IN, rsvd(8), "xrcd" / bits(24), rsvd(32))
dealloc_xrcd_out = Prm("dealloc_xrcd_out", *CMD_OUT, rsvd(64))
alloc_transport_domain_in = Prm("alloc_transport_domain_in", *CMD_IN, rsvd(64))

alloc_transport_domain_out = Prm(
    "alloc_transport_domain_out",
    *CMD_OUT, rsvd(8), "transport_domain" / bits(24), rsvd(32),
)

dealloc_transport_domain_in = Prm(
    "dealloc_transport_domain_in",
    *CMD_IN, rsvd(8), "transport_domain" / bits(24), rsvd(32),
)

dealloc_transport_domain_out = Prm("dealloc_transport_domain_out", *CMD_OUT, rsvd(64))
