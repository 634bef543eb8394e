# Written by scripts/gen-view-types from packet_reformat.py; a test fails when it is stale.

from layouts.codec import View
from layouts.fields import Items, Nested, Octets
from layouts.prm import Prm

class PacketReformatContextIn(View):
    reformat_type: int
    reformat_param_0: int
    reformat_data_size: int
    reformat_param_1: int
    reformat_data: Octets
    more_reformat_data: Items[bytes]

packet_reformat_context_in: Prm[PacketReformatContextIn]

class AllocPacketReformatContextIn(View):
    opcode: int
    op_mod: int
    packet_reformat_context: Nested[PacketReformatContextIn]

alloc_packet_reformat_context_in: Prm[AllocPacketReformatContextIn]

class AllocPacketReformatContextOut(View):
    status: int
    syndrome: int
    packet_reformat_id: int

alloc_packet_reformat_context_out: Prm[AllocPacketReformatContextOut]

class QueryPacketReformatContextIn(View):
    opcode: int
    op_mod: int
    packet_reformat_id: int

query_packet_reformat_context_in: Prm[QueryPacketReformatContextIn]

class QueryPacketReformatContextOut(View):
    status: int
    syndrome: int
    packet_reformat_context: Nested[PacketReformatContextIn]

query_packet_reformat_context_out: Prm[QueryPacketReformatContextOut]

class DeallocPacketReformatContextIn(View):
    opcode: int
    op_mod: int
    packet_reformat_id: int

dealloc_packet_reformat_context_in: Prm[DeallocPacketReformatContextIn]

class DeallocPacketReformatContextOut(View):
    status: int
    syndrome: int

dealloc_packet_reformat_context_out: Prm[DeallocPacketReformatContextOut]
