"""MSI-X over vhost-user: the guest's table, masks, and messages in the second queue."""

import struct

import pytest

from emu.server.vhost.pcidev import INTERRUPTS

CONTROL, TABLE = 0x42, 0x2000
ENABLE, FUNCTION_MASK = 0x8000, 0x4000


def control(client, value):
    client.config_write(CONTROL, struct.pack("<H", value))


def program(client, vector, data, masked=0):
    """As pci_write_msg_msix does: four words."""
    for at, word in enumerate((0xA0000, 0, data, masked)):
        client.write(0, TABLE + 16 * vector + 4 * at, struct.pack("<I", word))


def received(client):
    messages = []
    while (data := client.interrupt()) is not None:
        messages.append(data)
    return messages


@pytest.fixture
def ready(client):
    """Vectors 0 and 1 are programmed and enabled."""
    program(client, 0, 50)
    program(client, 1, 51)
    control(client, ENABLE)
    return client


def test_a_message_is_what_the_guest_wrote(served, ready):
    served.transport.interrupts.trigger(1)
    served.transport.interrupts.trigger(0)
    assert received(ready) == [51, 50]
    assert not served.transport.interrupts.pending(0)


def test_nothing_before_it_is_enabled(served, client):
    program(client, 0, 50)
    served.transport.interrupts.trigger(0)
    assert received(client) == []
    assert served.transport.interrupts.pending(0)
    control(client, ENABLE | FUNCTION_MASK)
    assert received(client) == []
    control(client, ENABLE)
    assert received(client) == [50]


def test_a_masked_vector_waits(served, ready):
    program(ready, 0, 50, masked=1)
    served.transport.interrupts.trigger(0)
    served.transport.interrupts.trigger(0)
    assert received(ready) == []
    program(ready, 0, 50)
    assert received(ready) == [50]


def test_a_vector_that_was_never_programmed_is_masked(served, ready):
    served.transport.interrupts.trigger(7)
    assert received(ready) == []


def test_a_reset_masks_every_vector(served, ready):
    served.transport.interrupts.clear_pending()
    served.transport.interrupts.trigger(0)
    assert received(ready) == []


def test_no_room_now(served, client):
    """The driver has ten buffers; what does not fit comes when it gives one back."""
    for vector in range(12):
        program(client, vector, 100 + vector)
    control(client, ENABLE)
    for vector in range(12):
        served.transport.interrupts.trigger(vector)
    assert received(client) == [100 + vector for vector in range(12)]


def test_no_interrupt_while_bus_mastering_is_off(served, ready):
    served.transport.interrupts.permit(False)
    served.transport.interrupts.trigger(0)
    assert received(ready) == []
    served.transport.interrupts.permit(True)
    assert received(ready) == [50]


def test_a_stopped_queue_holds_them(served, ready):
    ready.enable(INTERRUPTS, False)
    served.transport.interrupts.trigger(0)
    assert served.transport.interrupts.pending(0)
    ready.enable(INTERRUPTS)
    assert received(ready) == [50]
