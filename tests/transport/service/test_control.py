"""The control socket: its methods, and clients that mean no good, while a guest is served."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import stat
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from emu.cli.main import main
from emu.cli.runs.fired import tell_unfired
from emu.device.faults import record
from emu.device.port.eth.frame import Frame
from emu.device.rounds.budget import POLL_BUDGET
from emu.driver.transport.vfio_client import VfioClient
from emu.server.control import Client, ControlError, protocol
from emu.server.control.server import MAX_CLIENTS
from emu.server.service.devicespec import parse
from emu.server.service.endpoints import ServedDevice
from emu.server.service.fault_options import FaultOptions
from emu.server.service.server import Server
from emu.server.service.trace_file import TraceFile
from emu.version import code, version

RULE = {"point": "cmd", "action": "fail", "match": {"op": "CREATE_CQ"}}


@pytest.fixture
def serving(tmp_path):
    """A server that runs while the body of ``serving.during`` does its work in a thread."""

    class Serving:
        control = tmp_path / "control"
        function = tmp_path / "function"
        record = tmp_path / "record"
        options = FaultOptions()
        device = "connectx6-vf"
        guests = ()

        def during(self, work):
            endpoints = [
                ServedDevice(self.function.with_suffix(f".{index}"), parse(self.device, index))
                for index in range(len(self.guests) or 1)
            ]
            server = Server(
                endpoints, faults=self.options, control=self.control, guests=self.guests
            )
            failures = []

            def guarded():
                try:
                    work(server)
                except BaseException as error:
                    failures.append(error)
                finally:
                    os.kill(os.getpid(), signal.SIGUSR1)

            thread = threading.Thread(target=guarded)
            try:
                with server.loop.stopped_by(signal.SIGUSR1):
                    thread.start()
                    server.loop.run()
            finally:
                thread.join()
                server.close()
            if failures:
                raise failures[0]

    return Serving()


def raw(path):
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(20)
    sock.connect(str(path))
    return sock


def until_closed(sock):
    """All that comes until the server ends the connection."""
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while chunk := sock.recv(1 << 16):
            data += chunk
    return data


def test_status_and_objects(serving):
    def work(_server):
        with Client(serving.control) as control:
            status = control.status()
            assert (status["mlx5emu"], status["code"]) == (version(), code())
            (told,) = status["functions"]
            assert (told["model"], told["state"], told["link"]) == (
                "connectx6-vf", "DISABLED", "ACTIVE",
            )  # fmt: skip
            assert told["counts"]["commands"] == 0
            (objects,) = control.objects()["functions"]
            assert objects["objects"]["mkey"] == {"total": 0, "items": []}
            assert control.census().items() >= {"mkey": 0, "qp": 0, "pd": 0}.items()
            assert list(control.objects(kind="qp")["functions"][0]["objects"]) == ["qp"]

    serving.during(work)


def test_an_unknown_kind_of_objects_names_the_similar_ones(serving):
    """`mlx5emu objects sw --kind qps`, at the server's socket."""
    words = ["objects", "--control", str(serving.control), "--kind"]

    def work(_server):
        result = CliRunner().invoke(main, [*words, "qps"])
        assert result.exit_code
        assert "no objects of kind 'qps'; near it: qp" in result.output
        assert CliRunner().invoke(main, [*words, "flow_table"]).exit_code == 0

    serving.during(work)


def test_rules_that_have_not_fired_are_told(serving, capsys):
    def work(_server):
        with Client(serving.control) as control:
            control.add(RULE, name="never")
            tell_unfired(serving.control)
        assert capsys.readouterr().err == "mlx5emu: never has not fired: it matched no event\n"
        tell_unfired(serving.control.with_name("nowhere"))
        assert capsys.readouterr().err == ""

    serving.during(work)


def test_the_packets_of_links_are_told(serving, capsys):
    def work(_server):
        with Client(serving.control) as control:
            control.set_link(function=0, direction="tx", loss=1)
            tell_unfired(serving.control)
        assert capsys.readouterr().err == "mlx5emu: link of function 0 tx (loss=1.0): 0 packets\n"

    serving.during(work)


