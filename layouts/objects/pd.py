"""Protection domains, XRC domains and transport domains.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CmdIn, CmdOut
from layouts.prm import bits, rsvd

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class alloc_pd_in(CmdIn): _ = rsvd(64)
class alloc_pd_out(CmdOut): _ = rsvd(8); pd = bits(24); _ = rsvd(32)
class dealloc_pd_in(CmdIn): _ = rsvd(8); pd = bits(24); _ = rsvd(32)
class dealloc_pd_out(CmdOut): _ = rsvd(64)
class alloc_xrcd_in(CmdIn): _ = rsvd(64)
class alloc_xrcd_out(CmdOut): _ = rsvd(8); xrcd = bits(24); _ = rsvd(32)
class dealloc_xrcd_in(CmdIn): _ = rsvd(8); xrcd = bits(24); _ = rsvd(32)
class dealloc_xrcd_out(CmdOut): _ = rsvd(64)
class alloc_transport_domain_in(CmdIn): _ = rsvd(64)
class alloc_transport_domain_out(CmdOut): _ = rsvd(8); transport_domain = bits(24); _ = rsvd(32)
class dealloc_transport_domain_in(CmdIn): _ = rsvd(8); transport_domain = bits(24); _ = rsvd(32)
class dealloc_transport_domain_out(CmdOut): _ = rsvd(64)
