"""What differs from run to run is not in a report that is compared."""

from __future__ import annotations

import pytest

from emu.instruments.outcome.normal import normal_lines, normal_text

ONE = """BUG: unable to handle page fault for address: ffff888087b26040
#PF: supervisor write access in kernel mode
PGD 7fe1b067 P4D 7fe1b067 PUD 7fe1a067 PMD 0
Oops: Oops: 0002 [#1] PREEMPT SMP NOPTI
CPU: 0 UID: 0 PID: 205 Comm: kworker/u4:1 Not tainted 6.12.107+deb13-amd64 #1
Hardware name: QEMU Standard PC (Q35 + ICH9, 2009)
RIP: 0010:mlx5_ib_poll_cq+0x140/0xd40 [mlx5_ib]
Code: 48 c7 44 24 10 00 00 00 00
RSP: 0000:ffffc90000003e00 EFLAGS: 00010046
RAX: 0000000000000000 RBX: ffff88800597f0b0 RCX: 00000000ffffffff
R10: 0000000000000000 R11: ffffc90000003ff8
FS:  00007f6a54791780(0000) GS:ffff88807d800000(0000)
CR2: 0000000000000044 CR3: 0000000004a14000
Call Trace:
 ? __pfx_process_timeout+0x10/0x10
 __ib_process_cq+0x56/0x180 [ib_core]"""
CHANGES = (
    ("ffff888087b26040", "ffff8880aaaa6040"), ("7fe1b067", "7ab1b067"), ("PID: 205", "PID: 3311"),
    ("u4:1", "u8:3"), ("CPU: 0", "CPU: 1"), ("ffffc90000003e00", "ffffc90000103e00"),
    ("ffff88800597f0b0", "ffff8880aa97f0b0"), (" ? __pfx_process_timeout", " ? try_to_wake_up"),
)  # fmt: skip


def test_lines_of_two_runs_are_equal():
    other = ONE
    for old, new in CHANGES:
        assert old in other
        other = other.replace(old, new)
    one = list(normal_lines(ONE.splitlines()))
    assert one == list(normal_lines(other.splitlines()))
    assert one == [
        "BUG: unable to handle page fault for address: ADDR",
        "#PF: supervisor write access in kernel mode",
        "Oops: Oops: 0002 [#1] PREEMPT SMP NOPTI",
        "CPU: N UID: N PID: N Comm: NAME Not tainted 6.12.107+deb13-amd64 #1",
        "RIP: 0010:mlx5_ib_poll_cq+0x140/0xd40 [mlx5_ib]",
        "Call Trace:",
        " __ib_process_cq+0x56/0x180 [ib_core]",
    ]


def test_what_an_interrupt_has_interrupted_is_left_out():
    lines = " <IRQ>", " a+0x1/0x2", " </IRQ>", " <TASK>", " b+0x1/0x2", " </TASK>", "the end"
    assert list(normal_lines(lines)) == [" <IRQ>", " a+0x1/0x2", " </IRQ>", " </TASK>", "the end"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "local: QPN 0x0000c8, PSN 0x7d1a93, GID fe80::5054:ff:fe12:3456",
            "local: QPN 0x0000d0, PSN 0x01aa93, GID fe80::5054:ff:fe12:9999",
        ),
        (
            "8192000 bytes in 0.03 seconds = 2184.53 Mbit/sec",
            "8192000 bytes in 1.20 seconds = 54.10 Mbit/sec",
        ),
        ("1000 iters in 33usec at 12:01:44", "1000 iters in 45usec at 12:05:10"),
        ("<6>[    1.234567] mlx5_core: up", "<6>[   11.4] mlx5_core: up"),
        ("Process 4711, kworker/0:1H", "Process 12, kworker/1:2"),
        ("65536 1000 1.2e+3", "65536 1000 7e-1"),
    ],
)
def test_outputs_of_two_runs_are_equal(one, other):
    assert normal_text(one) == normal_text(other)


def test_words_of_an_output_stay():
    text = "mlx5_0: PORT_ACTIVE; mtu4096 IPv6 rc_pingpong failed\nno such file\n"
    assert normal_text(text) == text