def test_each_function_counts_events_for_itself(capsys, monkeypatch):
    counts = [{"met": 2, "fired": 0}, {"met": 3, "fired": 0}]
    rules = [{"name": "third", "counts": counts}, {"name": "one", "counts": counts[:1]}]
    client = contextlib.nullcontext(SimpleNamespace(rules=lambda: rules, links=list))
    monkeypatch.setattr("emu.server.control.client.Client", lambda _: client)
    tell_unfired(Path("control"))
    assert capsys.readouterr().err.splitlines() == [
        "mlx5emu: third has not fired: it matched 5 events (2, 3 by function), and fires at none"
        " of them",
        "mlx5emu: one has not fired: it matched 2 events, and fires at none of them",
    ]


LATE = '[[rule]]\nname="late"\npoint="irq"\naction="delay"\nms=1\n'


def test_the_functions_of_one_guest(serving):
    def work(_server):
        with Client(serving.control) as lab, Client(serving.control, guest="h2") as control:
            told = [(one["function"], one["guest"]) for one in lab.status()["functions"]]
            assert told == [(0, "h1"), (1, "h2"), (2, "h2")]
            assert [one["function"] for one in control.status()["functions"]] == [1, 2]
            found = control.objects(kind="qp")["functions"]
            assert [(one["function"], one["guest"]) for one in found] == told[1:]
            assert len(control.objects(kind="qp", function=2)["functions"]) == 1
            with pytest.raises(ControlError, match="function 0 is another guest's"):
                control.objects(function=0)

            control.set_link(loss=1)
            assert [(one["function"], one["guest"]) for one in lab.links()[::2]] == told[1:]
            assert control.links() == lab.links()
            with pytest.raises(ControlError, match="function 0 is another guest's"):
                control.set_link(function=0, loss=1)

            name = control.add(RULE)
            (rule,) = lab.rules()
            assert [count["function"] for count in rule["counts"]] == [1, 2]
            assert {count["guest"] for count in rule["counts"]} == {"h2"}
            with pytest.raises(ControlError, match="function 0 is another guest's"):
                control.add(RULE, function=[0, 1])
            assert control.rules() == lab.rules()
            control.remove(name)
            assert lab.rules() == []
            with (
                Client(serving.control, guest="h3") as missing,
                pytest.raises(ControlError, match="no function belongs to a guest 'h3'"),
            ):
                missing.status()

    serving.guests = ("h1", "h2", "h2")
    serving.during(work)


def test_a_plan_for_one_guest_leaves_the_rules_of_the_others(serving):
    def work(_server):
        first, second = (Client(serving.control, guest=name) for name in ("h1", "h2"))
        with Client(serving.control) as lab, first, second:
            first.load_plan(LATE)
            second.load_plan(LATE)
            assert [rule["name"] for rule in lab.rules()] == ["late", "late@h2"]
            second.load_plan(LATE)
            assert [rule["name"] for rule in lab.rules()] == ["late", "late@h2"]
            lab.load_plan(LATE)
            assert [len(rule["counts"]) for rule in lab.rules()] == [2]
            second.clear()
            assert [[one["guest"] for one in rule["counts"]] for rule in lab.rules()] == [["h1"]]
            first.clear()
            assert lab.rules() == []

    serving.guests, serving.options = ("h1", "h2"), FaultOptions(record=serving.record)
    serving.during(work)
    plan = record.read(serving.record.read_text()).plan
    assert [rule.name for rule in plan.rule] == ["late", "late@h2", "late@h2~2", "late~2"]


def rules(*names):
    return "".join(LATE.replace("late", name) for name in names)


