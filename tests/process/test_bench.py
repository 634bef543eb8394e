"""What scripts/bench makes of the outputs it reads and of the numbers it has."""

import ast
import importlib.util
import itertools
import json
import os
import subprocess
import sys
import time
from array import array
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts" / "benchmarks"))

import changes
import compiled
import machine
import moves
import points
import tables
from booted import keys, net, perftest, probe, roce, verbs
from figures import Goal, Report, Row, Section, median, ratio_at_least, ratio_at_most
from machine import Quiet

from emu.device.objects.memory.pages import PageList
from emu.device.objects.memory.views import length_of

BENCH = Path(machine.__file__).parent

# As perftest 24.07 prints them.
BANDWIDTH = """\
---------------------------------------------------------------------------------------
                    RDMA_Write BW Test
 Dual-port       : OFF\t\tDevice         : mlx5_0
 Number of qps   : 1\t\tTransport type : IB
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]
 65536      1000             1658.19            1487.34\t\t     0.023797
---------------------------------------------------------------------------------------
"""
LATENCY = """\
                    RDMA_Write Latency Test
---------------------------------------------------------------------------------------
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]\
    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]
 2       5000          21.85          36927.04      44.24    \t       654.31      \
\t1537.92\t\t6809.60 \t\t22341.13
---------------------------------------------------------------------------------------
"""
PINGPONG = """\
  local address:  LID 0x0001, QPN 0x000042, PSN 0x7b2e1f, GID ::
  remote address: LID 0x0001, QPN 0x000043, PSN 0x5c9a01, GID ::
8192000 bytes in 0.07 seconds = 906.91 Mbit/sec
1000 iters in 0.07 seconds = 72.26 usec/iter
"""


class TestKvm:
    """``--kvm`` measures with KVM or nothing."""

    @pytest.fixture
    def bench(self):
        spec = importlib.util.spec_from_file_location("bench", BENCH / "__main__.py")
        bench = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(bench)
        return bench

    @pytest.mark.parametrize(
        ("is_accessible", "answer", "why"),
        [
            (False, None, "may open"),
            (True, False, "boots no kernel"),
            (True, True, ""),
            (True, None, ""),
        ],
    )
    def test_where_it_is(self, bench, monkeypatch, is_accessible, answer, why):
        monkeypatch.setattr(bench.qemu, "find", lambda: object())
        monkeypatch.setattr(bench.accel, "is_accessible", lambda: is_accessible)
        monkeypatch.setattr(bench.accel, "known_answer", lambda program: answer)
        if why:
            with pytest.raises(bench.click.ClickException, match=why):
                bench.base_of("sid", True, 2)
        else:
            assert bench.base_of("sid", True, 1) == ("sid", "kvm", 1)
        assert bench.base_of("sid", False, 2) == ("sid", "auto", 2)


