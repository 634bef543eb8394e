"""Random lines at the control socket: each gets an answer or ends its connection, and no more."""

import contextlib
import json
import socket

import pytest
from helpers.random.examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from emu.device.faults.schema import ACTIONS, POINTS
from emu.device.function.function import Function
from emu.device.models import MODELS
from emu.device.state.hca import HcaOptions
from emu.driver.world.interrupts import IrqList
from emu.driver.world.memory import Memory
from emu.server.control.protocol import MAX_DEPTH
from emu.server.control.server import ControlServer
from emu.server.net.eth.segments import Segments
from emu.server.net.ib.local import LocalFabric
from emu.server.service import views
from emu.server.service.fault_options import FaultOptions
from emu.server.service.fault_session import FaultSession
from emu.server.service.links import Cabling
from emu.server.service.methods import methods
from emu.server.vfio.loop import Loop
from firmware_cmds import TABLE

pytestmark = pytest.mark.hostile

attacks = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(100)
)
METHODS = ("status", "objects", "fault.list", "fault.add", "fault.remove", "fault.load")
NAMES = ("function", "kind", "limit", "rule", "name", "plan")
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5),
    st.sampled_from(["qp", "fault", "a", *POINTS, *ACTIONS]),
    st.just("[[rule]]\npoint='irq'\naction='drop'"),
    st.sampled_from(["\x1b[31m", "[/red]", "\ud800", "\0"]),
)  # fmt: skip
words = st.sampled_from(["point", "action", "match", "times", "name", "function"])
keys = words | st.text(max_size=3)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=8,
)
requests = st.fixed_dictionaries(
    {"method": st.sampled_from(METHODS) | values},
    optional={
        "id": values,
        "params": st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=3), values, max_size=3)
        | values,
    },
)
lines = st.one_of(
    st.binary(max_size=60).map(lambda data: data.replace(b"\n", b"")),
    requests.map(lambda request: json.dumps(request).encode()),
)


class Served:
    """A control server and its loop, in the test's own thread."""

    def __init__(self, path):
        self.path = path
        self.loop = Loop()
        wire = LocalFabric(self.loop)
        model, options = MODELS["connectx6"], HcaOptions(guid=1)
        function = Function(model, options, TABLE, Memory(), IrqList(), self.loop, wire)
        faults = FaultSession([function], FaultOptions(), Cabling(self.loop, wire))
        self.server = ControlServer(
            path, self.loop, methods([function], self.loop, faults, Segments(self.loop))
        )

    def exchange(self, data):
        """What is said to a client that sends this, from the greeting on."""
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(self.path))
            client.setblocking(False)
            self.loop.step()
            client.sendall(data)
            for _ in range(50):  # a long answer takes some rounds
                self.loop.step()
            client.shutdown(socket.SHUT_WR)
            self.loop.step()
            self.loop.step()
            client.setblocking(True)
            client.settimeout(10)
            said = b""
            with contextlib.suppress(ConnectionResetError):
                while part := client.recv(1 << 20):
                    said += part
        return [json.loads(line) for line in said.splitlines()]

    def close(self):
        self.server.close()
        self.loop.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    served = Served(tmp_path_factory.mktemp("control") / "control")
    yield served
    served.close()


@given(st.lists(lines, max_size=4))
@attacks
def test_each_line_is_answered_or_ends_it(served, caplog, sent):
    caplog.clear()
    greeting, *answers = served.exchange(b"".join(line + b"\n" for line in sent))
    assert greeting["protocol"] == 1
    assert len(answers) <= len(sent)
    assert all(("result" in answer) != ("error" in answer) for answer in answers)
    assert "internal error" not in json.dumps(answers)
    assert not any(record.exc_info for record in caplog.records)
    (answer,) = served.exchange(b'{"method":"status","id":"alive"}\n')[1:]
    assert answer["id"] == "alive"


def test_as_deep_as_allowed(served):
    deep = "[" * (MAX_DEPTH - 2) + "]" * (MAX_DEPTH - 2)
    line = '{"id":1,"method":"fault.add","params":{"rule":%s}}\n'
    assert "deep" in served.exchange((line % deep).encode())[1]["error"]["message"]
    assert served.exchange((line % f"[{deep}]").encode())[1].keys() == {"error"}


