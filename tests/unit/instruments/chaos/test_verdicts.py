"""Verdicts of made-up results: the first rule that holds, with its evidence."""

from __future__ import annotations

import pytest

from emu.instruments.campaign.description import Ended, Observed, RunFinding, RunResult
from emu.instruments.chaos.verdicts import ChaosVerdict as Verdict
from emu.instruments.chaos.verdicts import Judge, why_not_clean
from emu.instruments.outcome import Kind

THREADS = """process 7: ./my-test
  thread 7 my-test: state S, waits in do_wait.isra.0
    do_wait+0x1/0x2
  thread 8 poller: state R
  thread 9 poller: state R
"""


def result(status=0, *, seconds=1.0, fired=1, findings=(), output="end\n", **observed):
    return RunResult(
        name="one",
        ended=Ended.PASSED,
        status=status,
        output=output,
        rules=1,
        fired=fired,
        findings=tuple(RunFinding(kind=kind, title=title) for kind, title in findings),
        observed=Observed(seconds=seconds, **observed),
    )


CLEAN = result(fired=0, digest="a", output="one\ntwo\n", left={"qp": 1})
HANG = {"status": None, "has_timed_out": True, "seconds": 20.0, "threads": THREADS}
WARNING = (Kind.WARNING, "WARNING in one")
TIMEOUT = (Kind.TIMEOUT, "command timed out")


@pytest.mark.parametrize(
    ("one", "verdict", "evidence"),
    [
        (result(139, findings=[WARNING]), Verdict.KERNEL, "WARNING in one"),
        (result(**HANG, findings=[(Kind.OOPS, "kernel BUG in two")]), Verdict.KERNEL, "kernel BUG"),
        (result(139), Verdict.CRASH, "ended by SIGSEGV"),
        (result(128 + 40), Verdict.CRASH, "ended by signal 40"),
        (result(255), Verdict.ERROR, "status 255: end"),
        (result(128), Verdict.ERROR, "status 128"),
        (result(1, errors="no\nconnection\n"), Verdict.ERROR, "status 1: connection"),
        (result(**HANG), Verdict.HANG, "no end after 20 s; 3 threads: 1 in do_wait, 2 running"),
        (result(**HANG, findings=[TIMEOUT]), Verdict.HANG, "no end after 20 s"),
        (result(65), Verdict.WRONG_DATA, "status 65"),
        (result(digest="b", output="one\nzwei\n"), Verdict.WRONG_DATA,
         "output line 2: 'zwei', not 'two'"),
        (result(digest="b", output="one\ntwo\n"), Verdict.WRONG_DATA, "not that of the clean run"),
        (result(1, digest="b", output="no"), Verdict.ERROR, "status 1: no"),
        (result(1, left={"qp": 3, "cq": 1}), Verdict.LEAK, "left in the adapter: 2 qp, 1 cq"),
        (result(1, left={"qp": 3}, threads=THREADS), Verdict.LEAK,
         "still running: ./my-test; left in the adapter: 2 qp"),
        (result(digest="a", left={"qp": 1}), Verdict.RECOVERED, "+0.0 s"),
        (result(digest="a", seconds=3.5), Verdict.RECOVERED, "+2.5 s"),
        (result(digest="a", seconds=0.98), Verdict.RECOVERED, "+0.0 s"),
        (result(digest="a", findings=[(Kind.DRIVER, "mlx5_core: told")]), Verdict.RECOVERED, ""),
        (result(digest="a", fired=0), Verdict.NOT_REACHED, "ended before the fault struck"),
        (result(1, fired=0), Verdict.NOT_REACHED, "status 1: end; no fault struck"),
        (result(139, fired=0), Verdict.CRASH, "ended by SIGSEGV; no fault struck"),
        (result(1, left={"qp": 3}, findings=[(Kind.DRIVER, "mlx5_core: Fatal error N detected")]),
         Verdict.ERROR, "status 1: end"),
        (result(digest="a", fired=0, link_packets=9), Verdict.RECOVERED, ""),
        (RunResult(name="one", ended=Ended.ERROR, why="no QEMU"), Verdict.NO_RESULT, "no QEMU"),
        (result(None, findings=[(Kind.LOST, "lost")]), Verdict.NO_RESULT, "the guest was lost"),
    ],
)  # fmt: skip
def test_the_first_rule_that_holds(one, verdict, evidence):
    judged = Judge(CLEAN, is_compared=True).judged(one)
    assert judged.verdict is verdict
    assert evidence in judged.evidence


def test_blocked_tasks_that_were_listed_after_a_timeout_are_no_warning():
    findings = [(Kind.HANG, "INFO: task hung in mlx5_cmd_exec")]
    assert Judge(CLEAN).judged(result(**HANG, findings=findings)).verdict is Verdict.HANG
    assert Judge(CLEAN).judged(result(findings=findings)).verdict is Verdict.KERNEL


def test_stalls_count_only_with_kvm():
    findings = [(Kind.HANG, "BUG: soft lockup in one")]
    assert Judge(CLEAN).judged(result(findings=findings)).verdict is Verdict.RECOVERED
    there = result(findings=findings, is_emulated=False)
    assert Judge(CLEAN).judged(there).verdict is Verdict.KERNEL


def test_signs_of_wrong_data_are_the_users():
    assert Judge(CLEAN, 7).judged(result(7)).verdict is Verdict.WRONG_DATA
    assert Judge(CLEAN, 7).judged(result(65)).verdict is Verdict.ERROR
    assert Judge(CLEAN).judged(result(digest="b")).verdict is Verdict.RECOVERED


def test_only_a_run_that_recovered_is_slower():
    assert Judge(CLEAN).judged(result(seconds=3.5)).slower == 2.5
    assert Judge(CLEAN).judged(result(1, seconds=3.5)).slower is None


@pytest.mark.parametrize(
    ("one", "why"),
    [
        (result(), ""),
        (result(3, output="bad"), "status 3: bad"),
        (result(findings=[WARNING]), "WARNING in one"),
        (RunResult(name="one", ended=Ended.ERROR, why="no QEMU"), "no QEMU"),
        (result(None), "the guest was lost"),
        (result(**HANG).model_copy(update={"why": "timed out"}), "timed out"),
    ],
)
def test_a_clean_run_that_is_no_measure(one, why):
    assert why_not_clean(one) == why


def test_a_test_that_the_guest_does_not_find_is_told_how():
    why = "test is a file of the shared directory: ./test runs it"
    lost = result(127, output="sh: 1: test: not found").model_copy(update={"why": why})
    assert why_not_clean(lost) == f"status 127: sh: 1: test: not found; {why}"
