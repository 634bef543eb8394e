"""Virtual functions by their names, such as 0.vf1, in the control socket, plans and traces."""

import json
import threading

import pytest
from click.testing import CliRunner

from emu.cli.main import main
from emu.cli.shared.control import function_name
from emu.device.faults.parser import load
from emu.driver.world.clock import HandClock
from emu.host.user_error import UserError
from emu.server.control import ControlError
from emu.server.control.client import Client
from emu.server.control.prometheus import text
from emu.server.service.devicespec import parse_all
from emu.server.service.endpoints import ServedDevice, with_vfs
from emu.server.service.fault_options import FaultOptions
from emu.server.service.server import Server
from emu.server.service.trace_file import Trace

NAMES = ["0", "1", "0.vf0", "0.vf1", "1.vf0", "1.vf1"]
DEVICES = ("connectx6dx,vfs=2", "connectx6,vfs=2")
RULE = {"point": "cmd", "action": "fail", "match": {"op": "CREATE_CQ"}}


@pytest.fixture
def start(tmp_path):
    """Start a server of two physical functions, each with two virtual ones."""
    started = []

    def go(faults=None, tracer=None, devices=DEVICES):
        sockets = [tmp_path / f"f{number}" for number in range(len(devices))]
        endpoints = with_vfs([*map(ServedDevice, sockets, parse_all(devices))])
        server = Server(
            endpoints, tracer=tracer, faults=faults, control=tmp_path / "control"
        )  # fmt: skip
        started.append(server)
        return server

    yield go
    for server in started:
        server.close()


@pytest.fixture
def control(start, tmp_path):
    """A client of a server whose loop runs in this thread's place."""
    server = start()
    thread = threading.Thread(target=server.loop.run)
    thread.start()
    with Client(tmp_path / "control") as client:
        yield client
    server.loop.stop()
    thread.join()


def test_every_report_has_the_names(control):
    for report in (control.status(), control.objects()):
        assert [*map(function_name, report["functions"])] == NAMES
    lines = text(control.status()).splitlines()
    assert 'mlx5emu_up{function="0.vf1",model="connectx6dx-vf"} 1' in lines


@pytest.mark.parametrize(("name", "index"), [("0.vf0", 2), ("1.vf1", 5), (4, 4)])
def test_objects_of_one(control, name, index):
    (one,) = control.objects(function=name)["functions"]
    assert one["function"] == index


def test_objects_from_the_command_line(control, tmp_path):
    for name, shown in (("1.vf1", 5), ("3", 3)):
        words = ["objects", "--control", str(tmp_path / "control"), "--json", "--function", name]
        result = CliRunner().invoke(main, words)
        assert json.loads(result.output)["functions"][0]["function"] == shown
    for name in ("0.vf", "vf1", "0.vf1.2", "-1", "0,1"):
        result = CliRunner().invoke(main, [*words[:-1], name])
        assert result.exit_code == 2


@pytest.mark.parametrize(
    ("function", "indices"), [("0.vf1", [3]), (["0.vf0", 1, "1.vf1"], [1, 2, 5]), (0, [0])]
)
def test_rules_apply_to_those_that_they_name(control, function, indices):
    control.add(RULE, name="one", function=function)
    (rule,) = control.rules()
    applying = [counts["function"] for counts in rule["counts"]]
    assert applying == indices
    assert [function_name(counts) for counts in rule["counts"]] == [NAMES[at] for at in indices]


def test_a_plan_applies_to_those_that_it_names(control):
    control.load_plan(
        '[[rule]]\nname="one"\nfunction="1.vf0"\npoint="cmd"\naction="fail"\n'
        'match.op="CREATE_CQ"\n[[link]]\nfunction="1.vf0"\nloss=1\n'
    )
    (rule,) = control.rules()
    assert [counts["function"] for counts in rule["counts"]] == [4]
    assert {function_name(link) for link in control.links()} == {"1.vf0"}


@pytest.mark.hostile
@pytest.mark.parametrize("name", ["0.vf2", "2.vf0", "0.vf", "a.vf0", "0.vf00000", "", "0.vf1\n"])
def test_a_name_of_nobody_changes_nothing(control, name):
    plan = f"[[rule]]\nfunction={json.dumps(name)}\npoint='irq'\naction='drop'\n"
    for call in (
        lambda: control.objects(function=name),
        lambda: control.add(RULE, function=name),
        lambda: control.set_link(function=name, loss=1),
        lambda: control.load_plan(plan),
    ):
        with pytest.raises(ControlError):
            call()
    assert (control.rules(), control.links()) == ([], [])


def test_links_of_an_ethernet_vf_are_its_pfs(control):
    with pytest.raises(ControlError, match=r"function 0\.vf1 is a virtual one"):
        control.set_link(function="0.vf1", loss=1)


def test_a_plan_from_the_start_on(start):
    plan = load('[[rule]]\nfunction="0.vf1"\npoint="load"\naction="link"\n')
    server = start(FaultOptions(plan))
    (rule,) = server._faults.listing()
    assert [counts["function"] for counts in rule["counts"]] == [3]


def test_a_plan_from_the_start_on_for_nobody(start):
    plan = load('[[rule]]\nfunction="0.vf7"\npoint="load"\naction="link"\n')
    with pytest.raises(UserError, match=r"no virtual function 0\.vf7"):
        start(FaultOptions(plan))


def test_traces_name_them(tmp_path):
    path = tmp_path / "trace"
    trace = Trace(path, "json", vf_names={3: "0.vf1"})
    for index in (0, 3):
        recorder = trace.recorder(index, HandClock())
        recorder.power_on("connectx6dx", 1 << 20)
        recorder.irq(index, 1)
    trace.close()
    for words, shown in (
        ([], ["f0", "f0", "f0.vf1", "f0.vf1"]),
        (["--function", "0.vf1"], ["f0.vf1"] * 2),
        (["--function", "3"], ["f0.vf1"] * 2),
        (["--function", "0"], ["f0"] * 2),
    ):
        result = CliRunner().invoke(main, ["trace", "show", *words, str(path)])
        assert [line.split()[1] for line in result.output.splitlines()] == shown
    result = CliRunner().invoke(main, ["trace", "show", "--function", "0.vf2", str(path)])
    assert "functions of the trace: 0, 0.vf1" in result.output
