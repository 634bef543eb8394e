"""Transport interface send (TIS): priority and transport domain of the send queues that name it.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CmdIn, CmdInNoUid, CmdOut
from layouts.prm import Prm, bits, nested, rsvd

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class tisc(Prm):
    strict_lag_tx_port_affinity = bits(1); tls_en = bits(1); _ = rsvd(2)
    lag_tx_port_affinity = bits(4); _ = rsvd(4); prio = bits(4); _ = rsvd(280)
    transport_domain = bits(24); _ = rsvd(8); underlay_qpn = bits(24); _ = rsvd(8); pd = bits(24)
    _ = rsvd(896)

class create_tis_in(CmdIn): _ = rsvd(192); ctx = nested(tisc)
class create_tis_out(CmdOut): _ = rsvd(8); tisn = bits(24); _ = rsvd(32)

class modify_tis_bitmask(Prm):
    _ = rsvd(61); lag_tx_port_affinity = bits(1); strict_lag_tx_port_affinity = bits(1)
    prio = bits(1)

class modify_tis_in(CmdIn):
    _ = rsvd(8); tisn = bits(24); _ = rsvd(32); bitmask = nested(modify_tis_bitmask); _ = rsvd(64)
    ctx = nested(tisc)

class modify_tis_out(CmdOut): _ = rsvd(64)
class query_tis_in(CmdInNoUid): _ = rsvd(8); tisn = bits(24); _ = rsvd(32)
class query_tis_out(CmdOut): _ = rsvd(64); tis_context = nested(tisc)
class destroy_tis_in(CmdIn): _ = rsvd(8); tisn = bits(24); _ = rsvd(32)
class destroy_tis_out(CmdOut): _ = rsvd(64)
