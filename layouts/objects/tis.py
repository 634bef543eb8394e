"""Transport interface send (TIS): priority and transport domain of the send queues that name it.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CMD_IN, CMD_IN_NO_UID, CMD_OUT
from layouts.prm import Prm, bits, rsvd

# Fields stand in rows, as in the PRM's figures.
# fmt: off

tisc = Prm(
    "tisc",
    "strict_lag_tx_port_affinity" / bits(1), "tls_en" / bits(1), rsvd(2),
    "lag_tx_port_affinity" / bits(4), rsvd(4), "prio" / bits(4), rsvd(280),
    "transport_domain" / bits(24), rsvd(8), "underlay_qpn" / bits(24), rsvd(8), "pd" / bits(24),
    rsvd(896),
)

create_tis_in = Prm("create_tis_in", *CMD_IN, rsvd(192), "ctx" / tisc)
create_tis_out = Prm("create_tis_out", *CMD_OUT, rsvd(8), "tisn" / bits(24), rsvd(32))

modify_tis_bitmask = Prm(
    "modify_tis_bitmask",
    rsvd(61), "lag_tx_port_affinity" / bits(1), "strict_lag_tx_port_affinity" / bits(1),
    "prio" / bits(1),
)

modify_tis_in = Prm(
    "modify_tis_in",
    *CMD_IN, rsvd(8), "tisn" / bits(24), rsvd(32), "bitmask" / modify_tis_bitmask, rsvd(64),
    "ctx" / tisc,
)

modify_tis_out = Prm("modify_tis_out", *CMD_OUT, rsvd(64))
query_tis_in = Prm("query_tis_in", *CMD_IN_NO_UID, rsvd(8), "tisn" / bits(24), rsvd(32))
query_tis_out = Prm("query_tis_out", *CMD_OUT, rsvd(64), "tis_context" / tisc)
destroy_tis_in = Prm("destroy_tis_in", *CMD_IN, rsvd(8), "tisn" / bits(24), rsvd(32))
destroy_tis_out = Prm("destroy_tis_out", *CMD_OUT, rsvd(64))
