"""Capabilities that all adapters share, by their names in mlx5_ifc.h, and those of a VF."""

from __future__ import annotations

from emu.device.models.model import BAR0_BYTES, Capabilities, group
from emu.device.objects.memory.memic import MEMIC_BYTES, MemicOperation
from layouts.enums.general_object import GeneralObject

ATOMIC_CMP_SWAP, ATOMIC_FETCH_ADD = 1 << 0, 1 << 1
ATOMIC_EXTENDED_CMP_SWAP, ATOMIC_EXTENDED_FETCH_ADD = 1 << 2, 1 << 3
"""Bits of atomic_operations (include/linux/mlx5/driver.h: MLX5_ATOMIC_OPS_*)."""

LOG_UAR_PAGE = 4
"""Log of the number of UARs in the largest page of a guest, 64 KiB (log_uar_page_sz)."""

BASE_GENERAL: Capabilities = group(
    # Transport services. mlx5_ib does not load without xrc (hw/main.c: mlx5_ib_dev_res_init).
    rc=1,
    uc=1,
    ud=1,
    xrc=1,
    pkv=1,
    qkv=1,
    # Automatic path migration (hw/main.c: IB_DEVICE_AUTO_PATH_MIG).
    apm=1,
    log_max_ra_req_qp=4,
    log_max_ra_res_qp=4,
    log_max_msg=30,
    local_ca_ack_delay=16,
    # The port. Table sizes are codes: 0 is 8 GIDs and 128 P_Keys.
    port_type=0,
    num_ports=1,
    ib_virt=1,
    vport_counters=1,
    vport_counter_local_loopback=1,
    vport_group_manager=0,
    gid_table_size=0,
    pkey_table_size=0,
    # Queues: their number, length and entry sizes. A table grows with its contents; the host's
    # memory limits the contents of all tables (``emu.device.objects.ledger``).
    log_max_qp=17,
    log_max_cq=24,
    log_max_qp_sz=15,
    log_max_srq=23,
    log_max_srq_sz=15,
    log_max_rmp=23,
    log_max_cq_sz=22,
    log_max_eq=6,
    max_num_eqs=64,
    log_max_eq_sz=13,
    max_wqe_sz_sq=1024,
    max_wqe_sz_rq=512,
    # A READ into more segments than this should use a memory key. With 0 the kernel's targets
    # size their queues for the segments instead (core/rw.c: rdma_rw_mr_factor), those with
    # T10-PI beyond log_max_qp_sz.
    max_sgl_for_optimized_performance=16,
    basic_cyclic_rcv_wqe=0,
    # CQEs name queues by the process's user index (libmlx5: cq.c: get_resp_ctx_v1); mlx5_ib
    # requires that for raw packets (ib/qp.c: check_valid_flow).
    cqe_version=1,
    cq_moderation=1,
    # ethtool -C needs it on Linux 6.12, of IPoIB's interfaces as well (core/en_ethtool.c:
    # mlx5e_ethtool_set_coalesce).
    cq_period_mode_modify=1,
    # With this bit mlx5e sets the mode in its receive CQs (core/en/params.c:
    # mlx5e_set_rx_cq_mode_params).
    cq_period_start_from_cqe=1,
    cq_resize=1,
    cq_oi=1,
    cqe_128_always=1,
    # Short messages and responses in CQEs.
    sctr_data_cqe=1,
    dc_req_scat_data_cqe=1,
    # CQEs of consecutive packets can share an entry: DPDK's default, and mlx5e's private flag
    # rx_cqe_compress. The maximum of a session is an assumption.
    cqe_compression=1,
    cqe_compression_max_num=64,
    block_lb_mc=1,
    # Protection and memory keys: UMR, memory windows, lists of all forms.
    log_max_pd=23,
    log_max_xrcd=8,
    log_max_transport_domain=0,
    log_max_mkey=24,
    log_max_mrw_sz=0x3F,
    log_max_klm_list_size=16,
    max_indirection=4,
    log_pg_sz=12,
    umr_modify_entity_size_disabled=0,
    umr_modify_atomic_disabled=0,
    umr_indirect_mkey_disabled=0,
    umr_extended_translation_offset=1,
    umr_fence=1,
    imaicl=1,
    # Relaxed ordering of reads and writes, and padded writes; without effect in the emulator.
    relaxed_ordering_write=1,
    relaxed_ordering_read=1,
    relaxed_ordering_read_pci_enabled=1,
    relaxed_ordering_write_umr=1,
    relaxed_ordering_read_umr=1,
    end_pad=1,
    # Processes that send commands themselves (DEVX), and the memory (umems) named in these.
    log_max_uctx=12,
    log_max_umem=16,
    # Block signatures: T10-DIF and CRCs; SIG_ERR completions name domain and type.
    sho=1,
    sigerr_cqe=1,
    sigerr_domain_and_sig_type=1,
    drain_sigerr=1,
    sig_block_4048=1,
    sig_crc32c=1,
    sig_crc64_xp10=1,
    log_max_bsf_list_size=6,
    # Multicast.
    log_max_mcg=21,
    max_qp_mcg=240,
    # Queue pair numbers for rdma_cm alone, one at a time (log_reserved_qpn_granularity 0).
    general_obj_types=1 << GeneralObject.RESERVED_QPN,
    # Doorbells. log_bf_reg_size spaces the doorbell registers, with or without BlueFlame.
    bf=0,
    log_bf_reg_size=9,
    uar_4k=1,
    num_of_uars_per_page=1 << LOG_UAR_PAGE,
    log_uar_page_sz=LOG_UAR_PAGE,
    # Fast teardown, for a machine that shuts down (core/main.c: shutdown).
    fast_teardown=1,
    force_teardown=1,
    # The driver reports its version (core/main.c: mlx5_set_driver_version).
    driver_version=1,
    # Registers about the firmware; devlink shows the version.
    mcam_reg=1,
    # Events about cables, temperature, and the slot's power.
    port_module_event=1,
    temp_warn_event=1,
    general_notification_event=1,
    pcam_reg=0,
    # The dump of objects (RESOURCE_DUMP).
    debug=1,
    # DC: targets and initiators. The extension of a qpc names the stream to be reset.
    dct=1,
    log_max_ra_req_dc=4,
    log_max_ra_res_dc=4,
    log_max_dci_stream_channels=5,
    log_max_dci_errored_streams=5,
    qpc_extension=1,
    # Others. A counter set's number has 8 bits; checksum 3 means that signatures can be
    # checked.
    max_qp_cnt=64,
    max_flow_counter_15_0=0x8000,
    out_of_seq_cnt=1,
    retransmission_q_counters=1,
    rts2rts_qp_counters_set_id=1,
    enhanced_error_q_counters=1,
    # Counters of devlink's vnic reporter (core/diag/reporter_vnic.c).
    eq_overrun_count=1,
    vnic_env_cq_overrun=1,
    invalid_command_count=1,
    device_frequency_khz=1_000_000,
    cmdif_checksum=3,
    log_max_current_uc_list=0,
    atomic=1,
    # On-demand paging; implicit keys need the null key and buffers of a fixed size.
    # ibv_alloc_null_mr returns the dump-fill key.
    pg=1,
    null_mkey=1,
    dump_fill_mkey=1,
    fixed_buffer_size=1,
    # Not supported.
    roce=0,
    qos=0,
    # Libraries read the second group without checking this bit (UCX:
    # uct_ib_mlx5_devx_query_cap_2).
    hca_cap_2=1,
)
"""General capabilities of an InfiniBand function, before a model's own limits."""

