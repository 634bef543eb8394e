"""``mlx5emu trace show`` and the form that it reads."""

import io
import json
import os
import re
import subprocess
import sys

import pytest
from click.testing import CliRunner
from helpers.terminal import said
from hypothesis import given
from hypothesis import strategies as st

from emu.cli.main import main
from emu.device.trace.event import TraceEvent, TracePoint
from emu.device.trace.stored import MAX_LINE_BYTES, EventChoice, StoredTextError, TraceReader
from emu.device.trace.text import LEGEND, FunctionNames, TextForm
from emu.host.process_identity import module_command
from layouts.enums.cmd import Op

START = 5_000_000_000
ANSI = re.compile(r"\x1b\[[0-9;]*m")

EVENTS = [
    TraceEvent(START, 0, "reset", {"model": "connectx6"}),
    TraceEvent(START + 1_000_000, 0, "mmio", {
        "access": "write", "offset": 24, "length": 4, "register": "cmd_dbell", "value": 1,
    }),
    TraceEvent(START + 2_000_000, 0, "cmd", {
        "slot": 0, "op": "CREATE_CQ", "opcode": 0x400, "status": "OK", "duration_us": 41.2,
        "in": {"cq_context": {"log_cq_size": 7}}, "out": {"cqn": 0x12},
    }),
    TraceEvent(START + 3_000_000, 1, "cmd", {
        "slot": 1, "op": "DEALLOC_PD", "opcode": 0x801, "status": "BAD_RES_ERR",
        "duration_us": 1.0, "in": {"pd": 0x77}, "syndrome": 0xADCA6E, "reason": "no such pd",
        "detail": "0x77",
    }),
    TraceEvent(START + 4_000_000, 0, "cmd", {
        "slot": 0, "op": "CREATE_CQ", "opcode": 0x400, "delivery": "TOK_ERR", "reason": "block 0",
        "in": {},
    }),
    TraceEvent(START + 5_000_000, 0, "eqe", {"eqn": 1, "type": "CMD", "data": {"vector": 1}}),
    TraceEvent(START + 6_000_000, 1, "irq", {"vector": 0, "eqn": 1}),
    TraceEvent(START + 7_000_000, 0, "cmd", {
        "slot": 0, "op": "opcode 0x999", "opcode": 0x999, "status": "BAD_OP_ERR",
        "duration_us": 1.0, "in": {"data": "0x0999"}, "syndrome": 1, "reason": "unknown",
        "detail": "",
    }),
]  # fmt: skip

LINES = [
    "    0.000000 f0 reset connectx6",
    "    0.001000 f0 mmio  write cmd_dbell = 1",
    "    0.002000 f0 cmd   slot 0 CREATE_CQ -> OK 41.2us  cq_context{log_cq_size=7} | cqn=0x12",
    "    0.003000 f1 cmd   slot 1 DEALLOC_PD -> BAD_RES_ERR 1.0us"
    " syndrome 0xadca6e: no such pd (0x77)  pd=0x77",
    "    0.004000 f0 cmd   slot 0 CREATE_CQ -> not delivered, TOK_ERR: block 0",
    "    0.005000 f0 eqe   eqn 1 CMD vector=1",
    "    0.006000 f1 irq   vector 0 eqn 1",
    "    0.007000 f0 cmd   slot 0 opcode 0x999 -> BAD_OP_ERR 1.0us"
    " syndrome 1: unknown  data=0x0999",
]


def write(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@pytest.fixture
def stored(tmp_path):
    return write(tmp_path / "t.json", [event.to_json() for event in EVENTS])


@pytest.fixture
def show():
    return lambda *words, **how: CliRunner().invoke(
        main, ["trace", "show", *map(str, words)], **how
    )


def test_prints_the_text_form(show, stored):
    result = show(stored)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == LINES


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ("--point cmd", [2, 3, 4, 7]),
        ("--point EQE,irq", [5, 6]),
        ("--op create_cq", [2, 4]),
        ("--op CREATE_CQ,DEALLOC_PD", [2, 3, 4]),
        ("--op 0x999", [7]),
        ("--op 0x400", [2, 4]),
        ("--status refused", [3, 4, 7]),
        ("--status ok", [2]),
        ("--status bad_res_err", [3]),
        ("--status TOK_ERR", [4]),
        ("--function 1", [3, 6]),
        ("--since 0.003", [3, 4, 5, 6, 7]),
        ("--until 0.0035", [0, 1, 2, 3]),
        ("--since 0.003 --until 0.006 --function 0", [4, 5]),
        ("--op CREATE_CQ --status refused", [4]),
        ("--point irq --op CREATE_CQ", []),
        ("--since 99", []),
    ],
)
def test_choices(show, stored, options, wanted):
    result = show(stored, *options.split())
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [LINES[index] for index in wanted]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--point cqe --status refused", "matches: only cmd has commands and statuses"),
        ("--point irq --op CREATE_CQ --json", "matches: only cmd has commands and statuses"),
        ("--point cmd,irq --op MODIFY_CQ", "matches"),
        ("--since 99", "matches"),
    ],
)
def test_no_match_is_reported(show, stored, options, said):
    result = show(stored, *options.split())
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"mlx5emu: none of {len(EVENTS)} events {said}\n"