def test_rules_are_bounded(served, monkeypatch):
    monkeypatch.setattr("emu.device.faults.plan.MAX_RULES", 5)
    served.exchange(b'{"method":"fault.load"}\n')
    add = b'{"method":"fault.add","params":{"rule":{"point":"irq","action":"drop"}}}\n'
    answers = served.exchange(add * 6)[1:]
    assert ["result" in answer for answer in answers] == [True] * 5 + [False]
    served.exchange(b'{"method":"fault.load"}\n')


def in_rounds(served, method, **params):
    """What a request is answered, and how many rounds of the loop that takes."""
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(served.path))
        client.setblocking(False)
        served.loop.step()
        said = b""
        while b"\n" not in said:
            served.loop.step()
            with contextlib.suppress(BlockingIOError):
                said += client.recv(1 << 20)
        line = json.dumps({"id": 7, "method": method, "params": params}) + "\n"
        line, said, rounds = line.encode(), b"", 0
        while b"\n" not in said:
            with contextlib.suppress(BlockingIOError):
                line = line[client.send(line) :] if line else b""
            served.loop.step()
            rounds += not line
            with contextlib.suppress(BlockingIOError):
                said += client.recv(1 << 20)
    served.loop.step()
    return json.loads(said), rounds


RULES = "\n".join(
    f"[[rule]]\nname = 'r{number}'\npoint = 'cmd'\naction = 'fail'" for number in range(1000)
)


def test_plan_of_many_rules_takes_many_rounds(served):
    """A thousand rules in one round would take a tenth of a second."""
    answer, rounds = in_rounds(served, "fault.load", plan=RULES)
    assert answer == {"id": 7, "result": {"rules": 1000}}
    assert rounds > 10
    assert in_rounds(served, "fault.load")[0] == {"id": 7, "result": {"rules": 0}}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x = [" + "[ ] , " * 20_000, "a rule that is too long"),
        ("[[rule]]\nx = [" + "{}," * 20_000, "a rule that is too long"),
        ("x = '" + "a" * 100_000 + "'", "a rule that is too long"),
        (RULES + "\n" + RULES + "\nx = [" + "1," * 5000, "plan:8001: a rule that is too long"),
        (
            RULES + "\n[expect]\n" + RULES + "\n[expect]\n",
            ": invalid TOML: expect is declared twice",
        ),
        ("rule = []\n" + RULES, "invalid TOML"),
        (RULES + "\n[[rule]]\n[rule]", "invalid TOML"),
        (RULES + "\n[[rule]]\nbad bad", "plan:4002: invalid TOML"),
    ],
)
def test_what_is_no_plan_is_not_parsed_at_once(served, text, why):
    answer, _ = in_rounds(served, "fault.load", plan=text)
    assert why in answer["error"]["message"]


def test_objects_are_told_in_parts(served, monkeypatch):
    monkeypatch.setattr(views, "ITEMS_PER_PORTION", 2)
    in_rounds(served, "fault.load", plan=RULES)
    answer, rounds = in_rounds(served, "objects", kind="fault")
    (function,) = answer["result"]["functions"]
    assert [item["name"] for item in function["objects"]["fault"]["items"]] == [
        f"r{number}" for number in range(1000)
    ]
    assert rounds > 100
    in_rounds(served, "fault.load")


def test_requests_behind_a_long_one_are_answered_in_order(served):
    lines = [
        {"id": 1, "method": "fault.load", "params": {"plan": RULES[: 80 * 53]}},
        {"id": 2, "method": "status"},
        {"id": 3, "method": "objects"},
        {"id": 4, "method": "fault.load"},
    ]
    answers = served.exchange(b"".join(json.dumps(line).encode() + b"\n" for line in lines))[1:]
    assert [answer["id"] for answer in answers] == [1, 2, 3, 4]


def test_a_view_that_fails_is_answered_and_logged_once(served, monkeypatch, caplog):
    """A client that asks again and again, as top does, does not fill the log; others go on."""
    caplog.clear()
    monkeypatch.setattr(views, "status", lambda *_given: [][0])
    for _ in range(3):
        (answer,) = served.exchange(b'{"method":"status","id":1}\n')[1:]
        assert answer == {"id": 1, "error": {"message": "internal error"}}
    said = [record.getMessage() for record in caplog.records if record.exc_info]
    assert said == ["control: internal error at status: the device continues"]
    caplog.clear()
    monkeypatch.undo()
    (answer,) = served.exchange(b'{"method":"status","id":2}\n')[1:]
    assert "result" in answer