BASE_GENERAL_2: Capabilities = group(
    umr_log_entity_size_5=1,
    max_mkey_log_entity_size_fixed_buffer=0x3F,
)
"""The second group of general capabilities: all six bits of a key's log_page_size.

With five-level page tables, implicit on-demand paging has entries of 2**34 bytes since Linux 7.2
(hw/mlx5/odp.c: mlx5_ib_internal_fill_odp_caps).
"""

NO_DOORBELL_RECORD: Capabilities = group(send_dbr_mode_no_dbr_ext=1, log_max_send_dbr_less_qp_sq=17)
"""Group GENERAL_2: queue pairs that need no doorbell record for sending."""

MEMORY_COPIES: Capabilities = group(dma_mmo_qp=1, log_dma_mmo_max_size=21)
"""Queue pairs that copy within the host's memory, up to 2 MiB per WQE (mlx5dv_wr_memcpy)."""

TAG_MATCHING: Capabilities = group(
    tag_matching=1, rndv_offload_rc=1, log_tag_matching_list_sz=7, log_max_xrq=23
)
"""Shared receive queues that match tags; ``ibv_devinfo -v`` then shows lists of 127 tags."""

ANY_ORDER: Capabilities = group(
    {f"dp_ordering_ooo_all_{service}": 1 for service in ("rc", "uc", "ud", "xrc", "dc")}
)
"""Queue pairs whose data and receive WQEs may be processed in any order; the emulator keeps the
sender's order.

Group GENERAL_2 also has ``dp_ordering_force`` (Linux 7.2, ib/qp.c: get_dp_ooo_cap).
"""