class TestCompare:
    """What scripts/bench --compare calls a change."""

    @staticmethod
    def report(samples, unit="us", goal=None, key="engine", name="a write"):
        return Report([], [Section(key, "", [Row(name, unit, samples, goal=goal)])])

    def change(self, before, after, **rest):
        (change,) = changes.changes(self.report(before, **rest), self.report(after, **rest))
        return change

    @pytest.mark.parametrize(
        ("before", "after", "verdict"),
        [
            ([10.0] * 50, [10.2] * 50, ""),
            ([10.0] * 50, [10.5] * 50, "worse"),
            ([10.0] * 50, [9.5] * 50, "better"),
            ([10.0, 11.0, 10.5], [11.0], ""),
            ([10.0, 11.0, 10.5], [13.0], "worse"),
            ([], [10.0], "new"),
            ([10.0], [], "gone"),
            ([], [], ""),
            ([0.0] * 9, [1.0] * 9, "worse"),
        ],
    )
    def test_verdict(self, before, after, verdict):
        assert self.change(before, after).verdict == verdict

    def test_samples_that_differ_hide_a_change_that_others_show(self):
        wide = [5.0, 10.0, 15.0] * 20
        assert self.change(wide, [value + 1 for value in wide]).verdict == ""
        assert self.change(wide * 50, [value + 1 for value in wide * 50]).verdict == "worse"

    @pytest.mark.parametrize(
        ("unit", "goal", "verdict"),
        [
            ("us", None, "worse"),
            ("MiB/s", None, "better"),
            ("x", Goal(1.0, at_least=True), "better"),
            ("us", ratio_at_least(1.0), "worse"),
            ("MiB/s", Goal(1.0), "worse"),
        ],
    )
    def test_which_way_is_better(self, unit, goal, verdict):
        assert self.change([1.0] * 9, [2.0] * 9, unit=unit, goal=goal).verdict == verdict

    def test_rows_and_sections_of_one_report(self):
        before = self.report([1.0], name="old")
        after = self.report([1.0], name="new")
        found = {change.name: change.verdict for change in changes.changes(before, after)}
        assert found == {"old": "gone", "new": "new"}
        assert changes.changes(before, self.report([1.0], key="other")) == []

    def test_command(self, tmp_path):
        """Of two stored reports, without a measurement."""
        for name, value in (("old", 10.0), ("new", 20.0)):
            report = self.report([value] * 9)
            (tmp_path / name).write_text(json.dumps(report.to_json()))
        command = [sys.executable, BENCH, "--from", tmp_path / "new", "--compare", tmp_path / "old"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert "worse" in done.stdout
        assert "ratios is 2.00" in done.stdout


class TestPerftest:
    def test_average_bandwidth(self):
        assert perftest.bandwidth(BANDWIDTH) == 1487.34

    def test_message_rate_in_thousands(self):
        assert perftest.message_rate(BANDWIDTH) == pytest.approx(23.797)

    def test_median_latency(self):
        assert perftest.latency(LATENCY) == 44.24

    def test_pingpong(self):
        assert perftest.pingpong(PINGPONG) == 72.26

    @pytest.mark.parametrize(
        ("read", "output"),
        [
            (perftest.latency, BANDWIDTH),
            (perftest.bandwidth, LATENCY),
            (perftest.pingpong, LATENCY),
            (perftest.bandwidth, ""),
        ],
    )
    def test_output_of_something_else(self, read, output):
        with pytest.raises(perftest.OutputError, match="no "):
            read(output)

    @pytest.mark.parametrize("number", ["inf", "-nan", "0.00", "-1.00", "x"])
    def test_number_that_cannot_be(self, number):
        with pytest.raises(perftest.OutputError, match="is not a measurement"):
            perftest.latency(LATENCY.replace("44.24", number))

    def test_line_that_is_cut_off(self):
        with pytest.raises(perftest.OutputError):
            perftest.bandwidth(BANDWIDTH.replace("1487.34", ""))


class TestRow:
    def test_medians_and_ratio(self):
        row = Row("", "us", [3, 1, 2], [8, 4])
        assert (row.value, row.other, row.ratio) == (2, 6, 2 / 6)

    def test_nothing_measured(self):
        row = Row("", "us", [], [1.0], Goal(1))
        assert (row.value, row.ratio, row.verdict) == (None, None, "not measured")

    def test_other_side_of_zero_has_no_ratio(self):
        assert Row("", "us", [1.0], [0.0]).ratio is None

    @pytest.mark.parametrize(
        ("goal", "verdict"),
        [
            (Goal(2), "met"),
            (Goal(1.9), "missed"),
            (Goal(2, at_least=True), "met"),
            (ratio_at_least(0.5), "met"),
            (ratio_at_least(0.51), "missed"),
            (ratio_at_most(0.5), "met"),
            (ratio_at_most(0.49), "missed"),
            (None, ""),
        ],
    )
    def test_verdict(self, goal, verdict):
        assert Row("", "us", [2.0], [4.0], goal).verdict == verdict

    def test_goals_as_text(self):
        assert [str(goal) for goal in (Goal(2.5), ratio_at_least(20))] == ["<= 2.5", ">= 20 x"]

    @given(st.lists(st.floats(0, 1e9), min_size=1))
    def test_median_lies_inside(self, samples):
        assert min(samples) <= median(samples) <= max(samples)


@pytest.fixture
def report():
    rows = [
        Row("write", "MiB/s", [1500.0, 1400.0, 1450.0], [70.0], ratio_at_least(20)),
        Row("send", "us", [52.25], [40.0], ratio_at_most(1.2)),
        Row("pingpong", "us", [72.26], []),
    ]
    section = Section("verbs", "Verbs", rows, "HCA", "rxe", ["A remark."])
    return Report(["2 processors."], [section])


class TestTables:
    def test_cells(self, report):
        assert tables.cells(report.sections[0]) == [
            ["", "unit", "HCA", "rxe", "ratio", "goal", ""],
            ["write", "MiB/s", "1,450", "70.0", "20.7", ">= 20 x", "met"],
            ["send", "us", "52.2", "40.0", "1.31", "<= 1.2 x", "missed"],
            ["pingpong", "us", "72.3", "-", "-", "", ""],
        ]

    def test_columns_that_nobody_fills_are_left_out(self):
        section = Section("x", "X", [Row("memory", "MiB", [18.0])])
        assert tables.cells(section) == [["", "unit", "median"], ["memory", "MiB", "18.0"]]

    def test_markdown(self, report):
        assert tables.markdown(report).splitlines() == [
            "2 processors.",
            "",
            "**Verbs**",
            "",
            "|  | unit | HCA | rxe | ratio | goal |  |",
            "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
            "| write | MiB/s | 1,450 | 70.0 | 20.7 | >= 20 x | met |",
            "| send | us | 52.2 | 40.0 | 1.31 | <= 1.2 x | missed |",
            "| pingpong | us | 72.3 | - | - |  |  |",
            "",
            "A remark.",
        ]

    def test_stored_report_gives_the_same_tables(self, report):
        stored = json.loads(json.dumps(report.to_json()))
        assert tables.markdown(Report.from_json(stored)) == tables.markdown(report)

    def test_json_holds_medians_and_ratios(self, report):
        row = report.to_json()["sections"][0]["rows"][0]
        assert (row["median"], row["median_of_others"], row["verdict"]) == (1450, 70, "met")
        assert row["ratio"] == pytest.approx(20.714, abs=1e-3)

    @pytest.mark.parametrize(
        ("value", "text"),
        [(None, "-"), (0.0, "0.00"), (9.994, "9.99"), (12.34, "12.3"), (1234.5, "1,234")],
    )
    def test_figure(self, value, text):
        assert tables.figure(value) == text


class TestProbe:
    SAMPLES = {  # noqa: RUF012  # read only
        "with": [1.5, 1.25], "without": [1.0, 1.0], "filled": [2.0, 2.25], "mkeys": [6120, 6120],
    }  # fmt: skip

    def test_modprobe_alone_is_subtracted(self):
        active, filled, without = probe.probe_rows("PF", self.SAMPLES, Goal(2.5))
        assert (active.value, filled.value, without.value) == (0.375, 1.125, 1.0)
        assert active.verdict == "met"

    def test_function_without_a_cache(self):
        rows = probe.probe_rows("VF", self.SAMPLES | {"mkeys": [0, 0]}, Goal(1))
        assert [row.name for row in rows] == [
            "VF: probe until the port is ACTIVE",
            "VF: modprobe without a function",
        ]


class TestQuiet:
    @pytest.fixture
    def shares(self, monkeypatch):
        """Others' shares from now on, one for each meter that is read; a meter a second."""
        seconds = itertools.count()
        clock = SimpleNamespace(monotonic=lambda: next(seconds), sleep=lambda _: None)
        monkeypatch.setattr(machine, "time", clock)
        readings = []
        meter = SimpleNamespace(others_share=lambda: readings.pop(0))
        monkeypatch.setattr(machine, "Meter", lambda: meter)
        return readings

    def test_without_a_limit_the_first_sample_counts(self, shares):
        shares += [0.9]
        quiet = Quiet()
        assert quiet.take(lambda: "sample") == "sample"
        assert quiet.shares == [0.9]

    def test_noisy_sample_is_taken_again(self, shares):
        shares += [0.0, 0.5, 0.0, 0.1]
        samples = iter("ab")
        assert Quiet(limit=0.1, patience=60).take(lambda: next(samples)) == "b"

    def test_quietest_sample_counts_when_patience_ends(self, shares):
        shares += [0.0, 0.3, 0.0, 0.2, 0.0, 0.4]
        samples = iter("abc")
        quiet = Quiet(limit=0.1, patience=6)
        assert quiet.take(lambda: next(samples)) == "b"
        assert quiet.shares == [0.2]

    def test_waits_for_a_quiet_moment(self, shares):
        shares += [0.5, 0.5, 0.0, 0.0]
        assert Quiet(limit=0.1, patience=60).take(lambda: len(shares)) == 1


def test_meter_does_not_count_our_own_work():
    meter, start, busy = machine.Meter(), time.monotonic(), 0.3
    until = time.process_time() + busy
    while time.process_time() < until:
        pass
    processors = os.cpu_count() or 1
    ours = busy / (time.monotonic() - start) / processors
    assert meter.others_share() <= 1.1 - ours


def test_every_goal_of_roce_is_about_a_test():
    names = [test.name for test in roce.tests(1)]
    assert len({*names}) == len(names)
    assert {*roce.ONE_GUEST, *roce.TWO_GUESTS} <= {*names}


def test_every_verbs_test_has_a_name_of_its_own():
    names = [test.name for test in verbs.TESTS]
    assert len(set(names)) == len(names)


def test_ends_that_share_a_processor_wait_for_events():
    assert verbs.tests_for(2) == list(verbs.TESTS)
    one = {test.name: test.command for test in verbs.tests_for(1)}
    assert {test.name for test in verbs.TESTS} - set(one) == {"ib_write_lat, 2 B"}
    assert [name for name, command in one.items() if command.endswith(" -e")] == [
        "ib_send_lat, 2 B",
        "ibv_rc_pingpong, 4 KiB",
    ]


def test_reads_of_a_disk_by_number_and_by_bytes():
    class Fio:
        """A guest in which fio has read 640 times in a second."""

        def run(self, command, timeout):
            self.command = command
            answer = json.dumps({"jobs": [{"read": {"iops": 640.0}}]})
            return SimpleNamespace(check=lambda: SimpleNamespace(stdout=answer))

    guest = Fio()
    assert keys.fio(guest, 1, "1/s", 4, 32) == 640
    assert "/dev/nvme1n1" in guest.command
    assert "--bs=4k --iodepth=32" in guest.command
    assert keys.fio(guest, 0, "MiB/s", 128, 4) == 80


SMALL = {
    "commands": ["--keys", "10", "--traced", "100"],
    "doorbell": ["--count", "4"],
    "engine": ["--count", "4"],
    "ethernet": ["--count", "2"],
    "fabric": ["--count", "4"],
    "hostile": ["--only", "QUERY_CQ"],
    "moves": [],
    "objects": ["--qps", "10", "--mkeys", "10", "--traced", "10"],
    "points": ["--count", "1", "--turns", "2"],
    "scale": ["--count", "1", "--divide", "100"],
    "switched": ["--count", "1"],
    "transport": ["--rounds", "1", "--count", "10"],
}
"""Programs that measure in process, and options with which they take a second or two."""


def test_every_part_in_process_is_tested_here():
    spec = importlib.util.spec_from_file_location("bench_main", BENCH / "__main__.py")
    main = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(main)
    assert set(main.IN_PROCESS) == SMALL.keys()


COUNTS_PYTHON = pytest.mark.pure("it counts the interpreter's calls and instructions")


@pytest.mark.parametrize(
    "part",
    [pytest.param(part, marks=COUNTS_PYTHON if part == "moves" else ()) for part in SMALL],
)
def test_program_prints_a_report(part):
    """What ``scripts/bench`` reads: conditions, and sections whose rows all have samples."""
    done = subprocess.run(
        [sys.executable, BENCH / f"{part}.py", "--json", *SMALL[part]],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        check=True,
        timeout=100,
    )
    report = Report.from_json(json.loads(done.stdout))
    assert len(report.conditions) == 1
    rows = [row for section in report.sections for row in section.rows]
    assert rows
    assert all(row.value for row in rows)


class TestCompiledToPure:
    """Rows of two environments side by side."""

    @staticmethod
    def sections(*values):
        rows = [Row("a write", "us", list(values)), Row("a rate", "MiB/s", list(values))]
        return [Section("engine", "", rows, remarks=["a remark"])]

    def test_turns_are_put_together(self):
        turns = [(self.sections(1.0), self.sections(4.0)), (self.sections(3.0), self.sections(6.0))]
        (section,) = compiled.compare("engine", turns)
        assert (section.ours, section.theirs, section.remarks) == ("compiled", "pure", ())
        found = [(row.samples, row.others, row.ratio, row.verdict) for row in section.rows]
        assert found == [
            ([1.0, 3.0], [4.0, 6.0], 0.4, "met"),
            ([1.0, 3.0], [4.0, 6.0], 0.4, "missed"),
        ]

    def test_rows_of_one_side_only(self):
        empty = [Section("engine", "", [])]
        (section,) = compiled.compare("fabric", [(self.sections(1.0), empty)])
        assert [(row.others, row.goal) for row in section.rows] == [((), None), ((), None)]


@COUNTS_PYTHON
class TestMoves:
    def test_entries_of_ours_in_their_order(self):
        pages = PageList(bytes, array("Q", [4096]), 12, 8, 64)
        found = moves.entries(lambda: (length_of([]), pages.address(0), pages.address(1), len("")))
        assert moves.runs(found) == [
            ("emu/device/objects/memory/views.py", ["length_of"]),
            ("emu/device/objects/memory/pages.py", ["PageList.address", "PageList.address"]),
        ]

    def test_counts(self):
        found = [moves.Entry(module, "f") for module in "aabacc"]
        walk = moves.Walk(found, 70)
        goals = moves.Counts(3, 2, 6)
        modules, steps, calls, instructions = moves.rows("x", walk.counts, goals)
        assert (modules.value, steps.value, calls.value, instructions.value) == (3, 3, 6, 70)
        assert (modules.verdict, steps.verdict, calls.verdict) == ("met", "missed", "met")

    def test_instructions_of_ours(self):
        pages = PageList(bytes, array("Q", [4096]), 12, 8, 64)
        once = moves.instructions(lambda: pages.address(0))
        assert once
        assert moves.instructions(lambda: (pages.address(0), sum(range(9)), pages.address(1))) == (
            2 * once
        )

    @pytest.mark.parametrize("measure", [moves.entries, moves.instructions])
    def test_profile_ends_with_an_exception(self, measure):
        before = sys.getprofile(), sys.gettrace()
        with pytest.raises(ZeroDivisionError):
            measure(lambda: 1 / 0)
        assert (sys.getprofile(), sys.gettrace()) == before


@pytest.mark.parametrize(
    ("source", "left"),
    [
        ("if hca.probes.tracer:\n    f()\ng()", "pass\ng()"),
        ("if hca.probes.tracer and x:\n    f()\nelse:\n    g()", "g()"),
        ("if hca.probes.tracer is None:\n    f()\nelse:\n    g()", "f()"),
        ("if hca.probes.tracer is not None:\n    f()\nelse:\n    g()", "g()"),
        ("a = f() if hca.probes.tracer else None", "a = None"),
        ("if hca.probes.faults is None:\n    f()", "if hca.probes.faults is None:\n    f()"),
    ],
)
def test_points_are_taken_out_as_if_they_had_never_been_built(source, left):
    assert ast.unparse(points.Without("tracer").visit(ast.parse(source))) == left


class TestNet:
    """The two ends of a stream, which are a guest's and the host's, on this machine."""

    def end(self, *words):
        script = BENCH / "booted" / "inside" / "stream.py"
        return subprocess.Popen(
            [sys.executable, script, *map(str, words)], stdout=subprocess.PIPE, text=True
        )

    def test_from_the_guest(self):
        with net.HostEnd(net._drain) as host:
            self.end("source", "127.0.0.1", host.port, 0.05).communicate()
            found, seconds = host.result()
        assert found > 0
        assert seconds > 0

    def test_to_the_guest(self, monkeypatch):
        monkeypatch.setattr(net, "SECONDS", 0.05)
        with net.HostEnd(net._feed) as host:
            found, seconds = json.loads(self.end("fetch", "127.0.0.1", host.port).communicate()[0])
        assert found > 0
        assert seconds > 0
