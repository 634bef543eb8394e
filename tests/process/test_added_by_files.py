"""CONTRIBUTING's walks, walked on a copy of the sources.

A firmware command, a kind of object, a queue type and a fault point: each is added by files alone,
and by the one line that says a capability or shows the point's events. They are the files of the
walk's table, at most five with the test.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

POINT = '''\
"""The point of the port's link."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field as Bounds

from emu.device.engine import lifecycle
from emu.device.engine.lifecycle import LINK_POINT
from emu.device.faults.registry import Parameter, action, point
from emu.device.faults.event import Event, EventField, RuleInjector
from emu.device.faults.rule import Rule

_BOUNCES = Parameter("bounces", Annotated[int, Bounds(strict=True, ge=1, le=9)])


@point(LINK_POINT, "the cable is plugged in or pulled", EventField("up", int, is_recorded=True))
class LinkChange(Event[bool]):
    """Whether the port takes note."""

    __slots__ = ("up",)

    def __init__(self, faults: RuleInjector, up: bool) -> None:
        super().__init__(faults)
        self.up = int(up)

    def go_on(self) -> bool:
        """It does."""
        return True

    @action("the port takes no note of it")
    def drop(self, _rule: Rule) -> bool:
        """It does not."""
        return False

    @action("the driver hears of it more often", needs=[_BOUNCES])
    def bounce(self, rule: Rule) -> bool:
        """It tells the driver that the subnet has a new manager, so often."""
        for _ in range(rule["bounces"]):
            lifecycle.reregister(self.faults.hca.events)
        return True
'''

SHOWN = (
    """\
    had_cable = hca.port.has_cable
""",
    """\
    faults, is_change = hca.probes.faults, up != hca.vport.is_up
    if is_change and faults is not None and not faults.show(LINK_POINT, up):
        return
""",
)
"""The line of the dispatcher, in emu/device/engine/lifecycle.py, and what it stands behind."""

KEY = (
    "log = logging.getLogger(__name__)\n",
    'LINK_POINT: FaultPoint[[bool], bool] = FaultPoint("link.change")\n',
)
IMPORT = (
    "from emu.device.objects.queues.eq import Eq\n",
    "from emu.device.state.points import FaultPoint\n",
)

FIRE = """
from emu.device.engine import lifecycle
from emu.server.net.ib.local import LocalFabric
from emu.device.faults.injector import Injector
from emu.device.faults.table import markdown
from emu.device.faults.parser import PlanError, load
from emu.device.faults.schema import ACTIONS, POINTS
from emu.device.function.function import Function
from emu.device.state.hca import HcaOptions
from emu.device.models import MODELS
from firmware_cmds import TABLE
from emu.driver.command.driver import Driver
from emu.driver.command.bar import FunctionBar
from emu.driver.world.clock import HandClock
from emu.driver.world.interrupts import IrqList
from emu.driver.world.memory import Memory
from layouts.enums.eqe import EventType

told["point"] = POINTS["link.change"].about
told["uses"] = sorted(ACTIONS["drop"].uses.keys() & {"link.change"})
told["row"] = [line for line in markdown({}).splitlines() if line.startswith("| `link.change`")]

for text in ('action="bounce"', 'action="bounce"\\nbounces=10', 'action="drop"\\nmatch.down=1'):
    try:
        load('[[rule]]\\npoint="link.change"\\n' + text, "p")
    except PlanError as error:
        told.setdefault("mistakes", []).append(str(error))

clock, memory, irqs, fired = HandClock(), Memory(), IrqList(), []
function = Function(
    MODELS["connectx6"], HcaOptions(guid=1), TABLE, memory, irqs, clock, LocalFabric(clock)
)
driver = Driver(FunctionBar(function), memory, irqs).probe()
events = driver.eqs[driver.create_eq(events=[EventType.PORT_CHANGE])]
injector = Injector(function, sink=fired.append)
function.use_faults(injector)
injector.load(load('''
[[rule]]
point = "link.change"
action = "drop"
match.up = 0
times = 1
[[rule]]
point = "link.change"
action = "bounce"
bounces = 2
'''))
for _ in range(2):
    lifecycle.set_link(function.hca, up=False)
    told.setdefault("up", []).append(function.hca.port.is_up)
told["events"] = len(events.drain())
told["fired"] = [[one.rule, one.point, one.action, one.event] for one in fired]
"""

LAYOUT = '''\
"""An event that software asks for (PRM "GEN_EQE")."""