def test_json_gives_the_lines_as_stored(show, stored):
    result = show(stored, "--json", "--op", "CREATE_CQ")
    assert result.stdout.splitlines() == [EVENTS[2].to_json(), EVENTS[4].to_json()]


def test_standard_input(show, stored):
    result = show("-", input=stored.read_bytes())
    assert result.stdout.splitlines() == LINES


def test_colour_on_a_terminal_only(show, stored, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "40")
    coloured = show(stored, "--status", "refused").stdout
    assert "\x1b[" in coloured
    assert len(coloured.splitlines()) == 3


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--point cqi", "unknown name 'cqi'; near it: cqe"),
        ("--op FOO", "unknown name 'FOO'; known names: QUERY_HCA_CAP, "),
        ("--op FOO", f"MANAGE_PAGES and {len(Op) - 8} others"),
        ("--op CREATE_QC", "CREATE_"),
        ("--status BAD", "BAD_"),
        ("--function -1", "--function"),
        ("--since later", "--since"),
    ],
)
def test_wrong_choices(show, stored, options, said):
    result = show(stored, *options.split())
    assert result.exit_code == 2
    assert said in result.output


class TestBadFiles:
    def test_text_form_says_so(self, show, tmp_path):
        result = show(write(tmp_path / "t.txt", LINES))
        assert result.exit_code == 1
        assert "is a trace in text form, which needs no decoding" in result.stderr
        assert not result.stdout

    def test_no_trace_at_all(self, show):
        result = show(__file__)
        assert result.exit_code == 1
        assert result.stderr.splitlines()[-1] == f"mlx5emu: {__file__} is not a trace"

    def test_empty(self, show, tmp_path):
        result = show(write(tmp_path / "t.json", []))
        assert (result.exit_code, result.output) == (0, "")

    def test_missing(self, show, tmp_path):
        assert show(tmp_path / "none").exit_code == 2

    def test_broken_lines_are_named_and_left_out(self, show, tmp_path):
        good = [event.to_json() for event in EVENTS[:2]]
        path = write(tmp_path / "t.json", [good[0], "garbage", good[1], "[]"])
        result = show(path)
        assert result.exit_code == 0
        assert result.stdout.splitlines() == LINES[:2]
        assert result.stderr.splitlines() == [
            f"mlx5emu: {path}:2: left out: not JSON",
            f"mlx5emu: {path}: 2 lines left out in total",
        ]

    def test_cut_off_at_the_end(self, show, tmp_path):
        path = tmp_path / "t.json"
        path.write_text(EVENTS[0].to_json() + "\n" + EVENTS[1].to_json()[:-9])
        result = show(path)
        assert result.stdout.splitlines() == LINES[:1]
        assert result.stderr == f"mlx5emu: {path}:2: left out: ends in the middle\n"

    @pytest.mark.parametrize(
        ("raw", "why"),
        [
            (b"\xff\xfe{}\n", "not ASCII"),
            (b"[" * 5000 + b"\n", "not JSON"),
            (b"1\n", "not a JSON object"),
            (b'{"t_ns":1,"function":0}\n', "t_ns, function, point are not all present"),
            (b'{"t_ns":"1","function":0,"point":"irq"}\n', "t_ns, function, point"),
            (b'{"t_ns":' + b"9" * 5000 + b',"function":0,"point":"irq"}\n', "not JSON"),
            (b'{"t_ns":' + b"9" * 20 + b',"function":0,"point":"irq"}\n', "t_ns or function"),
            (b'{"t_ns":0,"function":-' + b"9" * 400 + b',"point":"irq"}\n', "t_ns or function"),
            (b"\n", "not JSON"),
        ],
    )
    def test_reasons(self, raw, why):
        warnings = []
        reader = TraceReader(io.BytesIO(raw), lambda *args: warnings.append(args))
        assert list(reader) == []
        ((number, said),) = warnings
        assert number == 1
        assert said.startswith(why)

    @pytest.mark.hostile
    def test_an_endless_line_costs_one(self):
        raw = b"x" * (3 * MAX_LINE_BYTES) + b"\n" + EVENTS[0].to_json().encode() + b"\n"
        reader = TraceReader(io.BytesIO(raw), lambda *_: None)
        assert [event for _, event in reader] == [EVENTS[0]]
        assert reader.broken == 1


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)
KEYS = (
    "slot", "op", "status", "delivery", "syndrome", "reason", "detail", "in", "out", "access",
    "offset", "register", "uar", "vector", "value", "fields", "eqn", "type", "sub_type", "data",
    "model", "duration_us", "cqn", "opcode",
)  # fmt: skip