@pytest.mark.parametrize(
    ("others", "plan", "why"),
    [
        (["late", "late@h2"], ["late"], "a rule 'late@h2' exists already"),
        (["late"], ["late", "late@h2"], "a rule 'late@h2' exists already"),
        (["x" * 79], ["x" * 79], "is longer than 80"),
        ([f"a{n}" for n in range(600)], [f"b{n}" for n in range(401)], "limit of 1000 rules"),
    ],
)
def test_a_plan_that_does_not_fit_beside_another_guests_changes_nothing(serving, others, plan, why):
    def work(_server):
        first, second = (Client(serving.control, guest=name) for name in ("h1", "h2"))
        with Client(serving.control) as lab, first, second:
            first.load_plan(rules(*others))
            second.add(RULE, name="mine")
            before = lab.rules()
            with pytest.raises(ControlError, match=why):
                second.load_plan(rules(*plan))
            assert lab.rules() == before

    serving.guests, serving.options = ("h1", "h2"), FaultOptions(record=serving.record)
    serving.during(work)
    assert "mine" in record.read(serving.record.read_text()).plan.rule[-1].name


def test_segments_of_ethernet_functions(serving):
    def work(server):
        cable = server.functions[0].hca.eth_wire
        server.functions[0].hca.eth.set_admin(up=True)
        cable.transmit(server.functions[0].hca, Frame(bytes(6) + b"\x02" + bytes(53)))
        with Client(serving.control) as control:
            (segment,) = control.status()["segments"]
            assert segment["ports"] == [
                {
                    "port": "function 0", "up": True, "received": 1, "sent": 0, "dropped": {},
                    "known": 1,
                }
            ]  # fmt: skip
            (segment,) = control.objects()["segments"]
            assert segment["ports"][0]["addresses"] == ["02:00:00:00:00:00"]
            assert control.objects(kind="qp")["segments"] == []

    serving.device = "connectx6dx,link=eth"
    serving.during(work)


def test_rules_come_and_go(serving):
    def work(server):
        with Client(serving.control) as control:
            assert control.add(RULE) == "added-1"
            assert control.add(RULE, name="mine", times=2) == "mine"
            assert server.functions[0].hca.probes.faults is not None
            assert [rule["name"] for rule in control.rules()] == ["added-1", "mine"]
            assert control.rules()[1]["counts"] == [
                {
                    "function": 0, "met": 0, "fired": 0, "without_effect": 0, "why": "",
                    "waits": False, "armed": True, "held": 0, "in_force": 0, "guest": "",
                }
            ]  # fmt: skip
            control.remove("mine")
            assert control.load_plan('[[rule]]\npoint="irq"\naction="drop"\n' * 2) == 2
            control.clear()
            assert control.rules() == []
            assert server.functions[0].hca.probes.faults is None

    serving.during(work)


def test_links_come_and_go(serving):
    def work(server):
        cable = server.functions[0].hca.eth_wire

        def net(*words):
            done = CliRunner().invoke(main, ["net", *words, "--control", str(serving.control)])
            assert not done.exit_code, done.output
            return done.output

        assert len(net("show").splitlines()) == 1
        net("set", "function=0", "delay=10ms", "loss=1%", "gap=2", "reorder=5")
        assert cable.tx_link is not None
        cable.tx_link.counts.update(packets=2000, lost=3)
        _, rx, tx = net("show").splitlines()
        assert "0         rx" in rx
        assert "delay=10ms loss=1.0 reorder=5.0 gap=2" in tx
        assert "2,000, 3 lost" in tx
        net("clear", "direction=tx")
        assert (cable.tx_link, cable.rx_link is None) == (None, False)
        net("clear")
        assert cable.rx_link is None
        assert [link["properties"] for link in json.loads(net("show", "--json"))] == [{}, {}]

    serving.device = "connectx6dx"
    serving.during(work)


def test_links_of_the_control_client(serving):
    def work(_server):
        with Client(serving.control) as control:
            assert control.links() == []
            control.set_link(function=0, direction="rx", rate="1gbit")
            (link,) = control.links()
            assert (link["direction"], link["properties"]) == ("rx", {"rate": "1gbit"})
            for wrong in ({"function": 1}, {"loss": 101}, {"rate": 3}):
                with pytest.raises(ControlError):
                    control.set_link(wrong)
            assert len(control.links()) == 1

    serving.during(work)