from layouts.cmd import CmdIn, CmdOut
from layouts.prm import bits, octets, rsvd

class gen_eqe_in(CmdIn):
    _ = rsvd(24); eq_number = bits(8); _ = rsvd(32)
    eqe = octets(64)

class gen_eqe_out(CmdOut): _ = rsvd(64)
'''

HANDLER = '''\
"""Events that software asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.engine.events import eq as eq_engine
from emu.device.errors import CmdError
from emu.device.cmdif.registry import command
from layouts.objects import gen_eqe as layout
from layouts.enums.cmd import Op, Status
from layouts.enums.eqe import EventType

if TYPE_CHECKING:
    from emu.device.state.hca import Hca


@command(Op.GEN_EQE)
def gen_eqe(hca: Hca, cmd: layout.gen_eqe_in, out: layout.gen_eqe_out) -> None:
    """An entry is written to the event queue, of the type and with the data in ``eqe``."""
    kind, sub_type = cmd.eqe[1], cmd.eqe[3]
    if kind not in EventType._value2member_map_:
        raise CmdError(Status.BAD_PARAM_ERR, "no such event type", f"{kind:#x}")
    eq = hca.eqs.need(cmd.eq_number)
    eq_engine.post(hca.events, eq, EventType(kind), sub_type, cmd.eqe[32:60])
'''

ANSWER = """
from emu.server.net.ib.local import LocalFabric
from emu.device.function.function import Function
from emu.device.state.hca import HcaOptions
from emu.device.models import MODELS
from firmware_cmds import TABLE
from firmware_cmds.table import markdown
from emu.driver.command.driver import Driver
from emu.driver.command.bar import FunctionBar
from emu.driver.world.clock import HandClock
from emu.driver.world.interrupts import IrqList
from emu.driver.world.memory import Memory
from layouts.enums.cmd import Op
from layouts.enums.eqe import EventType

told["row"] = "| GEN_EQE |" in markdown(TABLE)
clock, memory, irqs = HandClock(), Memory(), IrqList()
function = Function(
    MODELS["connectx6"], HcaOptions(guid=1), TABLE, memory, irqs, clock, LocalFabric(clock)
)
driver = Driver(FunctionBar(function), memory, irqs).probe()
eqn = driver.create_eq(events=[])
asked = bytes((0, EventType.PORT_CHANGE, 0, 4)).ljust(64, b"\\0")
told["status"] = driver.command(Op.GEN_EQE, eq_number=eqn, eqe=asked).status
(entry,) = driver.eqs[eqn].drain()
told["event"] = [entry.type, entry.sub_type]
told["refused"] = [
    driver.command(Op.GEN_EQE, eq_number=number, eqe=eqe).status
    for number, eqe in ((eqn + 1, asked), (eqn, b"\\xff" * 64))
]
"""

OBJECT_LAYOUT = '''\
"""What a vPort guarantees (PRM "CREATE_QOS_PARA_VPORT")."""

from layouts.cmd import CmdInNoUid, CmdOut
from layouts.prm import bits, rsvd

class create_qos_para_vport_in(CmdInNoUid): _ = rsvd(96); share = bits(8); _ = rsvd(24)
class create_qos_para_vport_out(CmdOut): _ = rsvd(16); number = bits(16); _ = rsvd(32)
class destroy_qos_para_vport_in(CmdInNoUid): _ = rsvd(16); number = bits(16); _ = rsvd(32)
class destroy_qos_para_vport_out(CmdOut): _ = rsvd(64)
'''

OBJECT = '''\
"""What a vPort guarantees."""

from __future__ import annotations

from typing import Any

from emu.device.objects.numbering import Numbering
from emu.device.objects.object import Object


class QosParaVport(Object):
    """A share of the port's rate."""

    __slots__ = ("share",)
    kind = "guarantee"
    numbering = Numbering(lambda made: made.caps.qos.max_qos_para_vport)

    def __init__(self, share: int) -> None:
        super().__init__()
        self.share = share

    def about(self) -> dict[str, Any]:
        return {"share": self.share}
