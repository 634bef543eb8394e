"""Random lines at the control socket: each gets an answer or ends its connection, and no more."""

import contextlib
import json
import socket

import pytest
from helpers.world import IrqList, Memory
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from emu.control.protocol import MOST_DEPTH
from emu.control.server import ControlServer
from emu.device.hca import HcaOptions
from emu.faults.vocabulary import ACTIONS, POINTS
from emu.function.function import Function
from emu.models import MODELS
from emu.net.eth.segments import Segments
from emu.net.ib.local import LocalFabric
from emu.service.fault_options import FaultOptions, Faults
from emu.service.methods import methods
from emu.vfio.loop import Loop
from firmware_cmds import TABLE

pytestmark = pytest.mark.hostile

attacks = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
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
        faults = Faults([function], FaultOptions())
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
            self.loop.step()
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
    deep = "[" * (MOST_DEPTH - 2) + "]" * (MOST_DEPTH - 2)
    line = '{"id":1,"method":"fault.add","params":{"rule":%s}}\n'
    assert "deep" in served.exchange((line % deep).encode())[1]["error"]["message"]
    assert served.exchange((line % f"[{deep}]").encode())[1].keys() == {"error"}


def test_rules_are_bounded(served, monkeypatch):
    monkeypatch.setattr("emu.service.fault_session.MOST_RULES", 5)
    served.exchange(b'{"method":"fault.load"}\n')
    add = b'{"method":"fault.add","params":{"rule":{"point":"irq","action":"drop"}}}\n'
    answers = served.exchange(add * 6)[1:]
    assert ["result" in answer for answer in answers] == [True] * 5 + [False]
    served.exchange(b'{"method":"fault.load"}\n')
