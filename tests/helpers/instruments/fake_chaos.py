"""Runs of chaos without guests: the test's first word says what becomes of it with a fault."""

from __future__ import annotations

from emu.instruments.campaign.description import Description, Ended, Observed, RunResult

TRACE = """{"t_ns":5,"function":0,"point":"reset","model":"connectx6"}
{"t_ns":9,"function":0,"point":"wqe","qpn":66,"index":3,"op":"SEND"}
"""
NAME = "helpers.instruments.fake_chaos:carry_out"


def carry_out(run: Description) -> RunResult:
    """The result of a run: without faults the test passes, unless it is "fails"."""
    word = run.command.split()[0]
    is_clean = not run.plan
    status: int | None = 0
    timed_out = False
    if word == "fails" or (word == "errs" and not is_clean):
        status = 1
    if word == "hangs" and not is_clean:
        status, timed_out = None, True
    return RunResult(
        name=run.name,
        ended=Ended.FAILED if status else Ended.PASSED,
        status=status,
        output="the output\n",
        rules=0 if is_clean else 1,
        fired=0 if is_clean or word == "misses" else 1,
        observed=Observed(
            seconds=run.timeout if timed_out else 1.5,
            has_timed_out=timed_out,
            threads="process 7: hangs\n  thread 7 hangs: state R\n" if timed_out else "",
        ),
        record="" if is_clean else '{"record":2}\n',
        trace="" if is_clean or word == "misses" else TRACE,
    )