BASE_ATOMIC: Capabilities = group(
    atomic_req_8B_endianness_mode=1,
    supported_atomic_req_8B_endianness_mode_1=1,
    atomic_operations=ATOMIC_CMP_SWAP | ATOMIC_FETCH_ADD
    | ATOMIC_EXTENDED_CMP_SWAP | ATOMIC_EXTENDED_FETCH_ADD,
    atomic_size_qp=4 | 8,
    atomic_size_dc=4 | 8,
)  # fmt: skip
"""Compare-and-swap and fetch-and-add of 8 bytes, and of 4 or 8 bytes with masks (size masks hold
powers of two, in bytes).

The endianness mode is 0 for big-endian operands in memory and 1 for the host's byte order; the
driver sets it (core/main.c: handle_hca_cap_atomic).
"""

_ODP_CONNECTED = {"send": 1, "receive": 1, "write": 1, "read": 1, "srq_receive": 1}


def _odp_schemes(atomic: int, ud_srq_receive: int) -> tuple[Capabilities, Capabilities]:
    """Return group ODP twice: with the transport scheme only, and with the memory scheme too.

    ``atomic`` and ``ud_srq_receive`` are the values of these capabilities, 0 or 1.
    """
    connected = {**_ODP_CONNECTED, "atomic": atomic}
    services = {
        "page_prefetch": 1,
        "rc_odp_caps": connected,
        "uc_odp_caps": {"send": 1, "receive": 1, "write": 1, "srq_receive": 1},
        "ud_odp_caps": {"send": 1, "srq_receive": ud_srq_receive},
        "xrc_odp_caps": {**connected, "receive": 0},
        "dc_odp_caps": {**connected, "receive": 0},
    }
    transport = group(transport_page_fault_scheme_cap=services)
    return transport, group(transport, memory_page_fault_scheme_cap=services, mem_page_fault=1)


TRANSPORT_ODP, MEMORY_ODP = _odp_schemes(atomic=0, ud_srq_receive=0)
"""On-demand paging: the first by page faults of queue pairs, which every driver supports; the
second also by page faults of memory keys, which Linux 6.12 and later use.

The operations are those in three published outputs of ``ibv_devinfo -v`` (ConnectX-4 and 5): no
atomics for RC, XRC and DC, and only SEND for UD. The driver does not show the operations of UC, so
these are an assumption.
"""

IB_TRANSPORT_ODP, IB_MEMORY_ODP = _odp_schemes(atomic=1, ud_srq_receive=0)
"""The same for InfiniBand ports since ConnectX-6, with atomics, from a fourth published output of
firmware 20.37. A ConnectX-6 Dx on Ethernet (firmware 22.36) has none.
"""

ALL_TRANSPORT_ODP, ALL_MEMORY_ODP = _odp_schemes(atomic=1, ud_srq_receive=1)
"""The same with all operations that drivers know."""

_ONE_BYTE = 1 << 0

DEVICE_MEMORY: Capabilities = group(
    memic=1,
    memic_bar_start_addr=BAR0_BYTES - MEMIC_BYTES,
    memic_bar_size=MEMIC_BYTES,
    max_memic_size=MEMIC_BYTES,
    # In units of 64 bytes: allocations are page-aligned.
    log_max_memic_addr_alignment=6,
    memic_operations=sum(1 << operation for operation in MemicOperation),
    increment_sizes=_ONE_BYTE,
    test_and_set_sizes=_ONE_BYTE,
)
"""Group DEV_MEM: memory at the end of BAR 0 (``emu.device.objects.memory.memic``)."""

DEBUG: Capabilities = group(resource_dump=1)
"""Group DEBUG (``firmware_cmds.regs.resource_dump``)."""

VF_LIMITS: Capabilities = group(
    {"log_max_qp": 16, "log_max_eq": 5, "max_num_eqs": 32},
    {"mcam_reg": 0, "pcam_reg": 0, "debug": 0},
    {"port_module_event": 0, "temp_warn_event": 0, "general_notification_event": 0},
)
"""Capabilities that a virtual function lacks; firmware and link belong to the physical function."""
