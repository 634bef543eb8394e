"""``status --prometheus`` and ``top``: a server's numbers for machines and for people."""

import io
import re
import time

import pytest
from click.testing import CliRunner
from rich.console import Console

from emu.cli.commands.functions import status as status_command
from emu.cli.commands.functions import top as top_command
from emu.cli.commands.functions.top import view
from emu.cli.main import main
from emu.cli.shared import units
from emu.server.control import prometheus
from emu.server.control.client import ControlError

COUNTS = (
    "commands", "refused", "completions", "error_completions", "compressed_completions", "events",
    "lost_events", "page_faults", "faults_fired", "sent_packets", "sent_bytes",
    "received_packets", "received_bytes",
)  # fmt: skip


def answer(t_ns=0, **counts):
    function = {
        "function": 0, "model": "connectx6", "state": "INITIALIZED", "link": "ACTIVE",
        "internal_errors": 0, "faults": 1, "held": 0, "objects": {"qp": 3, "cq": 0},
        "ledger": {"used": 4_200_000, "limit": 1 << 32, "accounts": {"mkey": 4_200_000}},
        "counts": dict.fromkeys(COUNTS, 0) | counts,
    }  # fmt: skip
    port = {"port": 'a "b\\c\n', "up": True, "received": 5, "sent": 6, "dropped": {"no room": 7}}
    return {
        "t_ns": t_ns, "mlx5emu": "1.0", "code": "pure",
        "functions": [function], "segments": [{"segment": "s", "ports": [port]}],
    }  # fmt: skip


NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_]\w*="((?:[^"\\\n]|\\[\\"n])*)"'
SAMPLE = re.compile(rf"({NAME})\{{({LABEL}(?:,{LABEL})*)\}} (\d+(?:\.\d+)?)")


def parsed(text):
    """Samples by name and labels; fails on what the exposition format does not allow."""
    assert text.endswith("\n")
    kinds, samples, last = {}, {}, ""
    for line in text.splitlines():
        if line.startswith("# HELP "):
            assert re.fullmatch(rf"# HELP {NAME} \S.*", line)
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in kinds, "a metric's lines stand together"
            assert kind in ("counter", "gauge")
            assert (kind == "counter") == name.endswith("_total")
            kinds[name] = kind
            last = name
        else:
            match = SAMPLE.fullmatch(line)
            assert match, line
            assert match[1] == last
            key = match[1], match[2]
            assert key not in samples
            samples[key] = float(match[5])
    return samples


def test_prometheus_reads_every_line():
    found = parsed(prometheus.text(answer(commands=9, refused=2, sent_bytes=1 << 60)))
    labels = 'function="0",model="connectx6"'
    assert found["mlx5emu_commands_total", labels] == 9
    assert found["mlx5emu_commands_refused_total", labels] == 2
    assert found["mlx5emu_sent_bytes_total", labels] == 1 << 60
    assert found["mlx5emu_up", labels] == 1
    for link, is_up in (("UP", 1), ("DOWN", 0), ("INIT", 0)):
        (function,) = answer()["functions"]
        changed = parsed(prometheus.text(answer() | {"functions": [function | {"link": link}]}))
        assert changed["mlx5emu_up", labels] == is_up
    assert found["mlx5emu_objects", 'function="0",kind="qp"'] == 3
    assert found["mlx5emu_held_bytes", 'function="0",kind="mkey"'] == 4_200_000
    port = 'segment="s",port="a \\"b\\\\c\\n"'
    assert found["mlx5emu_segment_dropped_frames_total", f'{port},reason="no room"'] == 7


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (999, "999"), (999.6, "1.0K"), (12_345, "12.3K"), (123_456, "123K"),
     (5_000_000_000, "5.0G"), (1e18, "1000000.0T")],
)  # fmt: skip
def test_numbers_are_short(number, text):
    assert units.count(number) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (4_200_000, "4.0 MiB"),
     (150 << 20, "150 MiB"), (1 << 32, "4.0 GiB")],
)  # fmt: skip
def test_bytes_have_units_of_1024(number, text):
    assert units.size(number) == text


def two_functions():
    told = answer(t_ns=10**9, commands=123_456_789, sent_bytes=1 << 60)
    (one,) = told["functions"]
    one |= {"model": "connectx6dx-vf", "address": "0c:42:a1:00:00:01", "in_force": 0}
    one |= {"page_faults": 12, "link": "INITIALIZE"}
    one["ledger"]["accounts"] = dict.fromkeys(("mkey", "qp", "cq", "flow table entry"), 10**9)
    told["segments"][0]["ports"][0]["known"] = 3
    told["functions"].append({**one, "function": 15})
    return told


