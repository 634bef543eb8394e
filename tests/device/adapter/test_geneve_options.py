"""Options of Geneve that entries of the switch's tables match: which one, an object says."""

from random import Random

import pytest
from helpers.device.snapshot import snapshot
from helpers.device.switches import UPLINK, Switch

from emu.driver.ethernet.flow_fields import to_vport
from emu.driver.ethernet.frames import EthPacket
from layouts.enums.cmd import Op, Status
from layouts.enums.general_object import GeneralObject
from layouts.steering.flow_match import fte_match_param
from layouts.steering.geneve_option import geneve_tlv_option

MISC_3 = 1 << 4
KIND = {"op_mod": GeneralObject.GENEVE_TLV_OPT}
CLASS, TYPE, DATA = 0x0102, 0x80, 0x00010002
INNER = EthPacket(payload=b"inside" * 20).frame()


def option(data=DATA, of_class=CLASS, of_type=TYPE, words=1):
    body = data.to_bytes(4, "big") * words
    return of_class.to_bytes(2, "big") + bytes((of_type, words)) + body


def packet(*options, port=6081, words=None):
    """A frame in a tunnel; ``words`` of options, it says."""
    tail = b"".join(options)
    length = len(tail) // 4 if words is None else words
    geneve = bytes((length, 0)) + b"\x65\x58" + b"\0\0\7\0" + tail
    return EthPacket(
        protocol=17, ports=b"\xc0\0" + port.to_bytes(2, "big"), payload=geneve + INNER
    ).frame()


def fields(**given):
    shape = {"option_class": CLASS, "option_type": TYPE, "option_data_length": 1} | given
    return {**KIND, "extra": bytes(geneve_tlv_option.new(**shape))}


def beside(data):
    param = fte_match_param.new()
    param.misc_parameters_3.geneve_tlv_option_0_data = data
    return bytes(param)


@pytest.fixture
def switch(clock):
    return Switch(clock)


def create(switch, **given):
    return switch.driver.must(Op.CREATE_GENERAL_OBJECT, **fields(**given)).obj_id


def destroy(switch, number):
    switch.driver.must(Op.DESTROY_GENERAL_OBJECT, **KIND, obj_id=number)


def match(switch, data=DATA, mask=0xFFFFFFFF):
    fdb, table = switch.fdb, switch.first
    group = fdb.group(table, 0, 3, enable=MISC_3, match_criteria=beside(mask))
    fdb.entry(table, 0, group, to_vport(UPLINK), value=beside(data))
    switch.drop_rest()


def test_a_packet_with_the_option_is_matched_by_its_data(switch):
    create(switch)
    match(switch)
    for sent, passes in (
        (packet(option()), True),
        (packet(option(DATA + 1)), False),
        (packet(option(of_type=TYPE + 1)), False),
        (packet(option(of_class=CLASS + 1)), False),
        (packet(option(words=2)), False),
        (packet(option(7, of_type=3), option(words=0, of_type=9), option()), True),
        (packet(), False),
        (packet(option(), port=6082), False),
        (packet(option()), True),
    ):
        assert switch.passes(sent) == [sent] * passes


def test_a_mask_chooses_bits(switch):
    create(switch)
    match(switch, mask=0xFFFF)
    sent = packet(option(0x77770002))
    assert switch.passes(sent) == [sent]


def test_decisions_do_not_outlive_the_object(switch):
    match(switch)
    sent = packet(option())
    assert switch.passes(sent) == [], "nobody looks for it"
    number = create(switch)
    assert switch.passes(sent) == [sent]
    destroy(switch, number)
    assert switch.passes(sent) == []
    destroy(switch, create(switch, option_type=1))
    create(switch, option_type=TYPE)
    assert switch.passes(sent) == [sent]


@pytest.mark.hostile
def test_objects_that_cannot_be(switch):
    driver = switch.driver
    for status, given in (
        (Status.BAD_PARAM_ERR, {"option_data_length": 0}),
        (Status.BAD_PARAM_ERR, {"option_data_length": 2}),
    ):
        before = snapshot(switch.manager.hca)
        assert driver.command(Op.CREATE_GENERAL_OBJECT, **fields(**given)).status == status
        assert snapshot(switch.manager.hca) == before
    answer = driver.command(Op.CREATE_GENERAL_OBJECT, **fields(), log_obj_range=1)
    assert answer.status == Status.LIM_ERR
    create(switch)
    before = snapshot(switch.manager.hca)
    answer = driver.command(Op.CREATE_GENERAL_OBJECT, **fields(option_type=7))
    assert answer.status == Status.LIM_ERR, "there is one"
    assert snapshot(switch.manager.hca) == before
    match(switch)
    sent = packet(option())
    assert switch.passes(sent) == [sent], "the first one is still looked for"


@pytest.mark.hostile
def test_options_that_are_broken(switch):
    """Lengths that lie, and random bytes; the next packet is served."""
    create(switch)
    match(switch)
    for words in range(0, 64, 7):
        switch.passes(packet(option(7, of_type=1), words=words))
    random = Random(5)
    for size in range(0, 256, 4):
        switch.passes(packet(random.randbytes(size)))
    for cut in range(len(packet(option())) - len(INNER)):
        switch.passes(packet(option())[: 42 + cut])
    sent = packet(option())
    assert switch.passes(sent) == [sent]
