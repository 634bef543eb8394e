"""Coming to a fabric, leaving it, and finding it again when the process in its middle has gone."""

import contextlib
import logging
import socket

import pytest

from emu.driver.transport.fabric import STEP_NS, Fabric, port_events
from emu.driver.verbs.connect import connect
from emu.driver.world.cable import set_link
from emu.server.net.fabric.address import FabricError, parse
from emu.server.net.fabric.election import (
    ANSWER_NS,
    JOIN_TIMEOUT_NS,
    MAX_UNANSWERED,
    PATIENCE_NS,
)
from emu.server.net.fabric.protocol import Identity
from layouts.enums.cqe import CqeSyndrome
from layouts.enums.eqe import PortChange

GUID = 0x1234_5678_9ABC_DEF0
TEXT = b"over there"


def numbers(fabric):
    return [node.lid for member in fabric.members for node in member.nodes]


def hubs(fabric):
    return [member for member in fabric.members if member.wire.is_hub]


def sees(member, *lids):
    """Whether a member has a way to these LIDs and to no others."""
    return [lid for lid in range(1, 100) if member.wire.needs_packets(lid, None)] == [*lids]


def linked(one, two, **options):
    """A connection between the first functions of two members, and a region at its far end."""
    qps = one.node.queue_pair(), two.node.queue_pair()
    connect(*qps, **{"ack_timeout": 12} | options)
    return *qps, two.node.region(4096)


def passes(fabric, one, two):
    """Write from one member to the other."""
    qp, _, region = linked(one, two)
    qp.write((region.key, region.va), TEXT)
    (done,) = fabric.completions(qp)
    return not done.syndrome and region.read(0, len(TEXT)) == TEXT


def test_first_to_come_is_the_hub(fabric):
    members = [fabric.join() for _ in range(3)]
    assert hubs(fabric) == members[:1]
    assert numbers(fabric) == [1, 2, 3]
    assert len({member.node.hca.vport.guid for member in members}) == 3
    fabric.until(lambda: sees(members[0], 2, 3) and sees(members[2], 1, 2))
    assert passes(fabric, members[0], members[2])
    assert passes(fabric, members[2], members[1])


def test_several_functions_of_a_member(fabric):
    one, two = fabric.join(Identity(), Identity()), fabric.join(Identity(), Identity(7))
    assert numbers(fabric) == [1, 2, 3, 7]
    fabric.until(lambda: sees(one, 3, 7) and sees(two, 1, 2))


def test_numbers_that_are_wanted(fabric):
    fabric.join(Identity(5, GUID))
    member = fabric.join(Identity(1, GUID + 1))
    assert member.node.hca.vport.guid == GUID + 1
    assert numbers(fabric) == [5, 1]


@pytest.mark.parametrize("wanted", [Identity(5), Identity(0, GUID)])
def test_numbers_that_are_taken(fabric, wanted):
    hub = fabric.join(Identity(5, GUID))
    with pytest.raises(FabricError, match="belongs to another function of the fabric"):
        fabric.join(wanted)
    assert sees(hub)


@pytest.mark.parametrize("name", ["", "unix:", "tcp:", "tcp:host", "tcp:host:0", "ipc:/x", "/x"])
def test_name_that_is_none(name):
    with Fabric(name) as fabric, pytest.raises(FabricError, match="use unix:PATH or tcp"):
        fabric.join()


def test_path_of_something_else(tmp_path):
    path = tmp_path / "file"
    path.write_text("mine")
    with Fabric(f"unix:{path}") as fabric, pytest.raises(FabricError, match="is not a socket"):
        fabric.join()
    assert path.read_text() == "mine"


def test_directory_that_is_not_there(tmp_path):
    name = f"unix:{tmp_path}/no/such"
    with Fabric(name) as fabric, pytest.raises(FabricError, match="No such file or directory"):
        fabric.join()


def test_socket_that_a_dead_process_has_left(tmp_path):
    path = tmp_path / "fabric"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with Fabric(f"unix:{path}") as fabric:
        assert fabric.join().wire.is_hub
    assert not path.exists()


