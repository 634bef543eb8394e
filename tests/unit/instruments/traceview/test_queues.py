"""What became of the queues of a trace."""

import itertools
import json

import pytest
from click.testing import CliRunner

from emu.cli.main import main
from emu.device.trace.event import TraceEvent
from emu.host import shipped
from emu.instruments.traceview import queues
from emu.instruments.traceview.queues import TracedQueues, ordered


def cmd(op, given=None, out=None, **fields):
    return ("cmd", {"op": op, "status": "OK", "in": given or {}, "out": out or {}} | fields)


QP = {"st": 2, "cqn_snd": 4, "cqn_rcv": 5}
LIFE = [
    cmd("CREATE_CQ", {"cq_context": {"c_eqn_or_apu_element": 3}}, {"cqn": 4}),
    cmd("CREATE_QP", {"qpc": QP}, {"qpn": 65}),
    cmd("RST2INIT_QP", {"qpn": 65, "qpc": {}}),
    cmd("INIT2RTR_QP", {"qpn": 65, "qpc": {}}),
    cmd("QUERY_QP", {"qpn": 65}),
    ("wqe", {"qpn": 65, "index": 0, "op": "SEND"}),
    ("wqe", {"qpn": 65, "index": 1, "op": "SEND"}),
    ("cqe", {"cqn": 4, "qpn": 65, "type": "REQ"}),
    ("cqe", {"cqn": 4, "qpn": 65, "type": "REQ_ERR", "syndrome": "WR_FLUSH_ERR"}),
    ("eqe", {"eqn": 3, "type": "COMP", "data": {"cqn": 4}}),
    ("eqe", {"eqn": 2, "type": "WQ_ACCESS_ERROR", "data": {"qp_srq_n": 65}}),
    ("fault", {"qpn": 65, "outcome": "error"}),
    cmd("2ERR_QP", {"qpn": 65}),
    cmd("DESTROY_QP", {"qpn": 65}),
]


def fed(events, function=0):
    collected = TracedQueues()
    ends = [
        collected.feed(TraceEvent(at, function, point, fields))
        for at, (point, fields) in enumerate(events)
    ]
    return collected, ends


def rows(events):
    return {(row[1], row[2]): row[3:] for row in (one.row() for one in fed(events)[0].all)}


def test_a_queue_pair_s_life():
    found = rows(LIFE)
    assert found["QP", 65] == [
        "UD to CQ 4, CQ 5", "created, INIT, RTR, ERR, destroyed", {"SEND": 2}, 2,
        {"WR_FLUSH_ERR": 1, "WQ_ACCESS_ERROR": 1, "page fault": 1},
    ]  # fmt: skip
    assert found["CQ", 4] == ["to EQ 3", "created", {}, 2, {"WR_FLUSH_ERR": 1}]
    assert found["EQ", 3] == ["", "", {"COMP": 1}, 0, {}]
    assert found["EQ", 2][2] == {"WQ_ACCESS_ERROR": 1}


def test_events_are_found_by_queue():
    """Both by the one that they are about and by the CQ or EQ that gets them."""
    collected, ends = fed(LIFE)
    places = {(one.kind, one.number): at + 1 for at, one in enumerate(collected.all)}
    queue_pair, cq = places["QP", 65], places["CQ", 4]
    assert [about for about, _ in ends] == [cq, *[queue_pair] * 8, cq, *[queue_pair] * 4]
    assert [at for at, (_, getter) in enumerate(ends) if getter == cq] == [7, 8]


def test_a_number_that_is_given_again_is_another_queue():
    again = [*LIFE, *LIFE[1:3]]
    collected, _ = fed(again)
    assert [one.ended for one in collected.all if one.kind == "QP"] == [True, False]
    after = [*LIFE[:2], ("reset", {"model": "x"}), ("wqe", {"qpn": 65, "op": "SEND"})]
    assert [one.began for one in fed(after)[0].all if one.kind == "QP"] == [True, False]


def test_events_of_before_a_queue_has_its_number_are_its_own():
    """A command is recorded at its end, and an EQ may get events inside CREATE_EQ."""
    early = ("eqe", {"eqn": 2, "type": "PORT_MODULE_EVENT", "data": {}})
    late = ("eqe", {"eqn": 2, "type": "PORT_CHANGE", "data": {}})
    made = cmd("CREATE_EQ", {}, {"eq_number": 2})
    collected, ends = fed([early, made, late])
    (one,) = collected.all
    assert one.row()[1:5] == ["EQ", 2, "", "created"]
    assert one.requests == {"PORT_MODULE_EVENT": 1, "PORT_CHANGE": 1}
    assert ends == [(0, 1), (1, 0), (0, 1)]
    destroyed = cmd("DESTROY_EQ", {"eq_number": 2})
    assert len(fed([early, destroyed, made, late])[0].all) == 2
    assert len(fed([early, ("reset", {"model": "x"}), made])[0].all) == 2