'''

OBJECT_HANDLERS = '''\
"""What a vPort guarantees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emu.device.cmdif.registry import command
from emu.device.objects.queues.qos_para_vport import QosParaVport
from layouts.enums.cmd import Op
from layouts.objects import qos_para_vport as layout

if TYPE_CHECKING:
    from emu.device.state.hca import Hca


@command(Op.CREATE_QOS_PARA_VPORT)
def create_qos_para_vport(
    hca: Hca, cmd: layout.create_qos_para_vport_in, out: layout.create_qos_para_vport_out
) -> None:
    """Make a guarantee."""
    out.number = hca.objects[QosParaVport].add(QosParaVport(cmd.share))


@command(Op.DESTROY_QOS_PARA_VPORT)
def destroy_qos_para_vport(
    hca: Hca, cmd: layout.destroy_qos_para_vport_in, out: layout.destroy_qos_para_vport_out
) -> None:
    """Destroy the guarantee."""
    hca.objects[QosParaVport].remove(cmd.number)
'''

ADVERTISED = (
    """\
    max_tsar_bw_share=100,
""",
    """\
    max_qos_para_vport=2,
""",
)
"""The limit, in emu/device/models/ethernet.py, and what it stands behind."""

WORLD = """
from emu.device.errors import syndrome_of
from emu.device.function.function import Function
from emu.device.models import MODELS
from emu.device.state.hca import HcaOptions
from emu.server.net.ib.local import LocalFabric
from emu.server.service import views
from firmware_cmds import TABLE
from emu.driver.command.bar import FunctionBar
from emu.driver.command.driver import Driver
from emu.driver.world.clock import HandClock
from emu.driver.world.interrupts import IrqList
from emu.driver.world.memory import Memory
from layouts.enums.cmd import Op

clock, memory, irqs = HandClock(), Memory(), IrqList()
function = Function(
    MODELS["connectx6dx"], HcaOptions(guid=1), TABLE, memory, irqs, clock, LocalFabric(clock)
)
driver = Driver(FunctionBar(function), memory, irqs).probe()

def census():
    turns = views.census([function])
    while True:
        try:
            next(turns)
        except StopIteration as done:
            return done.value
"""

MAKE = (
    WORLD
    + """
from click.testing import CliRunner
from emu.cli.main import main

KIND = "guarantee"
before = census()[KIND]
made = driver.command(Op.CREATE_QOS_PARA_VPORT, share=3)
told["left"] = census()[KIND] - before
told["objects"] = json.loads(b"".join(views.objects(function, KIND, 9)))[KIND]
told["status"] = views.status(function, 0)["objects"][KIND]
full = driver.command(Op.CREATE_QOS_PARA_VPORT)
number = made.number
driver.command(Op.DESTROY_QOS_PARA_VPORT, number=number)
gone = driver.command(Op.DESTROY_QOS_PARA_VPORT, number=number)
told["refused"] = [full.status, gone.status]
told["explained"] = [
    CliRunner().invoke(main, ["explain", f"{answer.syndrome:#x}"]).output.splitlines()[0]
    for answer in (full, gone)
]
told["after"] = census()[KIND]
"""
)

QUEUE_LAYOUT = '''\
"""Queue pairs of an FPGA (PRM "FPGA_CREATE_QP")."""

from layouts.cmd import CmdInNoUid, CmdOut
from layouts.prm import bits, rsvd

class fpga_create_qp_in(CmdInNoUid): _ = rsvd(64); _ = rsvd(640)
class fpga_create_qp_out(CmdOut): _ = rsvd(8); fpga_qpn = bits(24); _ = rsvd(32); _ = rsvd(640)
'''

QUEUE = '''\
"""Queue pairs of an FPGA."""

from __future__ import annotations

from typing import Any

from emu.device.objects.queues.queue import Queue


class FpgaQp(Queue):
    """A queue pair of an FPGA."""

    __slots__ = ("turns",)
    kind = "fpga qp"

    def __init__(self) -> None:
        super().__init__()
        self.turns = 0

    def about(self) -> dict[str, Any]:
        return {"turns": self.turns}
'''

QUEUE_TURN = '''\
"""The turn of an FPGA's queue pair."""