@pytest.fixture
def silent_port():
    """A port that is taken by somebody who does not listen: it can be neither asked nor had."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken


def test_waits_for_the_hub_and_says_so(silent_port, caplog):
    with Fabric(f"tcp:127.0.0.1:{silent_port.getsockname()[1]}") as fabric:
        fabric.loop.call_later(50_000_000, lambda: fabric.loop.skip(PATIENCE_NS))
        fabric.loop.call_later(100_000_000 + PATIENCE_NS, silent_port.close)
        assert fabric.join().wire.is_hub
    (said,) = [found.getMessage() for found in caplog.records if found.levelno == logging.WARNING]
    assert said.endswith(": waiting for a hub to accept us (Connection refused)")


def test_does_not_wait_for_ever(silent_port):
    with Fabric(f"tcp:127.0.0.1:{silent_port.getsockname()[1]}") as fabric:
        fabric.loop.call_later(50_000_000, lambda: fabric.loop.skip(JOIN_TIMEOUT_NS))
        with pytest.raises(FabricError, match="Connection refused"):
            fabric.join()


@pytest.fixture
def foreign_port():
    """A listening port of a program that is no hub; connections are accepted."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


def test_port_of_a_program_that_does_not_answer(foreign_port, caplog):
    port = foreign_port.getsockname()[1]
    with Fabric(f"tcp:127.0.0.1:{port}") as fabric:
        fabric.loop.call_later(50_000_000, lambda: fabric.loop.skip(PATIENCE_NS))
        fabric.loop.call_later(100_000_000 + PATIENCE_NS, lambda: fabric.loop.skip(ANSWER_NS))
        with pytest.raises(FabricError, match=f"port {port} is held by another program"):
            fabric.join()
    assert "(the connection is not answered)" in caplog.text


@pytest.mark.parametrize("answer", [b"HTTP/1.0 400 Bad Request\r\n\r\n", b""])
def test_port_of_a_program_with_another_protocol(foreign_port, answer):
    """An answer that is no frame, or a close, ends the wait after MAX_UNANSWERED connections."""
    accepted = []

    def serve():
        with contextlib.suppress(BlockingIOError):
            client, _ = foreign_port.accept()
            client.sendall(answer)
            client.close()
            accepted.append(client)
        fabric.loop.call_later(STEP_NS, serve)

    foreign_port.setblocking(False)
    port = foreign_port.getsockname()[1]
    with Fabric(f"tcp:127.0.0.1:{port}") as fabric:
        fabric.loop.call_later(STEP_NS, serve)
        with pytest.raises(FabricError, match=f"port {port} is held by another program"):
            fabric.join()
    assert len(accepted) == MAX_UNANSWERED


# The hub goes.


def test_one_of_the_others_becomes_the_hub(fabric):
    hub, *rest = [fabric.join() for _ in range(4)]
    hub.leave()
    fabric.until(lambda: hubs(fabric) and all(sees_others(fabric, member) for member in rest))
    assert len(hubs(fabric)) == 1
    assert numbers(fabric) == [2, 3, 4]
    assert passes(fabric, *rest[:2])
    assert passes(fabric, rest[2], rest[0])


def sees_others(fabric, member):
    return sees(member, *sorted({*numbers(fabric)} - {node.lid for node in member.nodes}))


def test_port_goes_down_with_the_fabric_and_comes_back(fabric, caplog):
    """So the guest's stacks know that whatever they told the subnet's manager is forgotten."""
    caplog.set_level(logging.INFO)
    hub, *rest = [fabric.join() for _ in range(3)]
    for member in rest:
        assert port_events(member.node) == []
    hub.leave()
    fabric.until(lambda: not rest[0].node.hca.port.is_up)
    fabric.until(lambda: all(sees_others(fabric, member) for member in rest))
    for member in rest:
        assert member.node.hca.port.is_up
        assert port_events(member.node) == [
            PortChange.DOWN, PortChange.ACTIVE, PortChange.CLIENT_REREG,
        ]  # fmt: skip
    said = [found.getMessage() for found in caplog.records if "hub is lost" in found.getMessage()]
    assert len(said) == 2


def test_port_that_was_down_before_stays_down(fabric):
    hub, member = fabric.join(), fabric.join()
    set_link(member.node.hca, up=False)
    hub.leave()
    fabric.until(lambda: member.wire.is_hub)
    assert port_events(member.node) == [PortChange.DOWN, PortChange.CLIENT_REREG]
    assert not member.node.hca.port.is_up


def test_function_that_is_reset_while_the_hub_is_away(fabric):
    hub, member = fabric.join(), fabric.join()
    hub.leave()
    function = member.node.function
    fabric.until(lambda: not function.hca.port.is_up)
    function.reset()
    assert not function.hca.port.is_up
    fabric.until(lambda: function.hca.port.is_up)
    assert member.wire.is_hub