def test_ethernet_queues_have_their_packets():
    events = [
        cmd("CREATE_RQ", {"ctx": {"cqn": 9}}, {"rqn": 70}),
        cmd("MODIFY_RQ", {"rqn": 70, "ctx": {"state": 1}}),
        cmd("CREATE_SQ", {"ctx": {"cqn": 8}}, {"sqn": 71}),
        cmd("MODIFY_SQ", {"sqn": 71, "ctx": {"state": 3}}),
        ("cqe", {"cqn": 9, "flow_tag": 1, "type": "RESP_SEND"}),
        ("wqe", {"qpn": 71, "op": "LSO"}),
        cmd("MODIFY_RQ", {"rqn": 70, "ctx": {}}),
    ]
    found = rows(events)
    assert found["RQ", 70] == ["to CQ 9", "created, RDY, RST", {}, 1, {}]
    assert found["SQ", 71] == ["to CQ 8", "created, ERR", {"LSO": 1}, 0, {}]
    second = cmd("CREATE_RQ", {"ctx": {"cqn": 9}}, {"rqn": 72})
    assert rows([events[0], second, events[4]])["RQ", 72][3] == 0  # which of them is not told


@pytest.mark.parametrize(
    ("destroyed", "owner"),
    [
        ([cmd("DESTROY_RQ", {"rqn": 70})], 72),
        ([cmd("DESTROY_RQ", {"rqn": 72})], 70),
        ([cmd("DESTROY_RQ", {"rqn": 70}), cmd("DESTROY_RQ", {"rqn": 72})], None),
        ([cmd("DESTROY_CQ", {"cqn": 9})], None),
    ],
)
def test_a_destroyed_receive_queue_gets_no_completions(destroyed, owner):
    made = [cmd("CREATE_RQ", {"ctx": {"cqn": 9}}, {"rqn": rqn}) for rqn in (70, 72)]
    found = rows([*made, *destroyed, ("cqe", {"cqn": 9, "flow_tag": 1, "type": "RESP_SEND"})])
    assert [rqn for kind, rqn in found if kind == "RQ" and found[kind, rqn][3]] == [
        *filter(None, [owner])
    ]


def test_the_next_receive_queue_of_a_reused_cq_has_its_packets():
    packet = ("cqe", {"cqn": 9, "flow_tag": 1, "type": "RESP_SEND"})
    made = [cmd("CREATE_RQ", {"ctx": {"cqn": 9}}, {"rqn": rqn}) for rqn in (70, 72)]
    gone = [cmd("DESTROY_RQ", {"rqn": 70}), cmd("DESTROY_CQ", {"cqn": 9})]
    found = rows([made[0], packet, *gone, made[1], packet, packet])
    assert (found["RQ", 70][3], found["RQ", 72][3]) == (1, 2)


def test_refused_commands_are_errors_of_the_queue():
    refused = ("cmd", {"op": "RST2INIT_QP", "status": "BAD_PARAM_ERR", "in": {"qpn": 65}})
    kept = ("cmd", {"op": "DESTROY_QP", "status": "BAD_RES_STATE_ERR", "in": {"qpn": 65}})
    found = rows([*LIFE[:2], refused, kept])["QP", 65]
    assert found[1] == "created"
    assert set(found[4]) == {"RST2INIT_QP BAD_PARAM_ERR", "DESTROY_QP BAD_RES_STATE_ERR"}


def test_what_failed_comes_first():
    failing = ("cqe", {"cqn": 2, "qpn": 9, "type": "REQ_ERR", "syndrome": "X"})
    collected, _ = fed([("wqe", {"qpn": 1, "op": "SEND"}), LIFE[0], failing])
    order = [(one.kind, one.number) for _, one in ordered(collected.all)]
    assert order == [("QP", 9), ("CQ", 2), ("QP", 1), ("CQ", 4)]


