"""Memory keys and protection signatures: mkc, CREATE/QUERY/DESTROY_MKEY, PSVs.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CmdIn, CmdInNoUid, CmdOut
from layouts.prm import Prm, bits, nested, octets, rsvd, tail

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class mkc(Prm):
    _ = rsvd(1); free = bits(1); _ = rsvd(1); access_mode_4_2 = bits(3); _ = rsvd(7)
    relaxed_ordering_write = bits(1); _ = rsvd(1); small_fence_on_rdma_read_response = bits(1)
    umr_en = bits(1); a = bits(1); rw = bits(1); rr = bits(1); lw = bits(1); lr = bits(1)
    access_mode_1_0 = bits(2); _ = rsvd(2); ma_translation_mode = bits(2); _ = rsvd(4)
    qpn = bits(24); mkey_7_0 = bits(8); _ = rsvd(32)
    length64 = bits(1); bsf_en = bits(1); sync_umr = bits(1); _ = rsvd(2)
    expected_sigerr_count = bits(1); _ = rsvd(1); en_rinval = bits(1); pd = bits(24)
    start_addr = bits(64); len = bits(64); bsf_octword_size = bits(32); _ = rsvd(96)
    crossing_target_vhca_id = bits(16); _ = rsvd(16); translations_octword_size = bits(32)
    _ = rsvd(25); relaxed_ordering_read = bits(1); log_page_size = bits(6)
    _ = rsvd(3); crypto_en = bits(2); _ = rsvd(27)

class create_mkey_in(CmdIn):
    _ = rsvd(32)
    pg_access = bits(1); mkey_umem_valid = bits(1); data_direct = bits(1); _ = rsvd(29)
    memory_key_mkey_entry = nested(mkc); _ = rsvd(128); translations_octword_actual_size = bits(32)
    mkey_umem_id = bits(32); mkey_umem_offset = bits(64); bsf_octword_actual_size = bits(32)
    _ = rsvd(1248); klm_pas_mtt = tail(bits(64))

class create_mkey_out(CmdOut): _ = rsvd(8); mkey_index = bits(24); _ = rsvd(32)

class query_mkey_in(CmdInNoUid):
    _ = rsvd(8); mkey_index = bits(24); pg_access = bits(1); _ = rsvd(31)

class query_mkey_out(CmdOut):
    _ = rsvd(64); memory_key_mkey_entry = nested(mkc); _ = rsvd(1536)
    bsf0_klm0_pas_mtt0_1 = octets(16); bsf1_klm1_pas_mtt2_3 = octets(16)

class destroy_mkey_in(CmdIn): _ = rsvd(8); mkey_index = bits(24); _ = rsvd(32)
class destroy_mkey_out(CmdOut): _ = rsvd(64)
class create_psv_in(CmdInNoUid): num_psv = bits(4); _ = rsvd(4); pd = bits(24); _ = rsvd(32)

class create_psv_out(CmdOut):
    _ = rsvd(72); psv0_index = bits(24); _ = rsvd(8); psv1_index = bits(24)
    _ = rsvd(8); psv2_index = bits(24); _ = rsvd(8); psv3_index = bits(24)

class destroy_psv_in(CmdInNoUid): _ = rsvd(8); psvn = bits(24); _ = rsvd(32)
class destroy_psv_out(CmdOut): _ = rsvd(64)