@pytest.mark.parametrize("words", [["status"], ["status", "--rate"], ["top", "--times", "1"]])
def test_two_functions_fit_a_terminal(server, monkeypatch, words):
    """80 columns hold every table: nothing is folded or cut, and both say the same of bytes."""
    told = two_functions()
    server(told, {**told, "t_ns": 2 * 10**9})
    out = io.StringIO()
    for module in (status_command, top_command):
        monkeypatch.setattr(module, "console", lambda: Console(width=80, file=out))
    assert CliRunner().invoke(main, words).exit_code == 0
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    assert "\u2026" not in out.getvalue()
    assert sum(bool(re.match(r" *15 ", line)) for line in lines) == 3, out.getvalue()
    assert "host memory 4.0 MiB of 4.0 GiB" in out.getvalue()


def test_a_function_says_what_its_driver_switch_and_lag_are(server, monkeypatch):
    told = two_functions()
    sfs = [{"function_id": 0x8000, "sfnum": 7, "state": "IN_USE", "objects": 93}]
    told["functions"][0]["driver"] = "Linux,\x1bmlx5_core,6.12.107"
    told["functions"][0]["switch"] = {"decides": True, "sfs": sfs}
    told["functions"][1]["switch"] = {"decides": False, "sfs": []}
    told["functions"][1]["steering_entries"] = {"too many entries": 1234}
    told["functions"][1]["lag"] = {"remap": [1, 1], "vports": True, "switches": False}
    server(told)
    out = io.StringIO()
    monkeypatch.setattr(status_command, "console", lambda: Console(width=80, file=out))
    assert CliRunner().invoke(main, ["status"]).exit_code == 0
    lines = out.getvalue().splitlines()
    assert "function 0: driver: Linux,\\x1bmlx5_core,6.12.107" in lines
    assert "function 0: embedded switch: the FDB forwards" in lines
    assert "function 0: sub-function 0x8000: sfnum 7, IN_USE, 93 objects" in lines
    assert "function 15: embedded switch: no FDB" in lines
    assert "function 15: steering entries: too many entries: 1,234 packets dropped" in lines
    assert "function 15: LAG: affinity 1 by port 1, 2 by port 1; one vPort" in lines


def test_status_says_in_words_what_is_pure_and_why_frames_are_dropped(server, monkeypatch):
    told = two_functions()
    told["segments"][0]["ports"][0]["dropped"] = {"down": 3, "no room": 1234}
    server(told)
    out = io.StringIO()
    monkeypatch.setattr(status_command, "console", lambda: Console(width=100, file=out))
    assert CliRunner().invoke(main, ["status"]).exit_code == 0
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    assert lines[0] == "mlx5emu 1.0, device code: pure Python"
    (heading,) = [line for line in lines if line.startswith("port ")]
    (row,) = [line for line in lines if line.startswith('a "b')]
    assert heading.endswith("  frames dropped")
    assert row.endswith("  3 (port down), 1,234 (no room)")


def test_top_shows_rates_and_what_goes_wrong():
    group = view(answer(commands=10), answer(t_ns=2 * 10**9, commands=30, error_completions=4))
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(group)
    text = console.export_text()
    assert re.search(r"connectx6 +INITIALIZED +ACTIVE +10 ", text)
    assert re.search(r"^ *0 +0 +4 +0", text, re.MULTILINE)
    assert "host memory 4.0 MiB of 4.0 GiB; 3 qp" in text


class FakeClient:
    def __init__(self, answers):
        self.answers = iter(answers)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def status(self):
        told = next(self.answers, None)
        if told is None:
            raise ControlError("gone")
        return told


@pytest.fixture
def server(monkeypatch):
    def serve(*answers):
        for module in (status_command, top_command):
            monkeypatch.setattr(module, "connect", lambda *_: FakeClient(answers))
        monkeypatch.setattr(time, "sleep", lambda _seconds: None)

    return serve


def test_the_commands(server):
    server(answer(commands=3))
    result = CliRunner().invoke(main, ["status", "--prometheus"])
    assert parsed(result.output)["mlx5emu_commands_total", 'function="0",model="connectx6"'] == 3
    server(*(answer(t_ns=at * 10**9, commands=at) for at in range(4)))
    result = CliRunner().invoke(main, ["top", "--times", "2"])
    assert result.exit_code == 0
    assert "commands/s" in result.output


@pytest.mark.parametrize(("words", "per"), [(["status"], ""), (["status", "--rate"], "/s")])
def test_rates_have_headings_of_their_own(server, words, per):
    later = {**two_functions(), "t_ns": 2 * 10**9}
    later["functions"][0]["counts"] = dict.fromkeys(COUNTS, 1 << 62)
    server(*([two_functions(), later] if per else [later]))
    output = CliRunner().invoke(main, words).output
    for name in ("commands", "events", "packets sent", "received", "events lost"):
        assert re.search(rf"\b{name}{per}(\s\s|\n|,)", output), (name, output)


def test_top_ends_with_the_server(server):
    server(answer(), answer(t_ns=10**9))
    result = CliRunner().invoke(main, ["top"])
    assert (result.exit_code, "the server has ended" in result.output) == (0, True)
