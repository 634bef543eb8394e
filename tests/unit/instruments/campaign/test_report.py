"""The report: groups, counts, the forms; a hostile guest's words stay words."""

import re
from xml.etree import ElementTree

import pytest
from helpers.instruments.campaigns import reported
from helpers.instruments.fake_runs import carry_out, descriptions

from emu.guests.conformance.results import Verdict, junit, tap
from emu.instruments.campaign.description import Ended, Expected, RunFinding, RunResult
from emu.instruments.campaign.report import cases, cell, report, summary
from emu.instruments.campaign.store import Store, as_json
from emu.instruments.outcome import Kind


def results(runs):
    return {run.name: carry_out(run) for run in runs}


def found(run, *titles, kind=Kind.WARNING, lines=()):
    told = tuple(RunFinding(kind=kind, title=title, lines=lines) for title in titles)
    return RunResult(name=run.name, ended=Ended.FOUND, findings=told)


def test_findings_are_grouped_by_title_the_worst_first():
    runs = descriptions(4, kernels=("a", "b"))
    told = {
        runs[0].name: found(runs[0], "WARNING in x"),
        runs[1].name: found(runs[1], "WARNING in x"),
        runs[2].name: found(runs[2], "kernel BUG in y", kind=Kind.OOPS),
    }
    first, second = report("r", {run.name: run for run in runs}, told).groups
    assert (first.title, first.kernels, first.first) == ("kernel BUG in y", ("a",), runs[2].name)
    assert (second.title, second.kernels, second.plans) == (
        "WARNING in x",
        ("a", "b"),
        ("plan0", "plan1"),
    )
    assert second.runs == (runs[0].name, runs[1].name)


def test_counts_are_by_axis_and_what_is_missing_is_told():
    runs = {run.name: run for run in descriptions(30)}
    some = dict(list(results(runs.values()).items())[:20])
    told = report("r", runs, some)
    assert told.missing == 10
    assert not told.is_good
    assert sum(told.counts()["all"].values()) == 20
    assert sum(counter.total() for counter in told.counts("kernel").values()) == 20
    assert list(told.counts("kernel")) == ["bookworm", "trixie", "sid"]


@pytest.mark.parametrize(
    ("ends", "ended", "is_good", "verdict", "detail"),
    [
        ((), Ended.PASSED, True, Verdict.PASS, ""),
        ((), Ended.FAILED, False, Verdict.FAIL, "status 1"),
        ((Ended.FAILED,), Ended.FAILED, True, Verdict.PASS, "status 1"),
        ((Ended.FAILED,), Ended.PASSED, False, Verdict.FAIL, "passed, not failed"),
        ((Ended.PASSED, Ended.FOUND), Ended.FOUND, True, Verdict.PASS, "status 1"),
        ((Ended.PASSED,), Ended.SKIPPED, False, Verdict.FAIL, "skipped, not passed: status 4"),
        ((Ended.SKIPPED,), Ended.SKIPPED, True, Verdict.SKIP, "status 4"),
        ((Ended.FAILED,), Ended.ERROR, False, Verdict.ERROR, "error, not failed: status 1"),
    ],
)
def test_what_the_matrix_expects_decides(ends, ended, is_good, verdict, detail):
    (run,) = descriptions(1)
    run = run.model_copy(update={"expected": Expected(ends=ends) if ends else None})
    status = {Ended.PASSED: 0, Ended.SKIPPED: 4}.get(ended, 1)
    told = report("r", {run.name: run}, {run.name: RunResult(
        name=run.name, ended=ended, status=status, seconds=1.0,
    )})  # fmt: skip
    (case,) = cases(told)
    assert (told.is_good, case.verdict, case.detail) == (is_good, verdict, detail)


def test_the_kernels_log_that_a_plan_expects_excuses_no_failure():
    (run,) = descriptions(1)
    run = run.model_copy(update={"expected": Expected(dmesg=("x",))})
    failed = RunResult(name=run.name, ended=Ended.FAILED, status=1, seconds=1.0, otherwise="")
    assert not report("r", {run.name: run}, {run.name: failed}).is_good


@pytest.mark.hostile
def test_what_a_guest_says_is_text_in_every_form(tmp_path):
    (run,) = descriptions(1)
    store = Store.create(tmp_path, "r", [run])
    store.put(found(run, "<script>alert(1)</script>", lines=("</pre>&\x07\ufffe",)))
    _, junit, html = reported(store)
    assert "<script>" not in html
    assert "</pre>&" not in html
    (case,) = ElementTree.fromstring(junit).iter("testcase")
    assert case.find("failure") is not None


def test_records_are_linked_where_they_are(tmp_path):
    runs = descriptions(2)
    store = Store.create(tmp_path, "r", runs)
    store.put(found(runs[0], "WARNING in x").model_copy(update={"record": "{}\n"}))
    store.put(found(runs[1], "WARNING in x"))
    _, _, html = reported(store)
    assert f"records/{runs[0].name}.jsonl" in html
    assert f"records/{runs[1].name}.jsonl" not in html


