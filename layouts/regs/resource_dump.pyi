# Written by scripts/gen-view-types from resource_dump.py; a test fails when it is stale.

from enum import IntEnum
from typing import Final

from layouts.codec import View
from layouts.fields import Nested, Octets
from layouts.prm import Prm

INLINE_BYTES: Final = 208

class ResourceDump(View):
    more_dump: int
    inline_dump: int
    seq_num: int
    segment_type: int
    vhca_id: int
    index1: int
    index2: int
    num_of_obj1: int
    num_of_obj2: int
    device_opaque: int
    mkey: int
    size: int
    address: int
    inline_data: Octets

resource_dump: Prm[ResourceDump]

class ResourceDumpSegmentHeader(View):
    length_dw: int
    segment_type: int

resource_dump_segment_header: Prm[ResourceDumpSegmentHeader]

class ResourceDumpInfoSegment(View):
    segment_header: Nested[ResourceDumpSegmentHeader]
    dump_version: int
    hw_version: int
    fw_version: int

resource_dump_info_segment: Prm[ResourceDumpInfoSegment]

class ResourceDumpCommandSegment(View):
    segment_header: Nested[ResourceDumpSegmentHeader]
    segment_called: int
    vhca_id: int
    index1: int
    index2: int
    num_of_obj1: int
    num_of_obj2: int

resource_dump_command_segment: Prm[ResourceDumpCommandSegment]

class ResourceDumpErrorSegment(View):
    segment_header: Nested[ResourceDumpSegmentHeader]
    syndrome_id: int
    error: Octets

resource_dump_error_segment: Prm[ResourceDumpErrorSegment]

class ResourceDumpMenuRecord(View):
    num_of_obj2_supports_active: int
    num_of_obj2_supports_all: int
    must_have_num_of_obj2: int
    support_num_of_obj2: int
    num_of_obj1_supports_active: int
    num_of_obj1_supports_all: int
    must_have_num_of_obj1: int
    support_num_of_obj1: int
    must_have_index2: int
    support_index2: int
    must_have_index1: int
    support_index1: int
    segment_type: int
    segment_name: Octets
    index1_name: Octets
    index2_name: Octets

resource_dump_menu_record: Prm[ResourceDumpMenuRecord]

class ResourceDumpMenuSegment(View):
    segment_header: Nested[ResourceDumpSegmentHeader]
    num_of_records: int

resource_dump_menu_segment: Prm[ResourceDumpMenuSegment]

class ResourceDumpResourceSegment(View):
    segment_header: Nested[ResourceDumpSegmentHeader]
    index1: int
    index2: int

resource_dump_resource_segment: Prm[ResourceDumpResourceSegment]

class SegmentType(IntEnum):
    """Segments that every dump has (mstflint: resource_dump_segments_be.h)."""

    COMMAND = 0xFFFA
    TERMINATE = 0xFFFB
    ERROR = 0xFFFC
    INFO = 0xFFFE
    MENU = 0xFFFF
