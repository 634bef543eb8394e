"""General objects: types without commands of their own in mlx5_ifc.h.

In place of op_mod the commands have the object's type (general_obj_in_cmd_hdr.obj_type).

Names and widths: rdma-core's mlx5_ifc.h (there it is create_reserved_qpn_in).
"""

from __future__ import annotations

from layouts.cmd import CMD_IN, CMD_OUT
from layouts.prm import Prm, bits, octets, rsvd, tail

# Fields stand in rows, as in the PRM's figures.
# fmt: off

# The object follows it, if its type has a structure of its own.
create_general_object_in = Prm(
    "create_general_object_in",
    *CMD_IN, rsvd(35), "log_obj_range" / bits(5), rsvd(24), "object" / tail(octets(8)),
)

create_general_object_out = Prm(
    "create_general_object_out",
    *CMD_OUT, "obj_id" / bits(32), rsvd(32),
)

modify_general_object_in = Prm(
    "modify_general_object_in",
    *CMD_IN, "obj_id" / bits(32), rsvd(32), "object" / tail(octets(8)),
)

modify_general_object_out = Prm("modify_general_object_out", *CMD_OUT, rsvd(64))

query_general_object_in = Prm(
    "query_general_object_in",
    *CMD_IN, "obj_id" / bits(32), rsvd(32),
)

query_general_object_out = Prm(
    "query_general_object_out",
    *CMD_OUT, "obj_id" / bits(32), rsvd(32), "object" / tail(octets(8)),
)

destroy_general_object_in = Prm(
    "destroy_general_object_in",
    *CMD_IN, "obj_id" / bits(32), rsvd(32),
)

destroy_general_object_out = Prm("destroy_general_object_out", *CMD_OUT, rsvd(64))
