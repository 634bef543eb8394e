"""Memory keys and protection signatures: mkc, CREATE/QUERY/DESTROY_MKEY, PSVs.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CMD_IN, CMD_IN_NO_UID, CMD_OUT
from layouts.prm import Prm, bits, octets, rsvd, tail

# Fields stand in rows, as in the PRM's figures.
# fmt: off

mkc = Prm(
    "mkc",
    rsvd(1), "free" / bits(1), rsvd(1), "access_mode_4_2" / bits(3), rsvd(7),
    "relaxed_ordering_write" / bits(1), rsvd(1), "small_fence_on_rdma_read_response" / bits(1),
    "umr_en" / bits(1), "a" / bits(1), "rw" / bits(1), "rr" / bits(1), "lw" / bits(1),
    "lr" / bits(1), "access_mode_1_0" / bits(2), rsvd(2), "ma_translation_mode" / bits(2), rsvd(4),
    "qpn" / bits(24), "mkey_7_0" / bits(8), rsvd(32), "length64" / bits(1), "bsf_en" / bits(1),
    "sync_umr" / bits(1), rsvd(2), "expected_sigerr_count" / bits(1), rsvd(1),
    "en_rinval" / bits(1), "pd" / bits(24), "start_addr" / bits(64), "len" / bits(64),
    "bsf_octword_size" / bits(32), rsvd(96), "crossing_target_vhca_id" / bits(16), rsvd(16),
    "translations_octword_size" / bits(32), rsvd(25), "relaxed_ordering_read" / bits(1),
    "log_page_size" / bits(6), rsvd(3), "crypto_en" / bits(2), rsvd(27),
)

create_mkey_in = Prm(
    "create_mkey_in",
    *CMD_IN, rsvd(32), "pg_access" / bits(1), "mkey_umem_valid" / bits(1), "data_direct" / bits(1),
    rsvd(29), "memory_key_mkey_entry" / mkc, rsvd(128),
    "translations_octword_actual_size" / bits(32), "mkey_umem_id" / bits(32),
    "mkey_umem_offset" / bits(64), "bsf_octword_actual_size" / bits(32), rsvd(1248),
    "klm_pas_mtt" / tail(bits(64)),
)

create_mkey_out = Prm("create_mkey_out", *CMD_OUT, rsvd(8), "mkey_index" / bits(24), rsvd(32))

query_mkey_in = Prm(
    "query_mkey_in",
    *CMD_IN_NO_UID, rsvd(8), "mkey_index" / bits(24), "pg_access" / bits(1), rsvd(31),
)

query_mkey_out = Prm(
    "query_mkey_out",
    *CMD_OUT, rsvd(64), "memory_key_mkey_entry" / mkc, rsvd(1536),
    "bsf0_klm0_pas_mtt0_1" / octets(16), "bsf1_klm1_pas_mtt2_3" / octets(16),
)

destroy_mkey_in = Prm("destroy_mkey_in", *CMD_IN, rsvd(8), "mkey_index" / bits(24), rsvd(32))
destroy_mkey_out = Prm("destroy_mkey_out", *CMD_OUT, rsvd(64))

create_psv_in = Prm(
    "create_psv_in",
    *CMD_IN_NO_UID, "num_psv" / bits(4), rsvd(4), "pd" / bits(24), rsvd(32),
)

create_psv_out = Prm(
    "create_psv_out",
    *CMD_OUT, rsvd(72), "psv0_index" / bits(24), rsvd(8), "psv1_index" / bits(24), rsvd(8),
    "psv2_index" / bits(24), rsvd(8), "psv3_index" / bits(24),
)

destroy_psv_in = Prm("destroy_psv_in", *CMD_IN_NO_UID, rsvd(8), "psvn" / bits(24), rsvd(32))
destroy_psv_out = Prm("destroy_psv_out", *CMD_OUT, rsvd(64))
