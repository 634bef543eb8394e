"""One list of programs ends alike, however the two queue pairs are connected.

Every program is run in one function, between two, over a link, as packets, frames, and trains.
Everything that a driver sees must be the same: completions, events, states, memory, error counters
of the queue pairs, and the ports' counters of packets and of wrong keys. Only this may differ:

- times, and with them what depends on when a response comes: how often it is asked again what has
  arrived (``roce_adp_retrans``), and how much of a long message is repeated after a failure, so
  that a target's memory is compared only for requests that succeeded or found no receive request;
- counts of what is sent again (``RETRIES``): a timeout that ends between two packets counts once
  more or less;
- how many messages an acknowledgement stands for: only packets of requests are counted;
- numbers of queue pairs and LIDs;
- DC, which has no packets outside (``emu.device.engine.rc.dynamic``): it is compared between one
  function and two, with and without a link.
"""

from dataclasses import replace

import pytest
from helpers.device.alike import (
    EMPTY,
    FULL,
    LIMITED,
    NOBODY,
    PEER,
    SIZE,
    Program,
    Run,
    infiniband,
    roce,
    roce_frames,
)

from emu.driver.verbs.completions import ERRORS
from layouts.enums.cqe import CqeSyndrome
from layouts.enums.qp import QpType

RC, UC, UD, XRC, DCI = QpType.RC, QpType.UC, QpType.UD, QpType.XRC, QpType.DCI
RETRIES = {
    "duplicate_request", "out_of_sequence", "packet_seq_err", "implied_nak_seq_err",
    "local_ack_timeout_err", "roce_adp_retrans", "roce_adp_retrans_to", "rnr_nak_retry_err",
}  # fmt: skip
OK, REFUSED = None, "refused"
RETRY, RNR = CqeSyndrome.TRANSPORT_RETRY_EXC_ERR, CqeSyndrome.RNR_RETRY_EXC_ERR
INVAL, ACCESS = CqeSyndrome.REMOTE_INVAL_REQ_ERR, CqeSyndrome.REMOTE_ACCESS_ERR
OP, BAD_RESP = CqeSyndrome.REMOTE_OP_ERR, CqeSyndrome.BAD_RESP_ERR
PROT, LENGTH = CqeSyndrome.LOCAL_PROT_ERR, CqeSyndrome.LOCAL_LENGTH_ERR


PLACING = ("send", ("send", SIZE), "write", ("write", SIZE), "send_imm", ("write_imm", SIZE))
ALL = (*PLACING, "read", ("read", SIZE), "fetch_add", "compare_swap")
MASKED = tuple((name, size) for size in (8, 4) for name in ("masked_swap", "masked_add"))
EMPTY_GID = 5


def grh(of, index=0):
    """A path with a global route header, to the GID of PEER or of NOBODY."""
    return {"path": {"grh": 1, "rgid_rip": of, "src_addr_index": index, "hop_limit": 64}}