def test_the_page_has_a_table_of_plans_and_kernels(tmp_path):
    runs = descriptions(15, kernels=("a", "b"))
    store = Store.create(tmp_path, "r", runs)
    for run in runs[1:]:
        one = RunResult(name=run.name, ended=Ended.PASSED)
        if run is runs[14]:
            one = found(run, "WARNING in x").model_copy(update={"otherwise": "no <fault>"})
        store.put(one.model_copy(update={"seconds": 90.0, "ended_at": 1_790_000_000.0}))
    _, _, html = reported(store)
    assert "<th>plan<th>a<th>b</tr>" in html
    output = f"outputs/{runs[14].name}.txt"
    cell = f'<td class="found" title="no &lt;fault&gt;"><a href="{output}">found, unexpected, 90 s'
    assert f"<tr><td>plan0{cell}</a>" in html
    assert f'<td class="passed"><a href="outputs/{runs[7].name}.txt">passed, 90 s</a>' in html
    text = (tmp_path / output).read_text()
    assert text.startswith("$ true\n")
    assert text.endswith("[warning: WARNING in x]\n[unexpected: no <fault>]\n")
    assert "2026-09-21 14:11 to 2026-09-21 14:13 UTC, 0:21:00 of runs" in html
    skipped = RunResult(name=runs[0].name, ended=Ended.SKIPPED, seconds=5.0, otherwise="")
    store.put(skipped)
    _, _, html = reported(store)
    summed = "<details><summary>found 1, skipped 1 of 2, unexpected 1 of 2, 95 s</summary>"
    assert f'<tr><td>plan0<td class="found">{summed}' in html
    assert f'{runs[0].name}: skipped, as expected <a href="outputs/{runs[0].name}.txt">' in html
    assert f"{runs[14].name}: found, unexpected: no &lt;fault&gt; <a href=" in html


def test_results_without_a_date_make_a_page(tmp_path):
    (run,) = descriptions(1)
    store = Store.create(tmp_path, "r", [run])
    store.put(carry_out(run))
    _, _, html = reported(store)
    assert "UTC" not in html


NOISE = """[{time}] BUG: kernel NULL pointer dereference, address: {address}
CPU: {cpu} UID: 0 PID: {pid} Comm: kworker/u{cpu}:1 Not tainted 6.12.107
RIP: 0010:mlx5_x+0x1/0x2 [mlx5_core]
RAX: {address} RBX: 0000000000000000 RCX: {address}
Call Trace:
 mlx5_y+0x1/0x2 [mlx5_core]"""
EVERY_TIME = (
    {"time": "1.5", "address": "ffff888087b26040", "cpu": 0, "pid": 205},
    {"time": "22.25", "address": "ffff8880aaaa0000", "cpu": 1, "pid": 31},
)


def noisy(run, noise):
    """The result of a run, as a guest at some time would tell it."""
    lines = tuple(NOISE.format(**noise).splitlines())
    told = [
        RunFinding(kind=Kind.OOPS, title="BUG in mlx5_x", function="mlx5_x", lines=lines),
        RunFinding(kind=Kind.WARNING, title="WARNING in a", lines=lines[1:3]),
    ]
    if noise["cpu"]:
        told.reverse()  # two processors, two orders
    output = "QPN 0x{pid:06x}, took {time} s at {address}".format(**noise)
    return RunResult(
        name=run.name, ended=Ended.FOUND, status=1, why="pid {pid}: longer".format(**noise),
        output=output, seconds=float(noise["time"]), findings=tuple(told),
    )  # fmt: skip


def test_two_campaigns_of_one_matrix_make_equal_reports_but_for_one_field_of_times():
    runs = {run.name: run for run in descriptions(3)}
    told = [
        report("r", runs, {run: noisy(runs[run], noise) for run in runs}) for noise in EVERY_TIME
    ]
    one, other = (summary(each) for each in told)
    assert one["seconds"] == dict.fromkeys(runs, 1.5)
    assert other.pop("seconds") != one.pop("seconds")
    assert as_json(one) == as_json(other)
    assert "mlx5_y" in as_json(one)
    first, second = (
        [re.sub(r' time="[0-9.]+"', "", junit(cases(each))), tap(cases(each))] for each in told
    )
    assert first == second
    assert 'message="oops: BUG in mlx5_x"' in first[0]


def test_runs_whose_plan_never_fired_are_told(tmp_path):
    runs = descriptions(15, kernels=("a",))
    store = Store.create(tmp_path, "r", runs)
    for run in runs:
        store.put(RunResult(name=run.name, ended=Ended.PASSED, status=0, rules=2, fired=1))
    _, _, html = reported(store)
    assert "no fault fired" not in html
    for number, result in ((1, Ended.PASSED), (7, Ended.PASSED), (2, Ended.ERROR)):
        store.put(RunResult(name=runs[number].name, ended=result, rules=1))
    _, _, html = reported(store)
    assert "15 of 15 runs, 0 findings; no fault fired in 2 of 15<" in html
    assert "passed 3 of 3, no fault fired in 1 of 3, 0 s" in html
    assert f"{runs[7].name}: passed, no fault fired <a" in html
    text = (tmp_path / f"outputs/{runs[1].name}.txt").read_text()
    assert "[passed, no fault fired]\n" in text


def test_one_finding_is_singular(tmp_path):
    runs = descriptions(1)
    store = Store.create(tmp_path, "r", runs)
    store.put(found(runs[0], "WARNING in x"))
    _, _, html = reported(store)
    assert "1 of 1 runs, 1 finding<" in html
    assert ": 1 run, kernels" in html


def test_a_run_without_rules_has_no_note_about_faults():
    result = RunResult(name="a", ended=Ended.PASSED, rules=0)
    assert cell([result]) == (Ended.PASSED, "passed")
    assert cell([result.model_copy(update={"rules": 1})])[1] == "passed, no fault fired"


def test_a_cell_counts_every_end_worst_first():
    def of(*ends):
        return cell([RunResult(name="a", ended=ended, rules=0) for ended in ends])

    assert of(Ended.FAILED, Ended.FOUND) == (Ended.FOUND, "found 1, failed 1 of 2")
    assert of(Ended.PASSED, Ended.FAILED, Ended.PASSED)[1] == "failed 1, passed 2 of 3"
    assert of(Ended.PASSED, Ended.PASSED)[1] == "passed 2 of 2"
