"""The first lines of the kernel's reports, with kind and title of each."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from emu.instruments.outcome.finding import Kind

HUNG = "INFO: task hung in {function}"
"""Title of tasks that sleep too long, or that SysRq-w lists."""
LISTED = "task"
"""Name of the header of a task that SysRq-w lists."""
_FUNCTION = r"(?P<function>[A-Za-z_][\w.]*)"


@dataclass(frozen=True)
class Header:
    """The first line of a report; groups of the expression are words of the title.

    A report with a stack has more lines, and may continue with headers named in ``parts``. An oops,
    for example, continues with the panic that it causes.
    """

    kind: Kind
    title: str
    pattern: re.Pattern[str]
    name: str = ""
    parts: frozenset[str] = field(default_factory=frozenset)
    has_stack: bool = True

    def continues(self, other: Header) -> bool:
        """Return whether the other header continues this header's report."""
        return other.name in self.parts


def _header(kind: Kind, pattern: str, title: str, name: str = "", parts: str = "") -> Header:
    return Header(kind, title, re.compile(pattern), name, frozenset(parts.split()))


def _line(kind: Kind, pattern: str, title: str) -> Header:
    return Header(kind, title, re.compile(pattern), has_stack=False)


_CRASH = "oops panic"
_MLX5 = r"mlx5_core \S+ (?:\S+: )?(?:\w+:\d+:\(pid \d+\): )?(?:cmd\[\d+\]: )?"
HEADERS = (
    _header(
        Kind.KASAN,
        rf"BUG: KASAN: (?P<what>[\w-]+) in {_FUNCTION}",
        "KASAN: {what}{access} in {function}",
        parts="panic",
    ),
    _header(
        Kind.KASAN,
        rf"BUG: KFENCE: (?P<what>[\w -]+?) in {_FUNCTION}",
        "KFENCE: {what} in {function}",
        parts="panic",
    ),
    _header(
        Kind.KASAN,
        rf"BUG: KMSAN: (?P<what>[\w-]+) in {_FUNCTION}",
        "KMSAN: {what} in {function}",
        parts="panic",
    ),
    _header(
        Kind.KASAN,
        rf"BUG: KCSAN: (?P<what>[\w-]+) in {_FUNCTION}",
        "KCSAN: {what} in {function}",
        parts="panic",
    ),
    _header(Kind.UBSAN, r"UBSAN: (?P<what>[\w-]+) in ", "UBSAN: {what} in {function}"),
    _header(
        Kind.OOPS,
        r"BUG: [Kk]ernel NULL pointer dereference|[Uu]nable to handle kernel NULL pointer",
        "BUG: unable to handle kernel NULL pointer dereference in {function}",
        parts=_CRASH,
    ),
    _header(
        Kind.OOPS,
        r"[Uu]nable to handle (?:page fault for address|kernel \w)",
        "BUG: unable to handle kernel paging request in {function}",
        parts=_CRASH,
    ),
    _header(
        Kind.OOPS,
        r"^list_(?:add|del) (?:corruption|double add)",
        "BUG: corrupted list in {function}",
        parts=f"{_CRASH} bug warn",
    ),
    _header(Kind.OOPS, r"kernel BUG at ", "kernel BUG in {function}", name="bug", parts=_CRASH),
    _header(
        Kind.OOPS,
        r"^(?:Oops: )?general protection fault\b",
        "general protection fault in {function}",
        parts=_CRASH,
    ),
    _header(
        Kind.OOPS,
        r"^(?:Oops: )?(?P<what>divide error|int3|stack segment|double fault|alignment check)\b"
        r".*\[#\d+\]",
        "{what} in {function}",
        parts=_CRASH,
    ),
    _header(
        Kind.OOPS,
        r"BUG: stack guard page was hit",
        "BUG: stack guard page was hit in {function}",
        parts=_CRASH,
    ),
    _header(
        Kind.OOPS,
        r"BUG: (?P<what>Bad (?:page state|page map|rss-counter state))",
        "BUG: {what} in {function}",
        parts="panic",
    ),
    _header(  # arch/*/kernel: die(), on x86, POWER and s390x; ARM; RISC-V; s390x besides Oops
        Kind.OOPS,
        r"^(?:Oops: |invalid opcode: |Internal error: |(?:Oops|Kernel BUG) \[#"
        r"|[a-z][a-z -]{1,60}: [0-9a-f]{4} ilc:\d)",
        "Oops in {function}",
        name="oops",
        parts=_CRASH,
    ),
    _header(
        Kind.HANG,
        r"BUG: soft lockup - CPU#\d+ stuck",
        "BUG: soft lockup in {function}",
        parts="panic",
    ),
    _header(Kind.HANG, r"hard LOCKUP on cpu \d+", "BUG: hard lockup in {function}", parts="panic"),
    _header(Kind.HANG, r"BUG: workqueue lockup - pool", "BUG: workqueue lockup"),
    _header(
        Kind.HANG,
        r"INFO: task .{1,64} blocked (?:for more than|in I/O wait)",
        HUNG,
        parts="panic task",
    ),
    _header(
        Kind.HANG,
        r"^task:\S+ +state:D ",  # from SysRq-w
        HUNG,
        name=LISTED,
    ),
    _header(
        Kind.HANG,
        r"INFO: rcu\w* (?:self-)?detected (?:expedited )?stall",
        "INFO: rcu detected stall in {function}",
        parts="panic",
    ),
    _header(
        Kind.LOCKDEP,
        r"WARNING: possible (?:circular|recursive) locking dependency detected"
        r"|WARNING: possible recursive locking detected"
        r"|WARNING: possible irq lock inversion|WARNING: \S+-safe -> \S+-unsafe lock order",
        "possible deadlock in {function}",
    ),
    _header(
        Kind.LOCKDEP, r"WARNING: inconsistent lock state", "inconsistent lock state in {function}"
    ),
    _header(
        Kind.LOCKDEP,
        r"WARNING: (?P<what>suspicious RCU usage|bad unlock balance detected|held lock freed"
        r"|lock held when returning to user space|Nested lock was not taken)",
        "WARNING: {what} in {function}",
    ),
    _header(
        Kind.LOCKDEP,
        r"INFO: trying to register non-static key",
        "INFO: trying to register non-static key in {function}",
    ),
    _header(
        Kind.LOCKDEP,
        r"BUG: (?P<what>sleeping function called from invalid context|scheduling while atomic"
        r"|using __this_cpu_\w+\(\) in preemptible|assuming non migratable context)",
        "BUG: {what} in {function}",
    ),
    _header(
        Kind.LOCKDEP,
        r"BUG: spinlock (?P<what>bad magic|lockup suspected|recursion|already unlocked)",
        "BUG: spinlock {what} in {function}",
    ),
    _header(
        Kind.REFCOUNT,
        r"^refcount_t: (?P<what>[^.]{1,60})",
        "refcount bug in {function}",
        parts="warn",
    ),
    _line(
        Kind.REFCOUNT,
        r"unregister_netdevice: waiting for \S+ to become free",
        "unregister_netdevice: waiting for DEV to become free",
    ),
    *(
        _header(Kind.WARNING, pattern, "WARNING in {function}", name="warn", parts="panic")
        for pattern in (
            rf"WARNING: (?:CPU: \d+ PID: \d+ )?at \S+:\d+ {_FUNCTION}\+0x",
            rf"WARNING: \S+:\d+ at {_FUNCTION}\+0x",  # since Linux 6.19
            r"WARNING: (?:CPU: \d+ PID: \d+ )?at |WARNING: \S+:\d+ at ",
        )
    ),
    _line(
        Kind.WARNING,
        r"NETDEV WATCHDOG: \S+ \((?P<driver>\w+)\): transmit queue",
        "NETDEV WATCHDOG: {driver}: transmit queue timed out",
    ),
    _line(Kind.WARNING, r"irq \d+: nobody cared", "irq: nobody cared"),
    _header(
        Kind.WARNING,
        r"DMA-API: [\w-]+ \S+: (?P<what>[^\[\s][^\[]{0,79})",  # others: DMA debugging itself
        "DMA-API: {what} in {function}",
        parts="warn",
    ),
    _header(Kind.LEAK, r"^unreferenced object 0x", "memory leak in {function}"),
    _header(
        Kind.LEAK,
        r"BUG (?P<cache>[\w-]+) \(.{0,60}\): Objects remaining",
        "slab objects left in {cache}",
        parts="warn",
    ),
    _header(
        Kind.LEAK,
        r"kmem_cache_destroy (?P<cache>[\w-]+): Slab cache still has objects",
        "slab objects left in {cache}",
        parts="warn",
    ),
    _header(
        Kind.KASAN,
        r"BUG (?P<cache>[\w-]+) \(.{0,60}\): (?P<what>[\w ]{1,60})",
        "slab: {what} in {cache}",
    ),
    _line(
        Kind.LEAK,
        r"mlx5_core .*FW pages counter is \d+ after reclaiming all pages",
        "mlx5_core: FW pages counter is N after reclaiming all pages",
    ),
    _line(
        Kind.DRIVER,
        rf"{_MLX5}(?P<op>[A-Z0-9_]+)\(0x[0-9a-f]+\) (?:Async, )?timeout\. Will cause a leak",
        "mlx5_core: {op} timeout. Will cause a leak of a command resource",
    ),
    _line(
        Kind.DRIVER,
        rf"{_MLX5}(?P<what>Fatal error \d+ detected"
        r"|device's health compromised - reached miss count|health recovery flow aborted"
        r"|Driver is in error state\. Unloading|health recovery failed|tear_down_hca failed"
        r"|Firmware over \d+ MS in|enable hca failed|init hca failed|Failed to create EQs"
        r"|failed to allocate (?:boot|init) pages|mlx5_(?:load|init)_one failed)",
        "mlx5_core: {what}",
    ),
    _line(
        Kind.DRIVER,
        r"mlx5_core.{0,80}(?:probe with driver mlx5_core failed with error"
        r"|: probe of \S+ failed with error)",
        "mlx5_core: probe failed",
    ),
    _header(  # User-Mode Linux (arch/um/kernel/trap.c); RIPs of programs have no symbol
        Kind.OOPS,
        rf"^RIP: 0033:{_FUNCTION}\+0x",
        "BUG: unable to handle kernel paging request in {function}",
        parts="uml panic",
    ),
    _header(
        Kind.OOPS,
        r"Kernel panic - not syncing: (?:Segfault with no mm|Kernel mode fault at addr"
        r"|Kernel tried to access user memory)",
        "BUG: unable to handle kernel paging request in {function}",
        name="uml",
    ),
    _header(
        Kind.PANIC,
        r"Kernel panic - not syncing: (?P<why>.{1,120})",
        "kernel panic: {why}",
        name="panic",
    ),
    _line(Kind.OOPS, r"Out of memory: Killed process", "Out of memory: Killed process"),
)
