"""Reports in a kernel's log: each kind by its title, function and lines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emu.host.printable import printable
from emu.instruments.outcome import Kind, findings, still_blocked
from emu.instruments.outcome.finding import LONGEST_TITLE, MAX_LINES
from emu.instruments.outcome.kernel_log import MAX_FINDINGS

NULL_POINTER = """
[   14.201837] mlx5_core 0000:01:00.0: firmware version: 20.43.2000
[   14.532110] BUG: kernel NULL pointer dereference, address: 0000000000000060
[   14.532115] #PF: supervisor read access in kernel mode
[   14.532117] #PF: error_code(0x0000) - not-present page
[   14.532119] PGD 0 P4D 0
[   14.532124] Oops: Oops: 0000 [#1] PREEMPT SMP NOPTI
[   14.532130] CPU: 1 UID: 0 PID: 0 Comm: swapper/1 Not tainted 6.12.107+deb13-amd64 #1
[   14.532138] RIP: 0010:mlx5_cmd_comp_handler.isra.0+0x9b/0x5c0 [mlx5_core]
[   14.532199] RSP: 0018:ffffb1f7000f0e50 EFLAGS: 00010006
[   14.532230] Call Trace:
[   14.532231]  <IRQ>
[   14.532233]  ? __die_body.cold+0x19/0x27
[   14.532240]  cmd_comp_notifier+0x1f/0x30 [mlx5_core]
[   14.532300]  notifier_call_chain+0x5a/0xd0
[   14.532340]  </IRQ>
[   14.532400] ---[ end trace 0000000000000000 ]---
[   14.532410] RIP: 0010:mlx5_cmd_comp_handler.isra.0+0x9b/0x5c0 [mlx5_core]
[   14.532500] Kernel panic - not syncing: Fatal exception in interrupt
"""
PAGING = """
[    9.1] BUG: unable to handle page fault for address: ffffa1b2c3d4e5f6
[    9.1] Oops: 0002 [#1] SMP
[    9.1] RIP: 0010:memcpy_orig+0x54/0x120
[    9.1] Call Trace:
[    9.1]  <TASK>
[    9.1]  ? mlx5_wrong_guess+0x1/0x2 [mlx5_ib]
[    9.1]  mlx5_copy_from_msg.constprop.0+0xd1/0x150 [mlx5_core]
[    9.1]  cmd_exec+0x3c2/0x9b0 [mlx5_core]
"""
PROTECTION = """
[    9.1] Oops: general protection fault, maybe for address 0xdead000000000122: 0000 [#1] SMP
[    9.1] RIP: 0010:0xdead000000000122
[    9.1] Call Trace:
[    9.1]  mlx5_eq_comp_int+0x8a/0x1e0 [mlx5_core]
"""
BUG = """
[    9.1] ------------[ cut here ]------------
[    9.1] kernel BUG at drivers/net/ethernet/mellanox/mlx5/core/alloc.c:55!
[    9.1] Oops: invalid opcode: 0000 [#1] PREEMPT SMP NOPTI
[    9.1] RIP: 0010:mlx5_db_free+0x12/0x90 [mlx5_core]
[    9.1] Kernel panic - not syncing: Fatal exception
"""
UML = """
[   26.89] Pid: 18, comm: kworker/u4:1 Not tainted 6.12.117
[   26.89] RIP: 0033:memset_orig+0x71/0xaf
[   26.89] Kernel panic - not syncing: Segfault with no mm
[   26.89] CPU: 0 UID: 0 PID: 18 Comm: kworker/u4:1 Not tainted 6.12.117 #1
[   26.89] Call Trace:
[   26.89]  [<60060e12>] ? kthread+0x0/0x150
[   26.89]  [<60289d00>] ? memcpy+0x0/0xc0
[   26.89]  [<ac254d44>] ? mlx5e_skb_from_cqe_mpwrq_linear+0x164/0x230 [mlx5_core]
[   26.89]  [<ac256974>] ? mlx5e_handle_rx_cqe_mpwrq+0xb4/0x1b0 [mlx5_core]
"""
UML_LEAF = """
[    2.69] Modules linked in: mlx5_core(+) ib_uverbs ib_core dimlib
[    2.69] RIP: 0033:give_pages+0x54/0x740 [mlx5_core]
[    2.69] Kernel panic - not syncing: Kernel mode fault at addr 0x10, ip 0xa3ad6114
[    2.69] Call Trace:
[    2.69]  [<a3acff59>] ? mlx5_cmd_exec+0x19/0x40 [mlx5_core]
"""
UML_WARNING = """
[   53.79] WARNING: CPU: 0 PID: 127 at mm/page_alloc.c:4832 __alloc_pages_noprof+0x1cd/0x1e0
[   53.79] Call Trace:
[   53.79]  [<604d81bf>] ? dump_stack_lvl+0x74/0x84
[   53.79]  [<604ae0e3>] ? __warn+0xc4/0xd8
[   53.79]  [<604ae1f9>] ? warn_slowpath_fmt+0x102/0x10c
[   53.79]  [<ac23d7e0>] ? mlx5_init_one+0x0/0x90 [mlx5_core]
[   53.79]  [<ac23d808>] ? mlx5_mpfs_init+0x58/0xf0 [mlx5_core]
"""
LIST = """
[    9.1] list_del corruption. prev->next should be ffff888101234567, but was dead000000000100
[    9.1] ------------[ cut here ]------------
[    9.1] kernel BUG at lib/list_debug.c:62!
[    9.1] RIP: 0010:__list_del_entry_valid_or_report+0x12/0x90
[    9.1] Call Trace:
[    9.1]  mlx5_free_cmd_msg+0x33/0x60 [mlx5_core]
"""
WARNING = """
<4>[   33.120001] ------------[ cut here ]------------
<4>[   33.120002] WARNING: CPU: 0 PID: 611 at mlx5/mr.c:2055 mlx5_ib_dereg_mr+0x31a/0x3e0 [mlx5_ib]
<4>[   33.120102] RIP: 0010:mlx5_ib_dereg_mr+0x31a/0x3e0 [mlx5_ib]
<4>[   33.120202] Call Trace:
<4>[   33.120302]  ib_dereg_mr_user+0x44/0xa0 [ib_core]
<4>[   33.120402] ---[ end trace 0000000000000000 ]---
<6>[   33.200000] mlx5_core 0000:01:00.0: nothing to do with it
"""
NEWER_WARNING = """
[    9.1] WARNING: core/verbs.c:400 at ib_dealloc_pd_user+0x9c/0xb0 [ib_core], CPU#1: rmmod/871
[    9.1] RIP: 0010:ib_dealloc_pd_user+0x9c/0xb0 [ib_core]
"""
REFCOUNT = """
[    9.1] ------------[ cut here ]------------
[    9.1] refcount_t: underflow; use-after-free.
[    9.1] WARNING: CPU: 1 PID: 88 at lib/refcount.c:28 refcount_warn_saturate+0xbe/0x110
[    9.1] RIP: 0010:refcount_warn_saturate+0xbe/0x110
[    9.1] Call Trace:
[    9.1]  mlx5_core_put_rsc+0x4a/0x60 [mlx5_core]
[    9.1] ---[ end trace 0000000000000000 ]---
"""
OVERLAP = """
[    0.890298] DMA-API: preallocated 65536 debug entries
[    0.890484] DMA-API: debugging enabled by kernel config
[9.1] DMA-API: mlx5_core 0000:01:00.0: cacheline tracking EEXIST, overlapping mappings
[  946.411431] WARNING: CPU: 1 PID: 758 at kernel/dma/debug.c:601 add_dma_entry+0x354/0x500
[  946.433433] RIP: 0010:add_dma_entry+0x354/0x500
[  946.433440] Call Trace:
[  946.433444]  debug_dma_map_sg+0x3b8/0x760
[  946.543411] ---[ end trace 0000000000000000 ]---
[  946.545082] DMA-API: Mapped at:
[  946.546598]  debug_dma_map_sg+0x3b8/0x760
[  946.551456]  mlx5_ib_db_map_user+0x1c1/0x650 [mlx5_ib]
"""
KASAN = """
[    9.1][  T312] ==================================================================
[    9.1][  T312] BUG: KASAN: slab-use-after-free in mlx5_ib_poll_cq+0x1a7/0x1620 [mlx5_ib]
[    9.1][  T312] Write of size 8 at addr ffff88810a5b3c40 by task ib_send_bw/312
[    9.1][  T312] Call Trace:
[    9.1][  T312]  kasan_report+0xda/0x110
"""
UBSAN = """
[    9.1] UBSAN: array-index-out-of-bounds in drivers/net/ethernet/mellanox/mlx5/core/eq.c:301:22
[    9.1] index 255 is out of range for type 'atomic_notifier_head [42]'
[    9.1] Call Trace:
[    9.1]  <IRQ>
[    9.1]  dump_stack_lvl+0x64/0x80
[    9.1]  __ubsan_handle_out_of_bounds+0x95/0xd0
[    9.1]  mlx5_eq_async_int+0x2c1/0x300 [mlx5_core]
"""
DEADLOCK = """
[    9.1] WARNING: possible circular locking dependency detected
[    9.1] kworker/u9:1/77 is trying to acquire lock:
[    9.1] but task is already holding lock:
[    9.1] stack backtrace:
[    9.1] Call Trace:
[    9.1]  dump_stack_lvl+0x64/0x80
[    9.1]  check_noncircular+0x148/0x160
[    9.1]  __lock_acquire+0x1411/0x2650
[    9.1]  __mutex_lock+0xa8/0xe90
[    9.1]  mlx5_intf_state_lock_it+0x2d/0x90 [mlx5_core]
"""
HUNG = """
[  245.760012] INFO: task modprobe:512 blocked for more than 120 seconds.
[  245.760020]       Not tainted 6.12.107+deb13-amd64 #1
[  245.760031] task:modprobe        state:D stack:0     pid:512   tgid:512   ppid:511
[  245.760040] Call Trace:
[  245.760041]  <TASK>
[  245.760042]  __schedule+0x505/0xbf0
[  245.760043]  schedule+0x27/0xf0
[  245.760044]  schedule_timeout+0x12f/0x160
[  245.760045]  __wait_for_common+0x97/0x1a0
[  245.760046]  mlx5_wait_for_pages+0x77/0x160 [mlx5_core]
"""
BLOCKED = """
<6>[    9.1] sysrq: Show Blocked State
<6>[    9.1] task:rmmod           state:D stack:0     pid:512   tgid:512   ppid:511
<6>[    9.1] Call Trace:
<6>[    9.1]  __schedule+0x505/0xbf0
<6>[    9.1]  schedule+0x27/0xf0
<6>[    9.1]  mlx5_ib_stage_cleanup+0x77/0x160 [mlx5_ib]
"""
KILLED = """
<6>[    9.1] sysrq: Show Blocked State
<6>[    9.1] task:ibv_rc_pingpong state:D stack:0     pid:211   tgid:211   ppid:1
<6>[    9.1] Call Trace:
<6>[    9.1]  <TASK>
<6>[    9.1]  __schedule+0x4ea/0xbe0
<6>[    9.1]  ? __schedule+0x4f2/0xbe0
<6>[    9.1]  update_load_avg+0x7e/0x7b0
<6>[    9.1]  ? update_curr+0x51/0x200
<6>[    9.1]  ? pick_eevdf+0x15d/0x190
<6>[    9.1]  ? ttwu_do_activate+0x85/0x240
<6>[    9.1]  ? __send_signal_locked+0x2f2/0x440
<6>[    9.1]  ? do_task_dead+0x42/0x50
<6>[    9.1]  ? do_exit+0x7c4/0xad0
<6>[    9.1]  ? do_group_exit+0x30/0x80
<6>[    9.1]  ? get_signal+0x87c/0x880
<6>[    9.1]  ? asm_sysvec_reschedule_ipi+0x1a/0x20
<6>[    9.1]  </TASK>
"""
LOCKUP = """
[    9.1] watchdog: BUG: soft lockup - CPU#1 stuck for 26s! [kworker/1:1:51]
[    9.1] RIP: 0010:poll_health+0x7f/0x1a0 [mlx5_core]
"""
STALL = """
[    9.1] rcu: INFO: rcu_preempt self-detected stall on CPU
[    9.1] rcu:     0-....: (5249 ticks this GP) idle=f3cc/1/0x4000000000000000
[    9.1] RIP: 0010:mlx5_eq_poll_irq_disabled+0x22/0x90 [mlx5_core]
"""
LEAK = """unreferenced object 0xffff888104c1a200 (size 512):
  comm "modprobe", pid 391, jiffies 4294691344
  hex dump (first 32 bytes):
    00 00 00 00 00 00 00 00  ................
  backtrace (crc 0):
    kmemleak_alloc+0x4b/0x80
    __kmalloc_cache_noprof+0x2a1/0x350
    mlx5_alloc_cmd_msg+0x8f/0x1b0 [mlx5_core]
"""
STUCK = """
[    9.1] unregister_netdevice: waiting for eth0 to become free. Usage count = 2
[   19.1] unregister_netdevice: waiting for eth0 to become free. Usage count = 2
"""
COMMAND = (
    "[   61.4] mlx5_core 0000:01:00.0: wait_func:1186:(pid 240): CREATE_CQ(0x400) timeout."
    " Will cause a leak of a command resource\n"
)
FATAL = "[    9.1] mlx5_core 0000:01:00.0: poll_health:824:(pid 0): Fatal error 3 detected\n"
PROBE = "[    9.1] mlx5_core 0000:01:00.0: probe with driver mlx5_core failed with error -5\n"
OLD_PROBE = "[    9.1] mlx5_core: probe of 0000:01:00.0 failed with error -110\n"
PAGES = (
    "[    9.1] mlx5_core 0000:01:00.0: mlx5_reclaim_startup_pages:714:(pid 400):"
    " FW pages counter is 1021 after reclaiming all pages\n"
)
PANIC = "[    9.1] Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000009\n"

NULL_TITLE = "BUG: unable to handle kernel NULL pointer dereference in mlx5_cmd_comp_handler"


OTHERS = {
    "arm64": """
[9.1] Unable to handle kernel NULL pointer dereference at virtual address 0000000000000060
[9.1] Mem abort info:
[9.1] Internal error: Oops: 0000000096000004 [#1] SMP
[9.1] pc : mlx5_cmd_comp_handler+0x9c/0x5c0 [mlx5_core]
[9.1] lr : cmd_comp_notifier+0x20/0x30 [mlx5_core]
[9.1] Call trace:
[9.1]  mlx5_cmd_comp_handler+0x9c/0x5c0 [mlx5_core] (P)
[9.1]  cmd_comp_notifier+0x20/0x30 [mlx5_core]
[9.1] ---[ end trace 0000000000000000 ]---
[9.1] Kernel panic - not syncing: Oops: Fatal exception in interrupt
""",
    "armhf": """
[9.1] Unable to handle kernel NULL pointer dereference at virtual address 00000060 when read
[9.1] Internal error: Oops: 5 [#1] SMP ARM
[9.1] PC is at mlx5_cmd_comp_handler+0x9c/0x5c0 [mlx5_core]
""",
    "riscv64": """
[9.1] Unable to handle kernel NULL pointer dereference at virtual address 0000000000000060
[9.1] Oops [#1]
[9.1] epc : mlx5_cmd_comp_handler+0x9c/0x5c0 [mlx5_core]
[9.1]  ra : cmd_comp_notifier+0x20/0x30 [mlx5_core]
[9.1] epc : ffffffff02c83e4a ra : ffffffff02c84f22 sp : ff20000000003d70
[9.1] [<ffffffff02c83e4a>] mlx5_cmd_comp_handler+0x9c/0x5c0 [mlx5_core]
""",
    "ppc64el": """
[9.1] BUG: Kernel NULL pointer dereference on read at 0x00000060
[9.1] Oops: Kernel access of bad area, sig: 11 [#1]
[9.1] NIP:  c00800000a5a2b88 LR: c00800000a5a2b70 CTR: c0000000001f2e30
[9.1] NIP [c00800000a5a2b88] mlx5_cmd_comp_handler+0x98/0x5c0 [mlx5_core]
""",
}
"""One dereference of a null pointer, as the other processors tell it."""
S390X = """
[9.1] Unable to handle kernel pointer dereference in virtual kernel address space
[9.1] Failing address: 0000000000000000 TEID: 0000000000000803
[9.1] Oops: 0004 ilc:2 [#1]SMP
[9.1] Krnl PSW : 0404c00180000000 000003ff80086b80 (mlx5_cmd_comp_handler+0x98/0x5c0 [mlx5_core])
[9.1] Call Trace:
[9.1]  [<000003ff80086b80>] mlx5_cmd_comp_handler+0x98/0x5c0 [mlx5_core]
"""
POWER_STACK = """
[9.1] BUG: Unable to handle kernel data access on write at 0xc00a000000000000
[9.1] Oops: Kernel access of bad area, sig: 11 [#1]
[9.1] NIP [c0000000000a1b2c] memcpy_power7+0x4c/0x7e0
[9.1] Call Trace:
[9.1] [c000000003b7b9a0] [c008000000a5a2b8] mlx5_copy_from_msg+0x58/0x100 [mlx5_core] (unreliable)
[9.1] [c000000003b7ba10] [c008000000a5a3f0] cmd_exec+0x90/0x9b0 [mlx5_core]
"""
ILLEGAL = """
[9.1] illegal operation: 0001 ilc:1 [#1]SMP
[9.1] Krnl PSW : 0404c00180000000 000003ff80086b80 (mlx5_cmd_comp_handler+0x98/0x5c0 [mlx5_core])
"""
PAGING_TITLE = "BUG: unable to handle kernel paging request in"


@pytest.mark.parametrize(
    ("log", "kind", "title"),
    [
        *((log, Kind.OOPS, NULL_TITLE) for log in OTHERS.values()),
        (S390X, Kind.OOPS, f"{PAGING_TITLE} mlx5_cmd_comp_handler"),
        (POWER_STACK, Kind.OOPS, f"{PAGING_TITLE} mlx5_copy_from_msg"),
        (ILLEGAL, Kind.OOPS, "Oops in mlx5_cmd_comp_handler"),
        (NULL_POINTER, Kind.OOPS, NULL_TITLE),
        (
            PAGING,
            Kind.OOPS,
            "BUG: unable to handle kernel paging request in mlx5_copy_from_msg",
        ),
        (PROTECTION, Kind.OOPS, "general protection fault in mlx5_eq_comp_int"),
        (BUG, Kind.OOPS, "kernel BUG in mlx5_db_free"),
        (
            UML,
            Kind.OOPS,
            "BUG: unable to handle kernel paging request in mlx5e_skb_from_cqe_mpwrq_linear",
        ),
        (UML_LEAF, Kind.OOPS, "BUG: unable to handle kernel paging request in give_pages"),
        (UML_WARNING, Kind.WARNING, "WARNING in mlx5_mpfs_init"),
        (LIST, Kind.OOPS, "BUG: corrupted list in mlx5_free_cmd_msg"),
        (WARNING, Kind.WARNING, "WARNING in mlx5_ib_dereg_mr"),
        (NEWER_WARNING, Kind.WARNING, "WARNING in ib_dealloc_pd_user"),
        (REFCOUNT, Kind.REFCOUNT, "refcount bug in mlx5_core_put_rsc"),
        (
            OVERLAP,
            Kind.WARNING,
            "DMA-API: cacheline tracking EEXIST, overlapping mappings in add_dma_entry",
        ),
        (KASAN, Kind.KASAN, "KASAN: slab-use-after-free Write in mlx5_ib_poll_cq"),
        (UBSAN, Kind.UBSAN, "UBSAN: array-index-out-of-bounds in mlx5_eq_async_int"),
        (DEADLOCK, Kind.LOCKDEP, "possible deadlock in mlx5_intf_state_lock_it"),
        (HUNG, Kind.HANG, "INFO: task hung in mlx5_wait_for_pages"),
        (BLOCKED, Kind.HANG, "INFO: task hung in mlx5_ib_stage_cleanup"),
        (LOCKUP, Kind.HANG, "BUG: soft lockup in poll_health"),
        (STALL, Kind.HANG, "INFO: rcu detected stall in mlx5_eq_poll_irq_disabled"),
        (LEAK, Kind.LEAK, "memory leak in mlx5_alloc_cmd_msg"),
        (STUCK, Kind.REFCOUNT, "unregister_netdevice: waiting for DEV to become free"),
        (
            COMMAND,
            Kind.DRIVER,
            "mlx5_core: CREATE_CQ timeout. Will cause a leak of a command resource",
        ),
        (FATAL, Kind.DRIVER, "mlx5_core: Fatal error N detected"),
        (PROBE, Kind.DRIVER, "mlx5_core: probe failed"),
        (OLD_PROBE, Kind.DRIVER, "mlx5_core: probe failed"),
        (PAGES, Kind.LEAK, "mlx5_core: FW pages counter is N after reclaiming all pages"),
        (PANIC, Kind.PANIC, "kernel panic: Attempted to kill init! exitcode=ADDR"),
    ],
)
def test_each_kind_has_its_title(log, kind, title):
    (found,) = findings(log)
    assert (found.kind, found.title) == (kind, title)
    assert found.function in found.title


def test_stale_frames_of_a_killed_task_are_no_hang():
    """A task that ends is listed with frames of the scheduler's earlier work."""
    assert findings(KILLED) == ()
    hung = HUNG.replace("mlx5_wait_for_pages", "update_load_avg")
    (found,) = findings(hung.replace("__wait_for_common", "do_task_dead"))
    assert found.title == "INFO: task hung in unknown function"
    (found,) = findings(KILLED.replace("update_load_avg", "uverbs_destroy_ufile_hw"))
    assert found.title == "INFO: task hung in uverbs_destroy_ufile_hw"


def test_a_task_is_blocked_if_two_listings_show_it_in_the_same_function():
    (found,) = still_blocked(BLOCKED, BLOCKED + BLOCKED)
    assert found.title == "INFO: task hung in mlx5_ib_stage_cleanup"
    for other in (
        "",
        KILLED,
        BLOCKED.replace("stage_cleanup", "other"),
        BLOCKED.replace("pid:512", "pid:513"),
        BLOCKED + "<6>[   10.1] sysrq: Show Blocked State\n",
    ):
        assert still_blocked(BLOCKED, other) == still_blocked(other, BLOCKED) == ()
    assert still_blocked(KILLED, KILLED) == ()
    assert findings(BLOCKED, with_listed=False) == ()


def test_a_report_has_its_own_lines_without_times():
    (found,) = findings(WARNING)
    assert found.function == "mlx5_ib_dereg_mr"
    assert found.lines[0].startswith("WARNING: CPU: 0 PID: 611 at mlx5/mr.c")
    assert found.lines[-1] == "---[ end trace 0000000000000000 ]---"


def test_an_oops_goes_on_to_the_panic_that_it_causes():
    (found,) = findings(NULL_POINTER)
    assert found.lines[-1] == "Kernel panic - not syncing: Fatal exception in interrupt"


def test_the_same_title_counts_once_and_others_follow_in_order():
    told = findings(WARNING + KASAN + WARNING.replace("0x31a", "0x320") + FATAL)
    assert [one.kind for one in told] == [Kind.WARNING, Kind.KASAN, Kind.DRIVER]


def test_a_healthy_log_has_none():
    assert findings("[    1.0] mlx5_core 0000:01:00.0: firmware version: 20.43.2000\n") == ()


@pytest.mark.hostile
def test_a_guest_cannot_make_findings_without_bound():
    log = "".join(f"BUG: KASAN: what{n} in function_{n}+0x1/0x2\n" for n in range(1000))
    assert len(findings(log)) == MAX_FINDINGS
    (one,) = findings("Kernel panic - not syncing: \x1b[2J" + "x" * 100_000)
    assert one.title.isprintable()
    assert len(one.title) <= LONGEST_TITLE + 3
    (one,) = findings("WARNING: CPU: 0 PID: 1 at a.c:1 f+0x1/0x2\n" + "line\n" * 1000)
    assert len(one.lines) == MAX_LINES


@pytest.mark.hostile
@given(
    st.lists(
        st.one_of(
            st.text(max_size=60),
            st.sampled_from(
                "".join((NULL_POINTER, LIST, REFCOUNT, HUNG, KASAN, LEAK)).splitlines()
            ),
        ),
        max_size=40,
    )
)
def test_any_text_is_read(lines):
    for found in findings("\n".join(lines)):
        assert printable(found.title) == found.title
        assert all(printable(line) == line for line in found.lines)