# Of every connected service, over both link layers: (program, first error that its requester sees).
CONNECTED = [
    (Program("right", do=ALL), OK),
    (Program("send with invalidate", do=("send_inv",)), RETRY),
    (Program("mtu of sender", do=PLACING, left={"mtu": 5}, right={"mtu": 1}), INVAL),
    (Program("mtu of receiver", do=("write",), left={"mtu": 1}, right={"mtu": 5}), OK),
    (Program("long, mtu of receiver", do=(("write", 600),), left={"mtu": 1}), INVAL),
    (Program("read, mtu of sender", do=(("read", 600),), left={"mtu": 5}, right={"mtu": 1}),
     BAD_RESP),
    (Program("read, mtu of receiver", do=(("read", 600),), left={"mtu": 1}), BAD_RESP),
    (Program("log_msg_max of receiver", do=(("send", SIZE),), right={"log_msg_max": 10}), INVAL),
    (Program("read, log_msg_max", do=(("read", SIZE),), right={"log_msg_max": 10}), INVAL),
    (Program("pkey_index of sender: empty", left={"pkey_index": EMPTY}), RETRY),
    (Program("pkey_index of both: empty", left={"pkey_index": EMPTY},
             right={"pkey_index": EMPTY}), RETRY),
    (Program("qpn of sender", left={"qpn": 0x8000}), RETRY),
    (Program("qpn of receiver", right={"qpn": 0x8000}), RETRY),
    (Program("psn of sender: a gap", left={"psn": 1}), RETRY),
    (Program("psn of sender: before", left={"psn": -1}), OK),
    (Program("receiver in INIT", right={"stop": "INIT"}), RETRY),
    (Program("receiver in ERR", right={"stop": "ERR"}), RETRY),
    (Program("rwe", do=("send", "write"), right={"rwe": 0}), INVAL),
    (Program("rre", do=("send", "read"), right={"rre": 0}), INVAL),
    (Program("rae", do=("send", "fetch_add"), right={"rae": 0}), INVAL),
    (Program("atomic address", do=("send", "crooked")), INVAL),
    (Program("masked atomics", do=MASKED * 2), OK),
    (Program("rae, masked", do=("send", "masked_add"), right={"rae": 0}), INVAL),
    (Program("masked atomic's address", do=("send", ("masked_swap", 8, 4))), INVAL),
    (Program("address of four bytes", do=(("masked_swap", 4, 4), ("masked_add", 4, 2))), INVAL),
    (Program("reads of receiver", do=("reads",), right={"log_rra_max": 0}), INVAL),
    *((Program(f"{twist}: {name}", do=(op,), twist=twist), ACCESS)
      for twist in ("wrong_rkey", "out_of_range", "of_another_domain")
      for name, op in (("write", "write"), ("long write", ("write", SIZE)), ("read", "read"),
                       ("write with immediate", "write_imm"), ("atomic", "fetch_add"))),
    (Program("read_only: write", do=("read", "write"), twist="read_only"), ACCESS),
    (Program("read_only: atomic", do=("read", "fetch_add"), twist="read_only"), ACCESS),
    *((Program(f"{twist}: masked atomic", do=(("masked_swap", 4),), twist=twist), ACCESS)
      for twist in ("wrong_rkey", "out_of_range", "read_only")),
    (Program("write_only", do=("write", "read"), twist="write_only"), ACCESS),
    (Program("wrong_lkey", do=("send",), twist="wrong_lkey"), PROT),
    (Program("short_receive", do=("send", "write"), twist="short_receive"), INVAL),
    (Program("long, short_receive", do=(("send", SIZE),), twist="short_receive"), INVAL),
    (Program("no_receive", do=("write", "send"), twist="no_receive"), RNR),
    (Program("no_receive, immediate", do=("write_imm",), twist="no_receive"), RNR),
    (Program("no_receive, long immediate", do=(("write_imm", SIZE),), twist="no_receive"), RNR),
    (Program("read_only_receive", do=("send",), twist="read_only_receive"), OP),
    (Program("wrong_srqn", do=("send",), twist="wrong_srqn"), INVAL),
    (Program("wrong_srqn: write", do=("write",), twist="wrong_srqn"), INVAL),
]  # fmt: skip

INFINIBAND = [
    (Program("pkey_index of sender: another partition", left={"pkey_index": FULL}), RETRY),
    (Program("pkey_index of receiver: another partition", right={"pkey_index": FULL}), RETRY),
    (Program("pkey_index: another partition of both", left={"pkey_index": FULL},
             right={"pkey_index": FULL}), OK),
    (Program("pkey_index: two limited members", left={"pkey_index": LIMITED},
             right={"pkey_index": LIMITED}), RETRY),
    (Program("rlid of sender", left={"path": {"rlid": 77}}), RETRY),
    (Program("rlid of receiver", right={"path": {"rlid": 77}}), RETRY),
    (Program("grh", left=grh(PEER), right=grh(PEER)), OK),
    (Program("grh of sender only", left=grh(PEER)), RETRY),
    (Program("grh of receiver only", right=grh(PEER)), RETRY),
    (Program("rgid_rip of sender", left=grh(NOBODY), right=grh(PEER)), RETRY),
    (Program("rgid_rip of receiver", left=grh(PEER), right=grh(NOBODY)), RETRY),
    (Program("src_addr_index of sender", left=grh(PEER, EMPTY_GID), right=grh(PEER)), REFUSED),
    (Program("src_addr_index of receiver", left=grh(PEER), right=grh(PEER, EMPTY_GID)), REFUSED),
]  # fmt: skip
ROCE = [
    (Program("rgid_rip of sender", left={"path": {"rgid_rip": NOBODY}}), RETRY),
    (Program("rgid_rip of receiver", right={"path": {"rgid_rip": NOBODY}}), RETRY),
    (Program("rmac of sender", left={"path": {"rmac_31_0": 77}}), RETRY),
    (Program("rmac of receiver", right={"path": {"rmac_31_0": 77}}), RETRY),
    (Program("src_addr_index of sender: IPv6", left={"path": {"src_addr_index": 0}}), RETRY),
    (Program("src_addr_index of receiver: empty", right={"path": {"src_addr_index": 9}}), REFUSED),
    (Program("interface's MTU", left={"mtu": 5}, right={"mtu": 5}, mtu=1522), OK),
    (Program("long, interface's MTU", do=(("write", SIZE),), left={"mtu": 5}, right={"mtu": 5},
             mtu=1522), RETRY),
    (Program("read, interface's MTU", do=(("read", SIZE),), left={"mtu": 5}, right={"mtu": 5},
             mtu=1522), RETRY),
]  # fmt: skip

