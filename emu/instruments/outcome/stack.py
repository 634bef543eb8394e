"""Finds the function that a report is about: the program counter's, or a specific one of the stack.

Functions that check, copy, lock, wait or warn on behalf of others are skipped, as syzkaller does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from emu.instruments.outcome.finding import UNKNOWN, plain_function

_PC = re.compile(
    r"(?:RIP: 00(?:10|33):|^ ?e?pc : |^PC is at |^NIP \[[0-9a-f]{16}\] "
    r"|^Krnl PSW : [0-9a-f]{16} [0-9a-f]{16} \()([A-Za-z_][\w.]*)\+0x"
)
"""The program counter of x86, arm64 and RISC-V, ARM, POWER, s390x (arch/*: show_regs). User-Mode
Linux runs in user space, with code segment 0x33."""
_USER_RIP = re.compile(r"RIP: 0033:")
_FRAME = re.compile(
    r"^\s*(?:\[<?[0-9a-f]{8,16}>?\] ){0,2}([A-Za-z_][\w.]*)\+0x[0-9a-f]+/0x[0-9a-f]+"
)
"""A frame; on POWER it begins with the stack pointer and the address (show_stack)."""
_GUESSED = re.compile(
    r"^\s*\[<[0-9a-f]{8,16}>\] \? ([A-Za-z_][\w.]*)\+0x(?!0/)[0-9a-f]+/0x[0-9a-f]+"
)
"""A frame of User-Mode Linux, which marks all frames as guessed. The start of a function is no
return address."""
_TRACE = re.compile(r"[Cc]all [Tt]race:|[Bb]acktrace(?: \(crc \w+\))?:|^stack backtrace:|^Stack:")
_GENERIC = re.compile(
    r"__warn\w*|warn_slowpath\w*|report_bug|handle_bug|exc_\w+|asm_\w+|do_error_trap|die\w*|oops_\w+|page_fault\w*"
    r"|show_stack\w*|show_regs|dump_stack\w*|panic|nmi_\w+|__?die\w*|do_trap|native_\w+|error_entry"
    r"|k[mc]san_\w*|kasan_\w*|__kasan_\w+|__asan_\w+|__hwasan_\w+|print_report|print_address_\w+"
    r"|check_memory_region|kfence_\w+|kmemleak_\w+|__ubsan_\w+|ubsan_\w+|check_region_inline"
    r"|refcount_\w+|__refcount_\w+|kref_\w+|kobject_put|kobject_get|kobject_cleanup"
    r"|__list_\w+|list_(?:add|del)\w*|_?_?raw_\w*spin_\w+|_raw_\w+|queued_\w+|do_raw_\w+|lock_\w+"
    r"|__lock_\w+|check_\w*(?:deadlock|noncircular|prev_add|usage)\w*|print_\w+|validate_chain"
    r"|register_lock_class|mark_(?:lock|usage)\w*|debug_\w+|might_\w+|__might_\w+|__schedule\w*"
    r"|schedule\w*|io_schedule\w*|__?mutex_\w+|mutex_\w+|__down\w*|down_\w+|rwsem_\w+|__rwsem_\w+"
    r"|wait_for_\w+|__wait_for_\w+|do_wait_for_\w+|wait_woken|msleep\w*|usleep_\w+|__?ww_mutex_\w+"
    r"|__percpu_\w+|percpu_\w+|rcu_\w+|synchronize_\w+|__synchronize_\w+|__flush_w\w+|flush_w\w+"
    r"|_*flush_workqueue|__cancel_work\w*|cancel_\w*work\w*|completion_\w+|context_switch|preempt_\w+"
    r"|memcpy\w*|__memcpy\w*|memset\w*|__memset\w*|memmove\w*|__memmove|memcmp|strlen|strcpy|strcmp"
    r"|strn\w+|strscpy\w*|copy_(?:from|to)_\w+|_copy_\w+|csum_\w+|rep_\w+|clear_page\w*|copy_page\w*"
    r"|k[vz]?[mcz]alloc\w*|__k[mv]alloc\w*|kmem_cache_\w+|__kmem_cache_\w+|kv?free\w*|__kv?free\w*"
    r"|slab_\w+|___?slab_\w+|__?alloc_pages\w*|alloc_pages\w*|get_page_from_freelist|vfree\w*"
    r"|_*vmalloc\w*|alloc_skb\w*|__alloc_skb|_*dma_pool_\w+|check_heap_object|__check_object_size"
    r"|usercopy_\w+|fortify_\w+|__fortify_\w+|__?bug_\w*|_?dev_\w+printk|_printk|vprintk\w*"
    r"|idr_\w+|xas_\w+|xa_\w+|__xa_\w+|radix_tree_\w+|ida_\w+|rb_\w+|__rb_\w+"
    r"|arch_\w+|delay_\w+|__?const_udelay|__delay|__udelay|cpu_relax|ret_from_\w+|entry_\w+"
    r"|do_syscall_\w+|x64_sys_call|syscall_\w+|irq_\w+|__irq_\w+|sysvec_\w+|watchdog_\w+|softlockup\w*"
    r"|__sysvec_\w+|common_interrupt|handle_irq\w*|ioread\w*|iowrite\w*|kthread|worker_thread"
    r"|process_one_work|process_scheduled_works|smp_\w+|on_each_\w+|find_(?:first|next)_\w+|_find_\w+"
)


_SCHEDULER = re.compile(
    r"__schedule\w*|schedule\w*|io_schedule\w*|preempt_\w+|context_switch|__?switch_to\w*|sched_\w+"
    r"|finish_task_switch|prepare_task_switch|update_(?:load_avg|curr|cfs_|rq_|se\b|min_vruntime)\w*"
    r"|place_entity|reweight_\w+|_*(?:en|de)queue_(?:entity|entities|task)\w*|psi_\w+|pick_\w+"
    r"|__pick_\w+|(?:set_next|put_prev)_\w+|check_preempt_\w+|wakeup_preempt\w*|ttwu_\w+"
    r"|try_to_wake_up|wake_up_\w+|__wake_up\w*|(?:default|autoremove|woken)_wake_function"
    r"|(?:sched|newidle|load|rebalance)_\w*balance\w*|balance_\w+|do_task_dead|do_exit|do_group_exit"
    r"|get_signal|arch_do_signal\w*|(?:irqentry_|syscall_)?exit_to_user_mode\w*"
)
"""Functions that switch, wake or end tasks: stale frames of them name no place where a task waits
(kernel/sched/core.c, kernel/sched/fair.c, kernel/exit.c)."""


def function_of(lines: Sequence[str], *, of_sleeper: bool = False) -> str:
    """Return the function that a report's lines are about, without the compiler's suffixes.

    The program counter's function and the stack are searched for a specific one. If all are generic
    return the first, if none is named :data:`UNKNOWN`. The report of a task that sleeps
    (``of_sleeper``) is never about a function of the scheduler.
    """
    first = ""
    for name in _named(lines):
        name = plain_function(name)
        if of_sleeper and _SCHEDULER.fullmatch(name):
            continue
        first = first or name
        if not _GENERIC.fullmatch(name):
            return name
    return first or UNKNOWN


def is_generic(name: str) -> bool:
    """Return whether a function works on behalf of others, so no report is about it."""
    return _GENERIC.fullmatch(plain_function(name)) is not None


def _named(lines: Sequence[str]) -> list[str]:
    """Return the program counter's function, then the first stack's; guessed ones only if alone."""
    register = [match[1] for line in lines if (match := _PC.search(line))][:1]
    return register + (_frames(lines, _FRAME) or _frames(lines, _GUESSED))


def _frames(lines: Sequence[str], frame: re.Pattern[str]) -> list[str]:
    """Return the functions of the lines that match ``frame``, after a stack trace's header."""
    names = []
    in_trace = False
    for line in lines:
        if _TRACE.search(line):
            in_trace = True
        elif in_trace:
            if match := frame.match(line):
                names.append(match[1])
            elif _USER_RIP.search(line):
                break
    return names