@pytest.mark.hostile
def test_a_file_s_queues_and_words_are_bounded(monkeypatch):
    monkeypatch.setattr(queues, "MAX_QUEUES", 3)
    _, ends = fed([("wqe", {"qpn": at, "op": f"o{at}"}) for at in range(9)])
    assert ends == [*((at, 0) for at in (1, 2, 3)), *[(0, 0)] * 6]
    many = [("wqe", {"qpn": 1, "op": f"o{at}"}) for at in range(99)]
    (row,) = (one.row() for one in fed(many)[0].all)
    assert len(row[5]) == queues.MAX_WORDS + 1
    assert row[5]["other"] == 99 - queues.MAX_WORDS
    moves = [cmd("MODIFY_SQ", {"sqn": 1, "ctx": {"state": at % 2}}) for at in range(99)]
    (row,) = (one.row() for one in fed(moves)[0].all)
    assert len(row[4].split(", ")) == queues.MAX_WORDS


ODD = [None, -1, 1 << 90, "x", [], {}, 0.5, True, {"qpn": {}}, {"st": []}]


@pytest.mark.hostile
def test_odd_fields_are_taken(tmp_path):
    """A file may say anything where a number or a structure is expected."""
    names = ("qpn", "cqn", "eqn", "in", "out", "data", "op", "type", "status", "syndrome")
    events = [
        (point, dict.fromkeys(names, odd) | {"op": op})
        for point, odd, op in itertools.product(
            ("cmd", "wqe", "cqe", "eqe", "fault", "reset"), ODD, ("CREATE_QP", "2ERR_QP", odd_op())
        )
    ]
    nested = [
        cmd(op, {"qpn": odd, "sqn": odd, "qpc": odd, "ctx": odd}, {"qpn": 1, "rqn": odd})
        for op in ("CREATE_QP", "CREATE_RQ", "MODIFY_SQ", "RST2INIT_QP", "DESTROY_QP")
        for odd in ODD
    ]
    contexts = [
        cmd(op, {"ctx": {"cqn": odd, "state": odd}, "qpc": {"st": odd}}, {"qpn": 1, "rqn": 2})
        for op in ("CREATE_QP", "CREATE_RQ")
        for odd in ODD
    ]
    collected, _ = fed([*events, *nested, *contexts])
    assert all(len(one.row()) == 8 for one in collected.all)


def odd_op():
    return "CREATE_"


def shown(tmp_path, events, env=None, words=("queues",)):
    """What ``trace queues``, or ``trace`` with other words, prints of a file with these events."""
    path = tmp_path / "trace.json"
    path.write_text(
        "".join(f"{TraceEvent(at, 0, *event).to_json()}\n" for at, event in enumerate(events))
    )
    done = CliRunner().invoke(main, ["trace", *words, str(path)], env=env)
    assert done.exit_code == 0
    return done.output.splitlines()


def test_the_command_shows_them(tmp_path):
    lines = shown(tmp_path, LIFE, {"COLUMNS": "200"})
    (line,) = (line for line in lines if "QP 0x41" in line)
    assert "created, INIT, RTR, ERR, destroyed" in line
    assert "1 WR_FLUSH_ERR" in line


def test_json_has_the_same(tmp_path):
    rows = json.loads("".join(shown(tmp_path, LIFE, words=("queues", "--json"))))
    (queue,) = (row for row in rows if (row["kind"], row["number"]) == ("QP", 0x41))
    assert queue["function"] == "f0"
    assert queue["states"] == "created, INIT, RTR, ERR, destroyed"
    assert queue["errors"]["WR_FLUSH_ERR"] == 1
    rows = json.loads("".join(shown(tmp_path, LIFE, words=("count", "--json"))))
    assert {row["point"] for row in rows} >= {"cmd", "cqe"}
    assert sum(row["number"] for row in rows) == len(LIFE)


def test_a_function_of_a_lab_is_named_as_trace_show_names_it(tmp_path):
    reset = ("reset", {"model": "connectx6", "guest": "h1"})
    (line,) = (line for line in shown(tmp_path, [reset, *LIFE]) if "QP 0x41" in line)
    assert line.startswith("h1/f0 QP 0x41")


def test_the_page_shows_the_columns(tmp_path):
    page = shipped.pages()["traces"].read_text()
    heading = shown(tmp_path, LIFE, {"COLUMNS": "200"})[0].split()
    assert heading in [line.split() for line in page.splitlines()]


def test_a_number_is_written_in_one_way(tmp_path):
    """As the text form writes it, where a queue has its row and where another one leads to it."""
    events = [
        cmd("CREATE_CQ", {"cq_context": {"c_eqn_or_apu_element": 3}}, {"cqn": 10}),
        ("eqe", {"eqn": 3, "type": "COMP", "data": {"cqn": 10}}),
    ]
    cq, eq = (line for line in shown(tmp_path, events) if "f0 " in line)
    assert "f0 CQ 0xa " in cq
    assert "to EQ 3 " in cq
    assert "f0 EQ 3 " in eq