# Of datagrams: (program, whether they arrive).
DATAGRAMS = [
    (Program("right", do=("send", "send_imm", ("send", 4000))), True),
    (Program("q_key of receiver", do=("send",), right={"q_key": 5}), False),
    (Program("key", to={"key": 7 << 32}), False),
    (Program("pkey_index of sender: empty", left={"pkey_index": EMPTY}), False),
    (Program("dqp_dct", to={"dqp_dct": 0x7777}), False),
    (Program("receiver in INIT", right={"stop": "INIT"}), False),
    (Program("wrong_lkey", twist="wrong_lkey"), False),
    (Program("short_receive", twist="short_receive"), False),
    (Program("no_receive", twist="no_receive"), False),
    (Program("read_only_receive", twist="read_only_receive"), False),
]
GRH_BIT = 1 << 30
DATAGRAMS_IB = [
    (Program("pkey_index of sender", left={"pkey_index": FULL}), False),
    (Program("pkey_index: two limited members", left={"pkey_index": LIMITED},
             right={"pkey_index": LIMITED}), False),
    (Program("rlid", to={"rlid": 77}), False),
    (Program("rgid", to={"grh_gid_fl": GRH_BIT, "rgid": NOBODY}), False),
    (Program("source GID", to={"grh_gid_fl": GRH_BIT | EMPTY_GID << 20, "rgid": PEER}),
     False),
]  # fmt: skip
DATAGRAMS_ROCE = [
    (Program("rgid", to={"rgid": NOBODY}), False),
    (Program("rmac", to={"rmac": bytes(5) + b"\2"}), False),
    (Program("source GID: empty", to={"grh_gid_fl": GRH_BIT | 9 << 20}), False),
    (Program("interface's MTU", do=(("send", 1000),), mtu=1522), True),
    (Program("long, interface's MTU", do=(("send", 2000),), mtu=1522), False),
]
# Of DC, without packets.
DYNAMIC = [
    (Program("right", do=ALL), OK),
    (Program("masked atomics", do=MASKED * 2), OK),
    (Program("masked atomics, mtu of initiator", do=MASKED, right={"mtu": 1}), OK),
    (Program("masked atomic's address", do=(("masked_add", 8, 4),)), INVAL),
    (Program("mtu of initiator", do=("send", ("send", 600)), left={"mtu": 5}, right={"mtu": 1}),
     INVAL),
    (Program("read, mtu of initiator", do=(("read", 600),), left={"mtu": 5}, right={"mtu": 1}),
     BAD_RESP),
    (Program("pkey_index of initiator", left={"pkey_index": EMPTY}), RETRY),
    (Program("pkey_index of target", right={"pkey_index": EMPTY}), RETRY),
    (Program("wrong_access_key", twist="wrong_access_key"), RETRY),
    (Program("unknown_target", twist="unknown_target"), RETRY),
    (Program("drained_target", twist="drained_target"), RETRY),
    (Program("wrong_rkey", do=("write",), twist="wrong_rkey"), ACCESS),
    (Program("no_receive", do=("send",), twist="no_receive"), RNR),
    (Program("short_receive", do=("send",), twist="short_receive"), INVAL),
]  # fmt: skip
DYNAMIC_IB = [
    (Program("rgid", to={"grh_gid_fl": GRH_BIT, "rgid": NOBODY}), RETRY),
    (Program("rlid", to={"rlid": 77}), RETRY),
]
DYNAMIC_ROCE = [
    (Program("interface's MTU", do=(("write", SIZE),), left={"mtu": 5}, right={"mtu": 5},
             mtu=1522), RETRY),
]  # fmt: skip