def test_message_outlives_the_hub(fabric):
    """It is repeated until the two that are left have found each other."""
    hub, one, two = [fabric.join() for _ in range(3)]
    qp, _, region = linked(one, two, ack_timeout=16)
    hub.leave()
    qp.write((region.key, region.va), TEXT)
    (done,) = fabric.completions(qp)
    assert not done.syndrome
    assert region.read(0, len(TEXT)) == TEXT


def test_newcomer_does_not_get_a_number_that_may_come_back(fabric):
    hub, one, two = [fabric.join() for _ in range(3)]
    fabric.until(lambda: sees(one, 1, 3) and sees(two, 1, 2))
    hub.leave()
    fabric.until(lambda: hubs(fabric))
    assert fabric.join().node.lid not in (1, 2, 3)
    fabric.until(lambda: sees_others(fabric, one))


# A peer goes.


@pytest.mark.parametrize("which", ["hub's peer", "member's peer", "the hub"])
def test_peer_that_vanishes(fabric, which):
    """What is under way and what comes later fails with retry exceeded; others do not notice."""
    hub, one, two, witness = [fabric.join() for _ in range(4)]
    one, two = {"hub's peer": (hub, two), "member's peer": (one, two), "the hub": (one, hub)}[which]
    old, _, region = linked(one, two, retry_count=1)
    new, _, _ = linked(one, two, retry_count=1)
    old.write((region.key, region.va), TEXT)
    fabric.completions(old)
    two.leave()
    for qp in (old, new):
        qp.write((region.key, region.va), TEXT)
        qp.write((region.key, region.va), TEXT)
        found = [done.syndrome for done in fabric.completions(qp, 2)]
        assert found == [CqeSyndrome.TRANSPORT_RETRY_EXC_ERR, CqeSyndrome.WR_FLUSH_ERR]
    fabric.until(lambda: sees_others(fabric, witness))
    assert passes(fabric, one, witness)


def test_connection_to_somebody_who_never_was(fabric):
    hub, one = fabric.join(), fabric.join()
    qp, region = one.node.queue_pair(), hub.node.region(64)
    qp.init().to_rtr(77, 0x55).to_rts(ack_timeout=12, retry_count=1)
    qp.write((region.key, region.va), TEXT)
    (done,) = fabric.completions(qp)
    assert done.syndrome == CqeSyndrome.TRANSPORT_RETRY_EXC_ERR


@pytest.mark.parametrize("mine", [True, False])
def test_cable_is_pulled_and_plugged_in_again(fabric, mine):
    one, two = fabric.join(), fabric.join()
    qp, _, region = linked(one, two, retry_count=1)
    pulled = one.node if mine else two.node
    set_link(pulled.hca, up=False)
    qp.write((region.key, region.va), TEXT)
    (done,) = fabric.completions(qp)
    assert done.syndrome == CqeSyndrome.TRANSPORT_RETRY_EXC_ERR
    assert not any(region.read())
    set_link(pulled.hca, up=True)
    assert port_events(pulled) == [PortChange.DOWN, PortChange.ACTIVE]
    assert passes(fabric, one, two)


def test_member_comes_back_under_its_numbers(fabric):
    hub, one = fabric.join(), fabric.join()
    given = Identity(one.node.lid, one.node.hca.vport.guid)
    one.leave()
    fabric.until(lambda: sees(hub))
    again = fabric.join(given)
    assert again.node.lid == given.lid
    fabric.until(lambda: sees(hub, given.lid))
    assert passes(fabric, hub, again)


@pytest.mark.hostile
class TestPaths:
    """What a Unix fabric puts into a directory that others may write to."""

    def test_only_the_owner_may_come(self, tmp_path):
        with Fabric(f"unix:{tmp_path}/fabric") as fabric:
            fabric.join()
            assert (tmp_path / "fabric").stat().st_mode & 0o777 == 0o600
            assert (tmp_path / "fabric.lock").stat().st_mode & 0o777 == 0o600

    def test_a_mode_of_the_users_choice(self, tmp_path):
        listener = parse(f"unix:{tmp_path}/fabric", 0o660).listen()
        assert (tmp_path / "fabric").stat().st_mode & 0o777 == 0o660
        listener.close()

    @pytest.mark.parametrize("name", ["fabric", "fabric.lock"])
    def test_symbolic_links_are_not_followed(self, tmp_path, name):
        (tmp_path / name).symlink_to(tmp_path / "elsewhere")
        with Fabric(f"unix:{tmp_path}/fabric") as fabric, pytest.raises(FabricError):
            fabric.join()
        assert not (tmp_path / "elsewhere").exists()
        assert (tmp_path / name).is_symlink()