def test_what_is_outstanding_is_told(serving):
    def work(_server):
        with Client(serving.control) as control:
            control.add(RULE, name="mine")
            control.add(point="load", action="health", syndrome=1, name="ill")
            (told,) = control.status()["functions"]
            assert [told[name] for name in ("faults", "held", "in_force", "page_faults")] == [
                2, 0, 1, 0,
            ]  # fmt: skip
            (objects,) = control.objects(kind="fault")["functions"]
            first, second = objects["objects"]["fault"]["items"]
            assert (first["name"], first["point"], first["in_force"]) == ("mine", RULE["point"], 0)
            assert (second["name"], second["fired"], second["in_force"]) == ("ill", 1, 1)
            for name in ("page fault", "page_fault", "Page-Fault"):
                (objects,) = control.objects(kind=name)["functions"]
                assert objects["objects"] == {"page fault": {"total": 0, "items": []}}
            control.remove("ill")
            assert control.status()["functions"][0]["in_force"] == 0

    serving.during(work)


REFUSED = [
    ("what", {}, "no method 'what'; methods:"),
    ("status", {"x": 1}, "no parameter 'x'"),
    ("objects", {"kind": "qps"}, "no objects of kind 'qps'; near it: qp"),
    ("objects", {"kind": "xyzzy"}, "no objects of kind 'xyzzy'; kinds: counter set, cq, "),
    ("objects", {"kind": {"qp": 1}}, "no objects of kind"),
    ("objects", {"function": 3}, "function must be a number below 1"),
    ("objects", {"limit": -1}, "limit must be a number"),
    ("fault.add", {"rule": {"point": "irq", "action": "delay"}}, "delay needs ms"),
    (
        "fault.add",
        {"rule": {"point": "irq", "action": "drop", "function": 9}},
        "function must be a number below 1",
    ),
    ("fault.add", {"rule": 3}, "rule"),
    ("fault.add", {}, "rule"),
    ("fault.remove", {"name": "none"}, "no rule 'none'"),
    ("fault.load", {"plan": 3}, "plan must be the text"),
    ("fault.load", {"plan": "["}, "invalid TOML"),
]


def test_what_is_refused_changes_nothing_and_says_why(serving):
    def work(server):
        with Client(serving.control) as control:
            for method, params, why in REFUSED:
                with pytest.raises(ControlError, match=why):
                    control.call(method, **params)
            control.add(RULE, name="twice")
            with pytest.raises(ControlError, match="a rule 'twice' exists already"):
                control.add(RULE, name="twice")
            assert len(server.functions[0].hca.probes.faults.states) == 1

    serving.during(work)


def test_only_the_owner_may_connect_and_the_socket_goes(serving):
    def work(_server):
        assert stat.S_IMODE(serving.control.stat().st_mode) == 0o600

    serving.during(work)
    assert not serving.control.exists()
    serving.during(work)


GARBAGE = [
    (b"\xff\xfe\n", "not JSON"),
    (b"[1]\n", "not a JSON object"),
    (b'{"id":1}\n', "a request needs a method"),
    (b'{"method":"status","params":[]}\n', "a request needs a method"),
    (b"[" * 100_000 + b"\n", "not JSON"),
    *(
        (b'{"method":"status",' + part + b"}\n", why)
        for depth in (40, 500, 976, 990)
        for nested in (b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth)
        for part, why in (
            (b'"id":' + nested, "a line is "),
            (b'"params":{"x":' + nested + b"}", "a line is "),
        )
    ),
    (b'{"method":"status","id":[1]}\n', "a number or a string"),
    (b'{"method":"status","id":{}}\n', "a number or a string"),
    (b'{"method":"status","id":true}\n', "a number or a string"),
    (b'{"method":"' + b"x" * 200_000 + b'"}\n', "at most 100 characters"),
    (b"x" * (protocol.MAX_REQUEST + (64 << 10) + 1), None),
    (b'{"method":"status"}\n' * 1000, None),
]


@pytest.mark.hostile
@pytest.mark.parametrize(("data", "why"), GARBAGE, ids=range(len(GARBAGE)))
def test_garbage_ends_the_connection_with_a_line(serving, caplog, data, why):
    def work(_server):
        with raw(serving.control) as sock:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                sock.sendall(data)
            said = until_closed(sock).decode()
        if why is None:  # nothing is wrong but the amount, and nobody reads: it is cut off
            assert '"error"' not in said
        else:
            assert why in json.loads(said.splitlines()[-1])["error"]["message"]
        with Client(serving.control) as control:
            control.status()

    serving.during(work)
    dropped = [line for line in caplog.messages if "a client is dropped" in line]
    assert len(dropped) == 1