@pytest.mark.hostile
@given(
    point=st.sampled_from(list(TracePoint)) | st.text(max_size=5),
    t_ns=st.integers(1 - (1 << 64), (1 << 64) - 1),
    fields=st.dictionaries(st.sampled_from(KEYS), json_values, max_size=8),
)
def test_whatever_a_line_holds_it_is_shown_as_one(point, t_ns, fields):
    raw = json.dumps({"t_ns": t_ns, "function": 0, "point": point} | fields).encode() + b"\n"
    ((_, event),) = TraceReader(io.BytesIO(raw), lambda *_: None)
    line = TextForm()(event)
    assert line.isprintable()
    assert line.isascii()
    EventChoice(ops=frozenset({"CREATE_CQ"}), status="OK").takes(event, 0)


def test_reader_that_goes_away(tmp_path):
    many = write(tmp_path / "t.json", [EVENTS[2].to_json()] * 5000)
    process = subprocess.Popen(
        [*module_command("emu"), "trace", "show", str(many)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout.readline().decode().rstrip() == LINES[2].replace("0.002", "0.000")
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(30) == 1


class TestCount:
    """``mlx5emu trace count``."""

    def test_each_kind_by_its_name(self, tmp_path):
        path = tmp_path / "trace.json"
        more = [
            TraceEvent(START, 0, "wqe", {"qpn": 0x40, "index": 0, "op": "UMR register"}),
            TraceEvent(START, 0, "wqe", {"qpn": 0x40, "index": 3, "op": "UMR register"}),
            TraceEvent(START, 0, "cqe", {"cqn": 1, "type": "REQ_ERR", "syndrome": "MW_BIND_ERR"}),
            TraceEvent(START, 0, "new\x1bpoint", {}),
        ]
        path.write_text("".join(event.to_json() + "\n" for event in EVENTS + more))
        result = CliRunner().invoke(main, ["trace", "count", str(path)])
        assert result.exit_code == 0
        rows = [" ".join(line.strip("│┃ ").split("│")) for line in result.output.splitlines()]
        words = [" ".join(row.split()) for row in rows]
        assert "wqe UMR register 2" in words
        assert "cqe REQ_ERR MW_BIND_ERR 1" in words
        assert "cmd CREATE_CQ 1" in words
        assert "cmd DEALLOC_PD BAD_RES_ERR 1" in words
        assert "cmd CREATE_CQ not delivered 1" in words
        assert "\x1b" not in result.output

    def test_what_is_no_trace(self, tmp_path):
        path = tmp_path / "notes"
        path.write_text("hello\n")
        result = CliRunner().invoke(main, ["trace", "count", str(path)])
        assert result.exit_code != 0
        assert "is not a trace" in result.output


def test_functions_are_called_by_their_guest(tmp_path):
    events = [
        TraceEvent(START, 0, "reset", {"model": "connectx6", "guest": "h1"}),
        TraceEvent(START, 1, "reset", {"model": "connectx6", "guest": "host2"}),
        TraceEvent(START, 0, "irq", {"vector": 0, "eqn": 1}),
        TraceEvent(START, 1, "irq", {"vector": 0, "eqn": 1}),
    ]
    path = tmp_path / "trace"
    path.write_text("".join(f"{event.to_json()}\n" for event in events))
    result = CliRunner().invoke(main, ["trace", "show", str(path)])
    assert [line[13:] for line in result.output.splitlines()[2:]] == [
        "h1/f0    irq   vector 0 eqn 1",
        "host2/f1 irq   vector 0 eqn 1",
    ]
    for name in ("host2", "lab/host2"):
        result = CliRunner().invoke(main, ["trace", "show", "--guest", name, str(path)])
        assert [line.split()[1] for line in result.output.splitlines()] == ["host2/f1"] * 2
    for words, known in [
        (("--guest", "h3"), "guests of the trace: h1, host2"),
        (("--function", "7"), "functions of the trace: 0, 1"),
        (("--guest", "h1", "--function", "1"), "functions of h1: 0"),
    ]:
        for command in ("show", "count", "queues"):
            result = CliRunner().invoke(main, ["trace", command, *words, str(path)])
            assert result.exit_code == 2
            assert known in result.output


@pytest.mark.parametrize("words", [("--guest", "h2"), ("--guest", "lab/h2"), ("--function", "1")])
def test_counts_and_queues_of_one_guest(tmp_path, words):
    events = [
        TraceEvent(START, number, point, fields)
        for number in (0, 1)
        for point, fields in [
            ("reset", {"model": "connectx6", "guest": f"h{number + 1}"}),
            *[("irq", {"vector": 0, "eqn": 1})] * (number + 1),
            ("eqe", {"eqn": number + 1, "type": "CMD"}),
        ]
    ]
    path = tmp_path / "trace"
    path.write_text("".join(f"{event.to_json()}\n" for event in events))
    table = CliRunner().invoke(main, ["trace", "count", *words, "--json", str(path)]).output
    assert {row["point"]: row["number"] for row in json.loads(table)} == {
        "reset": 1, "irq": 2, "eqe": 1,
    }  # fmt: skip
    rows = json.loads(
        CliRunner().invoke(main, ["trace", "queues", *words, "--json", str(path)]).output
    )
    assert {row["function"] for row in rows} == {"h2/f1"}


def test_a_trace_in_text_form_with_guests_is_told_from_json():
    line = str(TextForm()(TraceEvent(START, 0, "reset", {"model": "m", "guest": "h1"})))
    with pytest.raises(StoredTextError):
        list(TraceReader(io.BytesIO(line.encode() + b"\n"), lambda *_: None))


def test_names_in_a_hostile_trace_are_bounded():
    form = TextForm()
    for function in range(10_000):
        form(TraceEvent(START, function, "reset", {"model": "m", "guest": "g" * 1000}))
    assert form.names.width < 50
    assert form.names.guest(9_999) is None


LONG = TraceEvent(START + 8_000_000, 0, "cmd", {
    "slot": 0, "op": "QUERY_HCA_CAP", "status": "OK", "duration_us": 1.0,
    "in": {}, "out": {f"log_max_{number}": number for number in range(40)},
})  # fmt: skip


class TestTerminal:
    """``trace show`` on a terminal of 80 columns; ``stored`` has lines that fit, and a long one."""

    @pytest.fixture
    def stored(self, tmp_path):
        return write(tmp_path / "t.json", [event.to_json() for event in (*EVENTS, LONG)])

    @pytest.fixture
    def whole(self, show, stored):
        """The line as a pipe gets it."""
        return show(stored).stdout.splitlines()[-1]

    def test_a_pipe_gets_whole_lines_and_no_legend(self, show, stored):
        lines = show(stored).stdout.splitlines()
        assert lines[:-1] == LINES
        assert lines[-1].endswith(" log_max_39=39")

    def test_a_line_is_cut_at_the_edge_and_says_so(self, stored, whole):
        lines = said("trace", "show", stored)
        assert lines[-1] == whole[:79] + "\N{HORIZONTAL ELLIPSIS}"
        fitting = next(line for line in LINES if len(line) < 80)
        assert fitting in lines
        assert (
            said("trace", "show", stored, columns=60)[-1] == whole[:59] + "\N{HORIZONTAL ELLIPSIS}"
        )

    def test_long_cuts_nothing(self, stored, whole):
        assert said("trace", "show", stored, "--long")[-1] == whole

    def test_the_legend_has_each_point_and_fits(self, stored, show):
        lines = [line for line in said("trace", "show", stored) if line.startswith("#")]
        assert lines == LEGEND.splitlines()
        assert max(map(len, lines)) <= 80
        assert {line.split()[1] for line in lines} >= set(TracePoint)
        assert show(stored, "--legend").stdout.startswith(LEGEND + "\n")
        assert LEGEND not in "\n".join(said("trace", "show", stored, "--no-legend"))

    @pytest.mark.parametrize("words", [("--json",), ("--json", "--legend")])
    def test_json_is_json(self, stored, words):
        lines = said("trace", "show", stored, *words)
        assert [json.loads(line) for line in lines if line.startswith("{")]
        assert not [line for line in lines if line.startswith("#")]

    def test_colours_in_a_pipe_cut_nothing(self, show, stored, whole):
        """FORCE_COLOR, as CI services set it, makes no terminal."""
        found = show(stored, env={"FORCE_COLOR": "1", "COLUMNS": "80"}).stdout
        assert ANSI.sub("", found).splitlines()[-1] == whole


def test_each_virtual_function_of_a_full_server_has_its_name():
    """16 functions with 31 VFs each; a trace with more names has a limit all the same."""
    names = FunctionNames()
    for index in range(600):
        names.learn(TraceEvent(0, index, TracePoint.RESET, {"vf": f"{index // 31}.vf{index % 31}"}))
    assert names.of(16 * 31 - 1) == "f15.vf30"
    assert names.of(599) == "f599"
