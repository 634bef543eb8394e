"""Every table of a command on a terminal of 80 columns, and in a pipe."""

import json
from dataclasses import asdict

import pytest
from click.testing import CliRunner
from helpers.terminal import said
from rich.console import Console

from emu.cli.commands.functions import fault, net, objects, subnet
from emu.cli.main import main
from emu.cli.shared import control
from emu.device.trace.event import TraceEvent
from emu.guests import cache
from emu.guests.image.build import INFO
from emu.guests.image.image import Image
from emu.guests.named import attach, running
from emu.guests.named.running import RunningEntry

COLUMNS = 80
LONG = "6.12.117+deb13-amd64"
PACKAGES = ("dpdk-dev", "librte-net-mlx5-25", "openmpi-bin", "python3-mpi4py", "ucx-utils")


class Server:
    """Answers as a server of functions that have much to tell."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def links(self):
        counts = {"packets": 1_000_000, "lost": 9_999, "corrupted": 5, "marked": 7}
        properties = {"delay": "10ms", "jitter": "2ms", "gemodel": [1, 30], "rate": "1gbit"}
        return [
            {"guest": "first", "function": 0, "direction": "tx", "properties": properties,
             "in_flight": 12, "counts": counts},
            {"guest": "first", "function": 0, "direction": "rx", "properties": {},
             "in_flight": 0, "counts": {}},
        ]  # fmt: skip

    def rules(self):
        count = {"guest": "first", "met": 1, "fired": 1, "without_effect": 0, "held": 0}
        count |= {"in_force": 1, "armed": 1}
        rule = {"point": "page_fault.resume", "action": "port_errors"}
        names = [f"guest-{number}" for number in range(16)]
        counts = [count | {"guest": name} for name in names]
        return [{"name": "a-rule-of-a-plan", "rule": rule, "counts": counts}]

    def call(self, _method):
        port = {"port": 1, "state": "ACTIVE", "is_cut": True, "peer_port": 36}
        port["peer"] = "MF0;leaf-switch-of-the-second-row:SB7800/U1"
        return {"nodes": [{"name": "MF0;spine:SB7800/U1", "lid": 12, "ports": [port]}]}

    def objects(self, **_):
        masks = {f"outer_headers.field_{number}": 0xFFFF for number in range(40)}
        group = {"handle": 1, "refs": 1, "table": 17, "first": 0, "last": 8, "masks": masks}
        queue = {"handle": 17, "eqn": 16, "status": "OK", "rqs": [64, 65]}
        tables = {"flow group": {"total": 1, "items": [group]}}
        tables["cq"] = {"total": 1, "items": [queue]}
        return {"functions": [{"function": 0, "objects": tables}], "segments": []}


@pytest.fixture
def server(monkeypatch):
    for module in (net, fault, subnet, objects):
        monkeypatch.setattr(module, "connect", lambda *_: Server())


@pytest.fixture
def entries(monkeypatch):
    guests = [f"guest-{number}" for number in range(16)]
    info = {"guests": guests, "devices": ["connectx6dx"] * 64, "suite": "trixie"}
    listed = [
        RunningEntry("a-lab", cache.cache_dir(), info),
        RunningEntry("dev", cache.cache_dir(), {}),
    ]
    monkeypatch.setattr(running, "entries", lambda: listed)
    monkeypatch.setattr(control, "sockets", list)
    monkeypatch.setattr(attach, "state_of", lambda name: "panicked" if "15" in name else "up")


@pytest.fixture
def narrow(monkeypatch):
    """The lines of a command whose standard output has 80 columns."""

    def lines(*words):
        with monkeypatch.context() as patched:
            patched.setattr(control, "Console", lambda **how: Console(**how | {"width": COLUMNS}))
            done = CliRunner().invoke(main, words)
        assert done.exit_code == 0, done.output
        return done.output.splitlines()

    return lines


def piped(*words):
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    return done.output.splitlines()


def fits(lines):
    assert max(map(len, lines)) <= COLUMNS
    assert "\N{HORIZONTAL ELLIPSIS}" not in "".join(lines)
    return lines


def letters(lines):
    """What stands there without headings, spaces and commas: nothing of it may be lost."""
    return sorted("".join(lines).replace(" ", "").replace(",", "").replace(";", ""))


SERVED = (["net", "show"], ["fault", "list"], ["subnet", "show"], ["objects"])


@pytest.mark.usefixtures("server", "entries")
@pytest.mark.parametrize("words", [*SERVED, ["ps"], ["models"], ["fault", "points", "cmd"]])
def test_nothing_is_lost_on_80_columns(narrow, words):
    whole, found = letters(piped(*words)), letters(fits(narrow(*words)))
    for letter in set(whole):
        assert found.count(letter) >= whole.count(letter)


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("words", SERVED)
def test_json_has_no_width(narrow, words):
    assert json.loads("\n".join(narrow(*words, "--json"))) is not None
    assert narrow(*words, "--json") == piped(*words, "--json")


@pytest.mark.usefixtures("server")
def test_links_of_a_guest(narrow):
    assert narrow("net", "show") == [
        "function  direction  in flight  packets",
        "first 0   tx         12         1,000,000, 9,999 lost, 5 corrupted, 7 marked",
        "    properties: delay=10ms jitter=2ms gemodel=[1, 30] rate=1gbit",
        "first 0   rx         0          0",
        "    properties: -",
    ]


@pytest.mark.usefixtures("server")
def test_numbers_of_objects_are_written_as_handles(narrow):
    lines = narrow("objects")
    assert lines[-3].split() == ["handle", "eqn", "status", "rqs"]
    assert lines[-2].split() == ["0x11", "0x10", "OK", "0x40,", "0x41"]
    assert "outer_headers.field_39=0xffff" in " ".join(lines)


@pytest.mark.usefixtures("entries")
def test_guests_that_run(narrow):
    assert len(piped("ps")) == 3
    assert narrow("ps")[0] == "name   suite   minutes  process"


@pytest.fixture
def images(tmp_path, monkeypatch):
    """A cache with two images."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name, packages in (("one", []), ("two", [*PACKAGES])):
        directory = cache.subdir("images") / name
        directory.mkdir()
        image = Image(directory, "trixie", "key", LONG, "56.1-1", "2026-11-28T1", [], packages)
        about = asdict(image)
        del about["path"]
        cache.save_json(directory / INFO, about)