from __future__ import annotations

from emu.device.objects.queues.fpga_qp import FpgaQp
from emu.device.state.hca import Hca
from emu.device.state.polls import polls


@polls(FpgaQp)
def turn(_hca: Hca, queue: FpgaQp) -> bool:
    """Count the turns; each doorbell gives two."""
    queue.turns += 1
    return queue.turns % 2 == 1
'''

QUEUE_HANDLER = '''\
"""Queue pairs of an FPGA."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emu.device.cmdif.registry import command
from emu.device.objects.queues.fpga_qp import FpgaQp
from layouts.objects import fpga_qp as layout
from layouts.enums.cmd import Op

if TYPE_CHECKING:
    from emu.device.state.hca import Hca


@command(Op.FPGA_CREATE_QP)
def fpga_create_qp(
    hca: Hca, cmd: layout.fpga_create_qp_in, out: layout.fpga_create_qp_out
) -> None:
    """Make a queue pair."""
    out.fpga_qpn = hca.objects[FpgaQp].add(FpgaQp())
'''

RING = (
    WORLD
    + """
SEND = driver.uar * 4096 + 0x800
qpn = driver.command(Op.FPGA_CREATE_QP).fpga_qpn
told["shares"] = function.hca.queues.holders[qpn].kind
for _ in range(2):
    driver.bar.write(SEND, bytes(4) + (qpn << 8).to_bytes(4, "big"))
    driver.bar.settle()
told["objects"] = json.loads(b"".join(views.objects(function, "fpga qp", 9)))["fpga qp"]["items"]
told["objects"][0].pop("handle")
"""
)


@pytest.fixture
def tree(tmp_path):
    """A copy of the sources, with nobody's caches."""
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("emu", "layouts", "firmware_cmds"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignored)
    return tmp_path


def carried_out(tree, script):
    """What a script has told, in a process that knows the copy alone."""
    lines = ["import json, emu", "told = {'emu': emu.__file__}", script, "print(json.dumps(told))"]
    environment = os.environ | {"PYTHONPATH": str(tree)}
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)],
        cwd=tree, env=environment, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert not done.returncode, done.stderr
    told = json.loads(done.stdout)
    assert Path(told.pop("emu")).is_relative_to(tree)
    return told


def insert_after(path, anchor, text):
    source = path.read_text()
    assert source.count(anchor) == 1, f"the walk needs another place in {path.name}"
    path.write_text(source.replace(anchor, anchor + text))


MAX_FILES = 5
"""What a walk opens, its test among them."""
WALKS = {
    title: re.findall(r"^\| (.*?) \|", rows, re.M)[1:]
    for title, rows in re.findall(
        r"^\*\*(Add .*?)\*\*.*?\n\n((?:\|.*\n)+)", (ROOT / "CONTRIBUTING.md").read_text(), re.M
    )
}
"""The first column of each walk's table."""


def opened(tree):
    """The files that the copy has and the sources have not, or not with this text."""
    found = (path.relative_to(tree).as_posix() for path in tree.rglob("*.py"))
    return {
        name for name in found
        if not (ROOT / name).exists() or (ROOT / name).read_bytes() != (tree / name).read_bytes()
    }  # fmt: skip


