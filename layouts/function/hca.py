"""Bring-up and teardown: ENABLE, INIT, TEARDOWN, DISABLE, ISSI, adapter, special contexts.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CMD_IN_NO_UID, CMD_OUT
from layouts.prm import Prm, bits, octets, rsvd

# Fields stand in rows, as in the PRM's figures.
# fmt: off

enable_hca_in = Prm(
    "enable_hca_in",
    *CMD_IN_NO_UID, "embedded_cpu_function" / bits(1), rsvd(15), "function_id" / bits(16),
    rsvd(32),
)

enable_hca_out = Prm("enable_hca_out", *CMD_OUT, rsvd(32))

disable_hca_in = Prm(
    "disable_hca_in",
    *CMD_IN_NO_UID, "embedded_cpu_function" / bits(1), rsvd(15), "function_id" / bits(16),
    rsvd(32),
)

disable_hca_out = Prm("disable_hca_out", *CMD_OUT, rsvd(32))

init_hca_in = Prm(
    "init_hca_in",
    *CMD_IN_NO_UID, rsvd(34), "sw_vhca_id" / bits(14), rsvd(16), "sw_owner_id" / octets(16),
)

init_hca_out = Prm("init_hca_out", *CMD_OUT, rsvd(64))
teardown_hca_in = Prm("teardown_hca_in", *CMD_IN_NO_UID, rsvd(16), "profile" / bits(16), rsvd(32))
teardown_hca_out = Prm("teardown_hca_out", *CMD_OUT, rsvd(63), "state" / bits(1))
query_issi_in = Prm("query_issi_in", *CMD_IN_NO_UID, rsvd(64))

query_issi_out = Prm(
    "query_issi_out",
    *CMD_OUT, rsvd(16), "current_issi" / bits(16), rsvd(768), "supported_issi_dw0" / bits(32),
)

set_issi_in = Prm("set_issi_in", *CMD_IN_NO_UID, rsvd(16), "current_issi" / bits(16), rsvd(32))
set_issi_out = Prm("set_issi_out", *CMD_OUT, rsvd(64))
query_adapter_in = Prm("query_adapter_in", *CMD_IN_NO_UID, rsvd(64))

query_adapter_param_block = Prm(
    "query_adapter_param_block",
    rsvd(200), "ieee_vendor_id" / bits(24), rsvd(16), "vsd_vendor_id" / bits(16),
    "vsd" / octets(208), "vsd_contd_psid" / octets(16),
)

query_adapter_out = Prm(
    "query_adapter_out",
    *CMD_OUT, rsvd(64), "query_adapter_struct" / query_adapter_param_block,
)

query_special_contexts_in = Prm("query_special_contexts_in", *CMD_IN_NO_UID, rsvd(64))

query_special_contexts_out = Prm(
    "query_special_contexts_out",
    *CMD_OUT, "dump_fill_mkey" / bits(32), "resd_lkey" / bits(32), "null_mkey" / bits(32),
    "terminate_scatter_list_mkey" / bits(32), "repeated_mkey" / bits(32), rsvd(32),
)

set_driver_version_in = Prm(
    "set_driver_version_in",
    *CMD_IN_NO_UID, rsvd(64), "driver_version" / octets(64),
)

set_driver_version_out = Prm("set_driver_version_out", *CMD_OUT, rsvd(64))