@pytest.mark.usefixtures("images")
def test_images(tmp_path):
    lines = fits(said("guest", "list"))
    assert sum(LONG in line for line in lines) == 2
    assert lines[-2:] == [
        "    packages: dpdk-dev, librte-net-mlx5-25, openmpi-bin, python3-mpi4py,",
        "    ucx-utils",
    ]
    assert len(piped("guest", "list")) == 3
    assert ", ".join(PACKAGES) in piped("guest", "list")[-1]


def test_a_syndrome_s_commands():
    lines = fits(said("explain", "synd 0x4 vend 0x52 hw_synd 0/146"))
    assert lines[1].startswith("    ")
    assert (
        " ".join(line.strip() for line in lines)
        == piped("explain", "synd 0x4 vend 0x52 hw_synd 0/146")[0]
    )


def test_queues_of_a_trace(tmp_path):
    states = ("RST2INIT_QP", "INIT2RTR_QP", "RTR2RTS_QP", "RTS2SQD_QP", "SQD2RTS_QP", "2ERR_QP")
    made = {"in": {"qpc": {"st": 2, "cqn_snd": 16, "cqn_rcv": 17}}, "out": {"qpn": 65}}
    fields = [{"op": "CREATE_QP", "status": "OK", **made}]
    fields += [{"op": op, "status": "OK", "in": {"qpn": 65}} for op in states]
    events = [TraceEvent(at, 0, "cmd", one) for at, one in enumerate(fields)]
    requests = ("ENHANCED_MPSW", "UMR translations", "UMR register", "RDMA_WRITE_IMM")
    events += [TraceEvent(9, 0, "wqe", {"qpn": 65, "op": op}) for op in requests]
    path = tmp_path / "trace.json"
    path.write_text("".join(f"{event.to_json()}\n" for event in events))
    lines = fits(said("trace", "queues", path))
    (header, first, *below) = lines[-4:]
    assert header.startswith("queue")
    assert first.startswith("f0 QP 0x41  UD to CQ 0x10, CQ 0x11")
    assert all(line.startswith("    ") for line in below)
    assert "1 ENHANCED_MPSW, 1 UMR translations" in " ".join(line.strip() for line in below)
    assert fits(said("trace", "count", path))[-1].split() == ["wqe", "UMR", "translations", "1"]
    assert all(one in piped("trace", "queues", str(path))[1] for one in requests)