@pytest.mark.hostile
def test_clients_that_vanish_or_never_speak_or_are_too_many(serving, caplog):
    def work(_server):
        with raw(serving.control) as sock:
            sock.sendall(b'{"method":')
        silent = [raw(serving.control) for _ in range(7)]
        with Client(serving.control) as control:
            control.status()
            with raw(serving.control) as late:
                assert until_closed(late) == b""
            control.status()
        for sock in silent:
            sock.close()

    serving.during(work)
    assert any("a client is refused: 8 are connected" in line for line in caplog.messages)


@pytest.mark.hostile
def test_a_client_that_does_not_read_holds_nobody_up(serving):
    def work(_server):
        with raw(serving.control) as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.sendall(b'{"method":"objects"}\n' * 150)
            with Client(serving.control) as control:
                for _ in range(5):
                    control.status()

    serving.during(work)


def test_guest_is_served_while_clients_come(serving):
    """The transport blocks in its receive call; a control client gets its answer all the same."""

    def work(_server):
        guest = VfioClient(serving.function.with_suffix(".0"))
        guest.negotiate()
        for _ in range(20):
            assert guest.read(0, 0x1010, 4) != bytes(4)
            with Client(serving.control) as control:
                assert control.status()["functions"]
        guest.close()

    serving.during(work)


def test_control_without_the_main_thread(serving, tmp_path):
    """Then it is an ordinary reader of the loop."""
    done = threading.Event()

    def run():
        endpoint = ServedDevice(serving.function, parse("connectx6-vf"))
        server = Server([endpoint], control=serving.control)
        started.set()
        while not done.is_set():
            server.loop.step(10_000_000)
        server.close()

    started = threading.Event()
    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert started.wait(20)
        with Client(serving.control) as control:
            assert control.status()["functions"]
    finally:
        done.set()
        thread.join()


def test_full_disk_ends_the_record_and_not_the_run(serving, caplog, monkeypatch):
    serving.options = FaultOptions(record=serving.record)
    write, count = TraceFile.write, iter(range(100))

    def full(self, text):
        if next(count) >= 2:
            raise OSError(28, "No space left on device")
        write(self, text)

    monkeypatch.setattr(TraceFile, "write", full)

    def work(_server):
        with Client(serving.control) as control:
            for _ in range(5):
                control.add(RULE)
            assert len(control.rules()) == 5

    serving.during(work)
    assert len(serving.record.read_text().splitlines()) == 2
    assert sum("ends here, the run continues" in line for line in caplog.messages) == 1


@pytest.mark.hostile
def test_many_requests_at_once_keep_to_the_round(tmp_path):
    """The others wait, and all are answered."""
    server = Server([ServedDevice(tmp_path / "vfio", parse("", 0))], control=tmp_path / "control")
    clients, answers, most = [], b"", 0
    expected = (1 + 150) * MAX_CLIENTS  # with a greeting each
    try:
        for _ in range(MAX_CLIENTS):
            clients.append(socket.socket(socket.AF_UNIX))
            clients[-1].connect(str(tmp_path / "control"))
            clients[-1].setblocking(False)
            server.loop.step(0)
        for client in clients:
            client.send(b'{"method":"status"}\n' * 150)
        for _ in range(2000):
            if answers.count(b"\n") == expected:
                break
            server.loop.step(0)
            most = max(most, server.loop.budget.steps)
            for client in clients:
                with contextlib.suppress(BlockingIOError):
                    answers += client.recv(1 << 20)
    finally:
        for client in clients:
            client.close()
        server.close()
    assert answers.count(b"\n") == expected
    assert POLL_BUDGET < most < 3 * POLL_BUDGET


def test_nobody_there(tmp_path):
    with pytest.raises(ControlError, match="No such file"):
        Client(tmp_path / "none")
