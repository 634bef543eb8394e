"""Resource dump: the objects behind an adapter's numbers, as a stream of segments.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from enum import IntEnum

from layouts.prm import Prm, bits, nested, octets, rsvd

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

INLINE_BYTES = 208

class resource_dump(Prm):
    more_dump = bits(1); inline_dump = bits(1); _ = rsvd(10); seq_num = bits(4)
    segment_type = bits(16); _ = rsvd(16); vhca_id = bits(16); index1 = bits(32); index2 = bits(32)
    num_of_obj1 = bits(16); num_of_obj2 = bits(16); _ = rsvd(32); device_opaque = bits(64)
    mkey = bits(32); size = bits(32); address = bits(64); inline_data = octets(INLINE_BYTES)

class resource_dump_segment_header(Prm): length_dw = bits(16); segment_type = bits(16)

class resource_dump_info_segment(Prm):
    segment_header = nested(resource_dump_segment_header); _ = rsvd(24); dump_version = bits(8)
    hw_version = bits(32); fw_version = bits(32)

class resource_dump_command_segment(Prm):
    segment_header = nested(resource_dump_segment_header)
    segment_called = bits(16); vhca_id = bits(16); index1 = bits(32); index2 = bits(32)
    num_of_obj1 = bits(16); num_of_obj2 = bits(16)

class resource_dump_error_segment(Prm):
    segment_header = nested(resource_dump_segment_header); _ = rsvd(16); syndrome_id = bits(16)
    _ = rsvd(64); error = octets(32)

class resource_dump_menu_record(Prm):
    _ = rsvd(4); num_of_obj2_supports_active = bits(1); num_of_obj2_supports_all = bits(1)
    must_have_num_of_obj2 = bits(1); support_num_of_obj2 = bits(1)
    num_of_obj1_supports_active = bits(1); num_of_obj1_supports_all = bits(1)
    must_have_num_of_obj1 = bits(1); support_num_of_obj1 = bits(1); must_have_index2 = bits(1)
    support_index2 = bits(1); must_have_index1 = bits(1); support_index1 = bits(1)
    segment_type = bits(16); segment_name = octets(16); index1_name = octets(16)
    index2_name = octets(16)

class resource_dump_menu_segment(Prm):
    segment_header = nested(resource_dump_segment_header); _ = rsvd(16); num_of_records = bits(16)

class resource_dump_resource_segment(Prm):
    segment_header = nested(resource_dump_segment_header); _ = rsvd(32); index1 = bits(32)
    index2 = bits(32)

# fmt: on


class SegmentType(IntEnum):
    """Segments that every dump has (mstflint: resource_dump_segments_be.h)."""

    COMMAND = 0xFFFA
    TERMINATE = 0xFFFB
    ERROR = 0xFFFC
    INFO = 0xFFFE
    MENU = 0xFFFF