def assert_promised(tree, walk, *others):
    """A walk has opened files of each place that its table promises, and no others.

    ``others`` are files that the table has in words.
    """
    places = [place for row in WALKS[walk] for place in re.findall(r"`([\w<>/.]+/[\w<>.]*)`", row)]
    patterns = [
        re.compile(re.sub(r"<\w+>", "[^/]+", place) + (".*" if place.endswith("/") else ""))
        for place in places
        if not place.startswith("tests/")
    ]
    files = opened(tree)
    assert len(files) < MAX_FILES, "with the test, these are too many"
    promised = [next((one for one in patterns if one.fullmatch(name)), None) for name in files]
    unpromised = {name for name, one in zip(files, promised) if one is None}
    assert unpromised == set(others)
    assert set(promised) - {None} == set(patterns)
    assert any(place.startswith("tests/") for place in places)


def test_a_fault_point(tree):
    (tree / "emu/device/faults/points/link.py").write_text(POINT)
    for anchor, text in (SHOWN, KEY, IMPORT):
        insert_after(tree / "emu/device/engine/lifecycle.py", anchor, text)
    assert_promised(tree, "Add a fault point", "emu/device/engine/lifecycle.py")

    told = carried_out(tree, FIRE)

    assert told["point"] == "the cable is plugged in or pulled"
    assert told["uses"] == ["link.change"]
    assert told["row"] == ["| `link.change` | the cable is plugged in or pulled | `up` |"]
    needed, too_many, unknown = told["mistakes"]
    assert needed == "p:3: rule[1].action: bounce needs bounces"
    assert too_many.startswith("p:4: rule[1].bounces: at most 9 is needed")
    assert unknown == "p:4: rule[1].match.down: link.change has up"
    # The first pull is lost; at the second one the driver hears twice of a manager before.
    assert told["up"] == [True, False]
    assert told["events"] == 3
    assert told["fired"] == [
        ["rule-1", "link.change", "drop", {"up": 0}],
        ["rule-2", "link.change", "bounce", {"up": 0}],
    ]


def test_a_firmware_command(tree):
    assert not (tree / "layouts/objects/gen_eqe.py").exists(), "it is answered: take another"
    (tree / "layouts/objects/gen_eqe.py").write_text(LAYOUT)
    (tree / "firmware_cmds/objects/gen_eqe.py").write_text(HANDLER)
    assert_promised(tree, "Add a firmware command.")

    told = carried_out(tree, ANSWER)

    written = {"row": True}
    assert told == {"status": 0, "event": [0x09, 4], "refused": [0x05, 0x03]} | written


def test_a_kind_of_object(tree):
    """Its class is the only place where it is declared; the capability says how many there are."""
    (tree / "layouts/objects/qos_para_vport.py").write_text(OBJECT_LAYOUT)
    (tree / "emu/device/objects/queues/qos_para_vport.py").write_text(OBJECT)
    (tree / "firmware_cmds/objects/qos_para_vport.py").write_text(OBJECT_HANDLERS)
    insert_after(tree / "emu/device/models/ethernet.py", *ADVERTISED)
    assert_promised(tree, "Add a kind of object")

    told = carried_out(tree, MAKE)

    number = told["objects"]["items"][0]["handle"]
    assert told.pop("objects") == {
        "total": 1,
        "items": [{"handle": number, "refs": 0, "share": 3}],
    }
    full, gone = told.pop("explained")
    assert full.endswith("LIM_ERR: out of guarantee handles")
    assert gone.endswith("BAD_RES_STATE_ERR: no guarantee to change or destroy")
    assert told == {"left": 1, "status": 1, "refused": [0x08, 0x09], "after": 0}


def test_a_queue_type(tree):
    """Its class and its turn: a send doorbell with its number gives it turns."""
    (tree / "layouts/objects/fpga_qp.py").write_text(QUEUE_LAYOUT)
    (tree / "emu/device/objects/queues/fpga_qp.py").write_text(QUEUE)
    (tree / "emu/device/engine/qp/fpga.py").write_text(QUEUE_TURN)
    (tree / "firmware_cmds/objects/fpga_qp.py").write_text(QUEUE_HANDLER)
    assert_promised(tree, "Add a queue type")

    told = carried_out(tree, RING)

    assert told == {"shares": "fpga qp", "objects": [{"refs": 0, "turns": 4}]}
