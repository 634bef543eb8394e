"""Encryption by the adapter: its capabilities, and the objects for keys and credentials.

Names and widths: mlx5_ifc.h of Linux 6.12, with the further names of rdma-core's.
"""

from __future__ import annotations

from layouts.prm import Prm, bits, octets, rsvd

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class crypto_cap(Prm):
    wrapped_crypto_operational = bits(1); wrapped_crypto_going_to_commissioning = bits(1)
    _ = rsvd(1); synchronize_dek = bits(1); int_kek_manual = bits(1); int_kek_auto = bits(1)
    _ = rsvd(18); wrapped_import_method = bits(8)
    _ = rsvd(3); log_dek_max_alloc = bits(5); _ = rsvd(3); log_max_num_deks = bits(5); _ = rsvd(3)
    log_max_num_import_keks = bits(5); _ = rsvd(3); log_max_num_creds = bits(5)
    failed_selftests = bits(16); num_nv_import_keks = bits(8); num_nv_credentials = bits(8)
    _ = rsvd(3); log_dek_granularity = bits(5); _ = rsvd(3); log_max_num_int_kek = bits(5)
    sw_wrapped_dek = bits(16); _ = rsvd(1920)

class encryption_key_obj(Prm):
    modify_field_select = bits(64)
    state = bits(8); sw_wrapped = bits(1); _ = rsvd(11); key_size = bits(4); has_keytag = bits(1)
    _ = rsvd(3); key_purpose = bits(4); _ = rsvd(8); pd = bits(24); _ = rsvd(256)
    opaque = octets(8); _ = rsvd(64); key = octets(128); sw_wrapped_dek = octets(128)
    _ = rsvd(1536)

class crypto_login_obj(Prm):
    modify_field_select = bits(64); _ = rsvd(68); state = bits(4); credential_pointer = bits(24)
    _ = rsvd(8); session_import_kek_ptr = bits(24); _ = rsvd(320); credential = octets(48)
    _ = rsvd(1152)
