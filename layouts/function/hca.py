"""Bring-up and teardown: ENABLE, INIT, TEARDOWN, DISABLE, ISSI, adapter, special contexts.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CmdInNoUid, CmdOut
from layouts.prm import Prm, bits, nested, octets, rsvd

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class enable_hca_in(CmdInNoUid):
    embedded_cpu_function = bits(1); _ = rsvd(15); function_id = bits(16); _ = rsvd(32)

class enable_hca_out(CmdOut): _ = rsvd(32)

class disable_hca_in(CmdInNoUid):
    embedded_cpu_function = bits(1); _ = rsvd(15); function_id = bits(16); _ = rsvd(32)

class disable_hca_out(CmdOut): _ = rsvd(32)

class init_hca_in(CmdInNoUid):
    _ = rsvd(34); sw_vhca_id = bits(14); _ = rsvd(16); sw_owner_id = octets(16)

class init_hca_out(CmdOut): _ = rsvd(64)
class teardown_hca_in(CmdInNoUid): _ = rsvd(16); profile = bits(16); _ = rsvd(32)
class teardown_hca_out(CmdOut): _ = rsvd(63); state = bits(1)
class query_issi_in(CmdInNoUid): _ = rsvd(64)

class query_issi_out(CmdOut):
    _ = rsvd(16); current_issi = bits(16); _ = rsvd(768); supported_issi_dw0 = bits(32)

class set_issi_in(CmdInNoUid): _ = rsvd(16); current_issi = bits(16); _ = rsvd(32)
class set_issi_out(CmdOut): _ = rsvd(64)
class query_adapter_in(CmdInNoUid): _ = rsvd(64)

class query_adapter_param_block(Prm):
    _ = rsvd(200); ieee_vendor_id = bits(24); _ = rsvd(16); vsd_vendor_id = bits(16)
    vsd = octets(208); vsd_contd_psid = octets(16)

class query_adapter_out(CmdOut):
    _ = rsvd(64); query_adapter_struct = nested(query_adapter_param_block)

class query_special_contexts_in(CmdInNoUid): _ = rsvd(64)

class query_special_contexts_out(CmdOut):
    dump_fill_mkey = bits(32); resd_lkey = bits(32); null_mkey = bits(32)
    terminate_scatter_list_mkey = bits(32); repeated_mkey = bits(32); _ = rsvd(32)

class set_driver_version_in(CmdInNoUid): _ = rsvd(64); driver_version = octets(64)
class set_driver_version_out(CmdOut): _ = rsvd(64)
