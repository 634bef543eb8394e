"""Files that describe subnets: what ibnetdiscover prints, what ibsim reads, and what is neither."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from emu.server.net.ib.subnet.nodes import built
from emu.server.net.ib.subnet.places import places_of
from emu.server.net.ib.subnet.topology import MAX_CABLES, SubnetTopology, TopologyError, parse
from layouts.wire.mads import NodeType

IBNETDISCOVER = """
#
# Topology file: generated on Thu Nov 26 23:57:22 2026
#
# Initiated from node 0002c90300e50000 port 0002c90300e50000

vendid=0x2c9
devid=0xd2f0
sysimgguid=0x2c90300f00000
switchguid=0x2c90300f00000(2c90300f00000)
Switch\t8 "S-0002c90300f00000"\t\t# "leaf0" base port 0 lid 2 lmc 0
[1]\t"H-0002c90300e50000"[1](2c90300e50001) \t\t# "a host" lid 1 4xHDR
[7][ext 3]\t"S-0002c90300f00200"[1]\t\t# "spine0" lid 4 12xQDR

vendid=0x2c9
devid=0x101b
sysimgguid=0x2c90300e50000
caguid=0x2c90300e50000
Ca\t1 "H-0002c90300e50000"\t\t# "a host"
[1](2c90300e50001) \t"S-0002c90300f00000"[1]\t\t# lid 1 lmc 0 "leaf0" lid 2 4xHDR

switchguid=0x2c90300f00200(2c90300f00200)
Switch\t8 "S-0002c90300f00200"\t\t# "spine0" base port 0 lid 4 lmc 0
[1]\t"S-0002c90300f00000"[7]\t\t# "leaf0" lid 2 12xQDR
"""
IBSIM = """
Switch 8 "Switch1"
[1] "Hca1"
[4] "Hca2"[2]

Hca 2 "Hca1"
[1] "Switch1"[1]

Hca 2 "Hca2"
[2] "Switch1"[4] w=4
"""


def test_what_ibnetdiscover_prints():
    found = parse(IBNETDISCOVER)
    leaf, host, spine = found.nodes
    assert (leaf.kind, leaf.num_ports, leaf.guid) == (NodeType.SWITCH, 8, 0x2C90300F00000)
    assert (leaf.description, leaf.device_id, leaf.vendor_id) == ("leaf0", 0xD2F0, 0x2C9)
    assert (host.kind, host.device_id) == (NodeType.CHANNEL_ADAPTER, 0x101B)
    assert (spine.device_id, spine.system_guid) == (0, spine.guid)
    assert [(one.ends, one.width, one.speed) for one in found.cables] == [
        (((0, 1), (1, 1)), 4, 64),
        (((0, 7), (2, 1)), 16, 4),
    ]


def test_what_ibsim_reads():
    found = parse(IBSIM)
    assert [one.ends for one in found.cables] == [((0, 1), (1, 1)), ((0, 4), (2, 2))]
    assert len({node.guid for node in found.nodes}) == 3


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a line", "line 1: neither a node, a port"),
        ('\n[1] "x"[1]', "line 2: a port before the first node"),
        ('Switch 255 "s"', "line 1: Switch has 1 to 254 ports"),
        ('Hca 3 "h"', "line 1: Hca has 1 to 2 ports"),
        ('Hca 0 "h"', "line 1: Hca has 1 to 2 ports"),
        ('Hca 1 ""', "line 1: a node needs a printable name"),
        ('Switch 4 "s"\n[5] "s"[1]', "line 2: 's' has no port 5"),
        ('Switch 4 "s"\n[0] "s"[1]', "line 2: 's' has no port 0"),
        ('Switch 4 "s"\n[1] "s"[5]', "line 2: 's' has no port 5"),
        ('Switch 4 "s"\n[1] "t"[1]', "line 2: no node 't'"),
        ('Switch 4 "s"\n[1] "s"[1]', "line 2: a cable from a port to itself"),
        ('Switch 4 "s"\n[1] "s"[2]\n[3] "s"[2]', "line 3: one of the two ports has another"),
        ('Switch 4 "s"\nHca 1 "s"', "line 2: a second node 's'"),
        ('caguid=0x5\nHca 1 "a"\ncaguid=0x5\nHca 1 "b"', "line 4: 'a' has the same GUID"),
        ('caguid=0xffffffffffffffff\nHca 1 "a"', "line 2: the GUID is too high"),
        ("x" * 2000, "line 1: longer than"),
    ],
)
@pytest.mark.hostile
def test_wrong_files(text, why):
    with pytest.raises(TopologyError, match=why):
        parse(text)


@pytest.mark.hostile
def test_no_more_cables_than_there_may_be():
    lines = ['Switch 254 "s"', *['[1] "s"[2]'] * (2 * MAX_CABLES + 1)]
    with pytest.raises(TopologyError, match="more than"):
        parse("\n".join(lines))


_words = st.sampled_from(
    ["Switch", "Hca", "Ca", "1", "4", "300", '"a"', '"b"', '"function0"', "[1]", "[2]", "[9]",
     "(5)", "#", "4xEDR", "\n", "\n", "caguid=0x5", "switchguid=0x5", '"', "\0", "lid"]
)  # fmt: skip


@pytest.mark.hostile
@given(st.one_of(st.text(max_size=200), st.lists(_words, max_size=40).map(" ".join)))
@example('Switch 4 "a"\n[1] "a"[2]\n[3] "b"[1]\nHca 2 "b"')
def test_any_text_is_a_subnet_or_an_error(text):
    try:
        found = parse(text)
    except TopologyError:
        return
    cables = built(found, {})
    assert len(cables.nodes) == len(found.nodes)
    for number, node in enumerate(cables.nodes):
        for port, peer in enumerate(node.peers):
            assert peer is None or cables.nodes[peer[0]].peers[peer[1]] == (number, port)


def test_functions_are_the_adapters_of_their_names_and_then_the_first():
    found = parse('Hca 1 "a"\nHca 1 "function1"\nHca 1 "b"')
    assert places_of(found, [0x11, 0x12, 0x13]) == {0x11: 0, 0x12: 1, 0x13: 2}
    with pytest.raises(TopologyError, match="the file: 2 functions, but 1 channel adapters"):
        places_of(parse('Hca 1 "a"'), [0x11, 0x12])
    with pytest.raises(TopologyError, match="GUID 0x5 is a function's"):
        places_of(parse('Hca 1 "a"\ncaguid=0x5\nHca 1 "b"'), [0x5])


def test_a_function_has_the_first_cable_of_its_node():
    text = 'Switch 4 "s"\n[1] "h"[2]\n[2] "h"[1]\nHca 2 "h"'
    cables = built(parse(text), {0x11: 1})
    assert (cables.nodes[1].num_ports, cables.nodes[1].peers[1]) == (1, (0, 1))
    assert cables.nodes[0].peers[2] is None


def test_an_empty_file_is_an_empty_subnet():
    assert parse("# nothing\n") == SubnetTopology((), ())