ONLY = {"wrong_srqn": (XRC,), "reads of receiver": (RC,), "send with invalidate": (RC, XRC)}
"""Programs that only some services can run."""
NOT_OF_UC = {
    "read", "reads", "fetch_add", "compare_swap", "crooked", "masked_swap", "masked_add"
}  # fmt: skip


def of(services, programs):
    """The programs of every service that can run them; UC hears of no error but its own."""
    found = []
    for service in services:
        for program, end in programs:
            only = next((kinds for name, kinds in ONLY.items() if name in program.name), services)
            mine, expected = program.of(service), end
            if service is UC:
                steps = tuple(step for step in mine.do if _name(step) not in NOT_OF_UC)
                mine, expected = replace(mine, do=steps), end if end in (PROT, REFUSED) else OK
            if service in only and mine.do:
                found.append(pytest.param(mine, expected, id=str(mine)))
    return found


def _name(step):
    return step if isinstance(step, str) else step[0]


@pytest.fixture(scope="module")
def subnet():
    return [
        infiniband("two functions"),
        infiniband("two functions, as packets", as_packets=True),
        infiniband("two functions, in trains", trains=True),
        infiniband("over a link", link=True),
        infiniband("one function", 1),
        infiniband("one function, as packets", 1, as_packets=True),
    ]


@pytest.fixture(scope="module")
def segment():
    return [
        roce("two functions"),
        roce("over a link", link=True),
        roce_frames("as frames"),
        roce_frames("as trains", trains=True),
        roce("one function", 1),
    ]


def outcomes(settings, program):
    """What the program leaves behind in each setting; all of it is the same."""
    found = {}
    for setting in settings:
        outcome = Run(setting, program).outcome()
        found[setting.name] = outcome
        for counters in outcome.get("counters", ()):
            for name in RETRIES & counters.keys():
                del counters[name]
        if end_of(outcome) not in (OK, REFUSED):
            del outcome["requests"]
            if end_of(outcome) != RNR:
                del outcome["written"]
    first, *others = found.values()
    assert all(other.keys() == first.keys() for other in others)
    for name, other in zip(list(found)[1:], others):
        for part, value in first.items():
            if other[part] is None:
                continue
            assert other[part] == value, f"{part}: {name}, unlike {settings[0].name}"
    return first


def end_of(outcome):
    """The first error that the requester sees, or OK, or REFUSED."""
    if "refused" in outcome:
        return REFUSED
    errors = [one.syndrome for one in outcome["left"] if one.opcode in ERRORS]
    return errors[0] if errors else OK


@pytest.mark.parametrize(("program", "end"), of((RC, UC, XRC), CONNECTED + INFINIBAND))
def test_connected_over_infiniband(subnet, program, end):
    assert end_of(outcomes(subnet, program)) == end


@pytest.mark.parametrize(("program", "end"), of((RC, UC, XRC), CONNECTED + ROCE))
def test_connected_over_roce(segment, program, end):
    assert end_of(outcomes(segment, program)) == end


@pytest.mark.parametrize(("program", "arrives"), of((UD,), DATAGRAMS + DATAGRAMS_IB))
def test_datagrams_over_infiniband(subnet, program, arrives):
    _arrive(outcomes(subnet, program), program, arrives)


@pytest.mark.parametrize(("program", "arrives"), of((UD,), DATAGRAMS + DATAGRAMS_ROCE))
def test_datagrams_over_roce(segment, program, arrives):
    _arrive(outcomes(segment, program), program, arrives)


def _arrive(outcome, program, arrives):
    good = [one for one in outcome["right"] if one.opcode not in ERRORS]
    assert len(good) == (len(program.do) if arrives else 0)


@pytest.mark.parametrize(("program", "end"), of((DCI,), DYNAMIC + DYNAMIC_IB))
def test_dynamically_connected_over_infiniband(subnet, program, end):
    settings = [setting for setting in subnet if "trains" not in setting.name]
    assert end_of(outcomes(settings, program)) == end


@pytest.mark.parametrize(("program", "end"), of((DCI,), DYNAMIC + DYNAMIC_ROCE))
def test_dynamically_connected_over_roce(segment, program, end):
    settings = [setting for setting in segment if not setting.name.startswith("as ")]
    assert end_of(outcomes(settings, program)) == end
