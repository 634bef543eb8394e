"""General objects: types without commands of their own in mlx5_ifc.h.

In place of op_mod the commands have the object's type (general_obj_in_cmd_hdr.obj_type).

Names and widths: rdma-core's mlx5_ifc.h (there it is create_reserved_qpn_in).
"""

from __future__ import annotations

from layouts.cmd import CmdIn, CmdOut
from layouts.prm import bits, octets, rsvd, tail

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

# The object follows it, if its type has a structure of its own.
class create_general_object_in(CmdIn):
    _ = rsvd(35); log_obj_range = bits(5); _ = rsvd(24); object = tail(octets(8))

class create_general_object_out(CmdOut): obj_id = bits(32); _ = rsvd(32)
class modify_general_object_in(CmdIn): obj_id = bits(32); _ = rsvd(32); object = tail(octets(8))
class modify_general_object_out(CmdOut): _ = rsvd(64)
class query_general_object_in(CmdIn): obj_id = bits(32); _ = rsvd(32)
class query_general_object_out(CmdOut): obj_id = bits(32); _ = rsvd(32); object = tail(octets(8))
class destroy_general_object_in(CmdIn): obj_id = bits(32); _ = rsvd(32)
class destroy_general_object_out(CmdOut): _ = rsvd(64)
