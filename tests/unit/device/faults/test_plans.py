"""Plans: what they may say, what each mistake is called, and that nothing else can happen."""

from __future__ import annotations

import re
import string
import sys
import tomllib

import pytest
from helpers.random.examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

import firmware_cmds  # noqa: F401  # the commands whose fields rules name
from emu.device.faults.decision import RuleState, percent
from emu.device.faults.enum_names import agrees
from emu.device.faults.parser import PlanError, dump, from_table, load, rule_from_table
from emu.device.faults.plan import Plan
from emu.device.faults.points.device import RuleLoaded
from emu.device.faults.schema import ACTIONS, PARAMETERS, POINTS
from emu.device.faults.validation import misfits, validated
from emu.device.rounds.sizes import RULES_PER_PORTION

GOOD = """
seed = 7
[[rule]]
name = "third-key"
point = "cmd"
action = "fail"
status = "NO_RES_ERR"
match.op = "CREATE_MKEY"
match.memory_key_mkey_entry.lr = 1
index = 3
"""


def mistakes_in(make):
    """The text of the PlanError that ``make`` raises; None when it raises nothing."""
    try:
        make()
    except PlanError as error:
        return str(error)
    return None


def test_a_good_plan():
    plan = load(GOOD)
    (rule,) = plan.rule
    assert (plan.seed, rule.name, rule.point, rule.index) == (7, "third-key", "cmd", [3])
    assert rule.match == {"op": "CREATE_MKEY", "memory_key_mkey_entry.lr": 1}
    assert load(dump(plan)) == plan


def test_rules_without_a_name_get_their_number():
    text = '[[rule]]\npoint="irq"\naction="drop"\n'
    assert [rule.name for rule in load(text * 2).rule] == ["rule-1", "rule-2"]


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (["rule-2", ""], ["rule-2", "rule-3"]),
        (["", "rule-1"], ["rule-3", "rule-1"]),
        (
            ["rule-3", "rule-5", "", "rule-2", ""],
            ["rule-3", "rule-5", "rule-6", "rule-2", "rule-7"],
        ),
    ],
)
def test_a_rule_without_a_name_gets_none_that_another_rule_has(given, names):
    rules = [{"name": name, "point": "irq", "action": "drop"} for name in given]
    assert [rule.name for rule in from_table({"rule": rules}).rule] == names


MISTAKES = [
    ('[[rule]]\npoint="cmd"\naction="explode"', r"p:3: rule\[1\].action: .*; there are fail, drop"),
    (
        '[[rule]]\npoint="irq"\naction="dropp"',
        r"p:3: rule\[1\].action: no action 'dropp'; near it: drop$",
    ),
    (
        '[[rule]]\npoint="here"\naction="drop"',
        r"p:2: rule\[1\].point: no point 'here'; there are cmd, cmd.done",
    ),
    ('[[rule]]\npoint="irq"\naction="fail"', r"p:3: rule\[1\].action: fail is not for irq; drop"),
    (
        '[[rule]]\npoint="pkt.rx"\naction="fail"\nmatch.sevice="RC"',
        r"p:3: .* is not for pkt.rx; .*\np:4: rule\[1\].match.sevice: pkt.rx has kind, service",
    ),
    ('[[rule]]\npoint="irq"\naction="delay"', r"p:3: rule\[1\].action: delay needs ms"),
    ('[[rule]]\npoint="irq"\naction="drop"\nms=3', r"p:4: rule\[1\].ms: drop does not take it"),
    ('[[rule]]\npoint="irq"\naction="drop"\n\nfoo=3', r"p:5: rule\[1\].foo: no such key"),
    ('[[rule]]\npoint="irq"', r"p:1: rule\[1\].action: missing"),
    (
        '[[rule]]\npoint="irq"\naction="drop"\nprobability=101',
        r"p:4: .*at most 100 is needed, not 101",
    ),
    ('[[rule]]\npoint="irq"\naction="drop"\ninterval=0', r"p:4: .*at least 1 is needed, not 0"),
    ('[[rule]]\npoint="irq"\naction="drop"\ntimes="x"', r"p:4: .*whole number is needed, not 'x'"),
    ('[[rule]]\npoint="irq"\naction="drop"\nmatch.qpn=1', r"p:4: .*match.qpn: irq has vector"),
    (
        '[[rule]]\npoint="pkt.rx"\naction="drop"\nmatch.kind="ACK"',
        r"p:4: .*match.kind: no kind 'ACK'; near it: ACKNOWLEDGE.*; there are SEND, .*CNP",
    ),
    (
        '[[rule]]\npoint="eqe"\naction="drop"\nmatch.type="FAULT"',
        r"p:4: .*near it: PAGE_FAULT.*; there are COMP, .*PORT_CHANGE",
    ),
    (
        '[[rule]]\npoint="mmio.read"\naction="corrupt"\nset.value="0x10"',
        r"p:4: rule\[1\].set.value: a number of 64 bits is needed, not '0x10'$",
    ),
    (
        '[[rule]]\npoint="page_fault"\naction="corrupt"\n\nset.token="zz"',
        r"p:5: rule\[1\].set.token: a number of 48 bits is needed, not 'zz'$",
    ),
    (
        '[[rule]]\npoint="page_fault.resume"\naction="corrupt"\nset.error=2',
        r"p:4: rule\[1\].set.error: a number of 1 bit is needed, not 2$",
    ),
    (
        '[[rule]]\npoint="pkt.tx"\naction="corrupt"\nset.psn=0x1000000\nset.payload="a5a"',
        r"p:4: rule\[1\].set.psn: a number of 24 bits is needed, not 16777216"
        r"\np:5: rule\[1\].set.payload: an even number of hexadecimal digits in quotes is needed,"
        r" not 'a5a'$",
    ),
    (
        '[[rule]]\npoint="pkt.rx"\naction="corrupt"\nset.psn=-1\nset.payload=1234\nset.psm=0',
        r"set.psn: a number of 24 bits is needed, not -1"
        r"\np:4: rule\[1\].set: no field 'psm' here; near it: psn"
        r"\np:5: .*set.payload: .* in quotes is needed, not 1234$",
    ),
    ('when = "later"\n', r"p:1: when: 'later' is not one of loading, loaded"),
    (
        '[[rule]]\npoint="cmd"\naction="fail"\nmatch.op="CREATE_QPX"',
        r"p:4: .*match.op: no command 'CREATE_QPX'; near it: CREATE_QP",
    ),
    (
        '[[rule]]\npoint="cmd"\naction="fail"\nmatch.op="CREATE_CQ"\nmatch.cq_contxt.cc=1',
        r"p:5: .*no field of the point cmd, nor of create_cq_in; near it: cq_context",
    ),
    (
        '[[rule]]\npoint="cqe"\naction="drop"\nmatch.opcod="REQ"',
        r"p:4: .*match.opcod: no field of the point cqe, nor of mlx5_cqe64; near it: opcode",
    ),
    (
        '[[rule]]\npoint="cmd.done"\naction="corrupt"\nmatch.op="CREATE_CQ"\nset.cqm=1',
        r"p:5: .*set.cqm: no field of create_cq_out; near it: cqn",
    ),
    (
        '[[rule]]\npoint="cmd"\naction="corrupt"\nmatch.op="CREATE_CQ"\n'
        "set.cq_context.log_cq_sze=1",
        r"p:5: .*log_cq_sze: no field of create_cq_in; near it: cq_context.log_cq_size",
    ),
    (
        '[[rule]]\npoint="cmd"\naction="fail"\nmatch.opp="CREATE_CQ"',
        r"p:4: .*match.opp: no field of the point cmd, nor of any of its \d+ structures; near",
    ),
    (
        '[[rule]]\npoint="cmd.done"\naction="drop"\nmatch.op="CREATE_*"\nmatch.mod_list=1',
        r"p:5: .*match.mod_list: no field",
    ),
    (
        '[[rule]]\npoint="cmd"\naction="corrupt"\nset.cq_contxt.cc=1',
        r"p:4: .*no field of the commands of match$",
    ),
    (
        '[[rule]]\npoint="eqe"\naction="drop"\nmatch.typ="CMD"',
        r"p:4: .*match.typ: no field of the point eqe, .*; near it: type",
    ),
    (
        '[[rule]]\npoint="eqe"\naction="drop"\nmatch.type="CQ_ERROR"\nmatch.data.cqm=1',
        r"p:5: .*match.data.cqm: no field .*, nor of mlx5_eqe_cq_err; near it: data.cqn",
    ),
    (
        '[[rule]]\npoint="eqe"\naction="corrupt"\nmatch.type="CQ_ERROR"\nset.cqm=1',
        r"p:5: .*set.cqm: no field of mlx5_eqe_cq_err; near it: cqn",
    ),
    (
        '[[rule]]\npoint="load"\naction="event"\nevent="CQ_ERROR"\nset.cqm=1',
        r"p:5: .*set.cqm: no field of mlx5_eqe_cq_err; near it: cqn",
    ),
    (
        '[[rule]]\npoint="cmd"\naction="fail"\nstatus="NO_RES"',
        r"p:4: .*status: no status 'NO_RES'; near it: NO_RES_ERR.*; there are OK, ",
    ),
    (
        '[[rule]]\npoint="wqe"\naction="fail"\nsyndrome="REMOTE_ACCESS"',
        r"p:4: .*near it: REMOTE_ACCESS_ERR",
    ),
    ('[[rule]]\npoint="load"\naction="event"\nevent="CQ_ERR"', r"p:4: .*near it: CQ_ERROR"),
    (
        '[[rule]]\npoint="load"\naction="capabilities"\nset.log_max_qpx=1',
        r"p:4: .*set.log_max_qpx: no field of cmd_hca_cap; near it: log_max_qp",
    ),
    (
        '[[rule]]\npoint="load"\naction="capabilities"\nset.log_max_qp="many"\nset.log_max_cq=32',
        r"p:4: rule\[1\].set.log_max_qp: a number of 5 bits is needed, not 'many'"
        r"\np:5: rule\[1\].set.log_max_cq: a number of 5 bits is needed, not 32$",
    ),
    (
        '[[rule]]\npoint="cqe"\naction="corrupt"\nset.byte_cnt="0x12"',
        r"p:4: rule\[1\].set.byte_cnt: a number of 32 bits is needed, not '0x12'$",
    ),
    (
        '[[rule]]\npoint="eqe"\naction="corrupt"\nmatch.type="CQ_ERROR"\nset.data.cqn=-1',
        r"p:5: rule\[1\].set.data.cqn: a number of 32 bits is needed, not -1$",
    ),
    (
        '[[rule]]\npoint="cmd.done"\naction="corrupt"\nmatch.op="QUERY_ADAPTER"\n'
        'set.query_adapter_struct.vsd_contd_psid="0123"',
        r"p:5: .*vsd_contd_psid: text of 32 hexadecimal digits is needed, not '0123'$",
    ),
    (
        '[[rule]]\npoint="cmd"\naction="corrupt"\nmatch.op="CREATE_CQ"\n'
        'set.cq_context.log_cq_size="abcd"',
        r"p:5: .*log_cq_size: a number of 5 bits is needed, not 'abcd'$",
    ),
    ('[[rule]]\npoint="load"\naction="aer"\nerror="ODD"', r"p:4: .*no error 'ODD'; there are"),
    ('seed = "x"', r"p:1: seed: a whole number is needed, not 'x'"),
    ("sed = 1", r"p:1: sed: no such key; near it: seed$"),
    ('[[rule]]\npoint="irq"\naction="drop"\ntime=3', r"p:4: .*no such key; near it: times"),
    (
        '[[rule]]\npoint="cmd"\naction="explode"\nmatch.op="CREATE_QPX"',
        r"p:3: rule\[1\].action.*\np:4: rule\[1\].match.op: no command 'CREATE_QPX'",
    ),
    ('[[rule]]\npoint="irq"\naction="delay"\nms="x"', r"^p:4: rule\[1\].ms: [^\n]*$"),
    ("[[link]]\nlos=1", r"p:2: link\[1\].los: no such key; near it: loss$"),
    ("[[link]]\nqqq=1", r"p:2: link\[1\].qqq: no such key; there are function, .*, loss, "),
    ("expect.stat = 1", r"p:1: expect.stat: no such key; near it: status"),
    ("rule = 3", r"p:1: rule: .*list"),
    ("[[rule]", r"^p:1: invalid TOML: [^(]*\(column 7\)$"),
    ("seed = 1\nseed = 2\n", r"^p:2: invalid TOML: [^(]*\(column 9\)$"),
    ("seed = 1\nname = \n", r"^p:2: invalid TOML: [^(]*\(column 8\)$"),
    ("seed = 1\nname =", r"^p:2: invalid TOML: [^(]*\(at the end\)$"),
    (
        '[[rule]]\nname="a"\npoint="irq"\naction="drop"\n' * 2,
        r"p:6: rule\[2\].name: 'a' is the name of another rule",
    ),
]


@pytest.mark.parametrize(("text", "message"), MISTAKES)
def test_every_mistake_has_a_place_and_a_name(text, message):
    with pytest.raises(PlanError, match=message):
        load(text, "p")


def test_all_mistakes_are_told_at_once():
    with pytest.raises(PlanError) as error:
        load('[[rule]]\npoint="x"\naction="y"\n[[rule]]\npoint="irq"\naction="drop"\nfoo=1')
    assert len(str(error.value).splitlines()) == 3


def test_a_key_that_is_unknown_hides_no_mistake_of_the_other_keys():
    text = '[[rule]]\npoint="cmd"\naction="fail"\nstatus="BAD"\nfoo=1\n[[link]]\nlos=1\n'
    with pytest.raises(PlanError) as error:
        load(text + '[[rule]]\npoint="irq"\naction="delay"\n', "p")
    lines = str(error.value).splitlines()
    assert [line.split(": ")[0] for line in lines] == ["p:4", "p:5", "p:7", "p:10"]


def test_one_rule_has_no_number_in_its_mistakes():
    with pytest.raises(PlanError, match=r"^rule: action: delay needs ms"):
        rule_from_table({"point": "irq", "action": "delay"})


@pytest.mark.hostile
@given(st.text())
def test_any_text_is_a_plan_or_a_plan_error(text):
    assert (mistakes := mistakes_in(lambda: load(text))) is None or mistakes.startswith("plan")


class CountedSteps:
    """How many steps Python takes in our own files and in the parser of TOML."""

    def __init__(self):
        self.steps = 0
        self._before = sys.gettrace()

    def __enter__(self):
        sys.settrace(self._enter)
        return self

    def __exit__(self, *_):
        sys.settrace(self._before)

    def _enter(self, frame, event, _argument):
        self.steps += event == "line"
        return self._enter


SHAPES = {
    "a header that never ends": lambda n: "[" + " " * n,
    "a header of blanks": lambda n: "[[" + " " * n + "]",
    "brackets and blanks": lambda n: "[ " * n,
    "a long key": lambda n: "a" + ".a" * n + " = 1",
    "a long key in a header": lambda n: "[" + "a." * n + "a]",
    "a long key in a table": lambda n: "x = {" + "a." * n + "a = 1}",
    "a long key in a text": lambda n: 'about = """\n' + "a" + ".a" * n + ' = 1\n"""',
    "deep lists": lambda n: "x = " + "[" * n + "]" * n,
    "deep tables": lambda n: "x = " + "{a=" * n + "1" + "}" * n,
    "quotes": lambda n: '"""' * n,
    "quotes that are escaped": lambda n: '"""\\' * n,
    "a text that never ends": lambda n: 'about = """' + "a\n" * n + "\\",
    "blanks": lambda n: " " * n,
    "a comment": lambda n: "#" * n,
    "a number": lambda n: "seed = " + "1" * n,
    "a hexadecimal number": lambda n: "seed = 0x" + "f" * n,
    "a number in a rule": lambda n: "[[rule]]\ntimes = 0x" + "f" * n,
    "tables": lambda n: "".join(f"[a{number}]\n" for number in range(n // 4)),
}


@pytest.mark.hostile
@pytest.mark.parametrize("shape", SHAPES)
def test_a_plan_costs_no_more_than_its_length(shape):
    """Twice the text costs twice the steps, at most; what the regular expressions do is in C."""
    counts = []
    for length in (4000, 8000):
        text = SHAPES[shape](length)
        with CountedSteps() as counted:
            mistakes_in(lambda text=text: load(text))
        counts.append(counted.steps)
    assert counts[1] < 2.2 * counts[0] + 1000


@pytest.mark.hostile
@pytest.mark.timeout(10)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_plan_of_any_shape_is_read_at_all(shape):
    """Steps inside a regular expression cannot be counted: 2 KB of blanks took 23 s."""
    mistakes_in(lambda: load(SHAPES[shape](100_000)))


FULL_PIECES = '[[rule]]\npoint="irq"\naction="drop"\n\n' * 600
"""2400 lines, which are parsed in several pieces."""


@pytest.mark.parametrize(
    ("end", "why"),
    [
        ("[[rule]]\nname =  ?\n", r"p:2402: invalid TOML: [^(]*\(column 9\)"),
        ("[[rul", r"p:2401: invalid TOML: [^(]*\(at the end\)"),
        ("\n[[rule]]\nname =\n\n", r"p:2403: invalid TOML: [^(]*\(column 7\)"),
        ("[[rule]]\nname =", r"p:2402: invalid TOML: [^(]*\(at the end\)"),
        ("[expect]\n" + FULL_PIECES + "\n[expect]", r"p:4803: .*: expect is declared twice"),
    ],
)
def test_a_mistake_in_a_later_piece_has_the_line_of_the_whole_text(end, why):
    with pytest.raises(PlanError) as error:
        load(FULL_PIECES + end, "p")
    assert re.fullmatch(why, str(error.value))


def test_the_parser_gets_no_line_of_a_text_twice(monkeypatch):
    parsed, parse = [], tomllib.loads

    def counted(text):
        parsed.append(text)
        return parse(text)

    monkeypatch.setattr(tomllib, "loads", counted)
    load(FULL_PIECES)
    assert len(parsed) > 1
    assert "".join(parsed) == FULL_PIECES


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("\n\nx = " + "[" * 17, "plan:3: nested too deep"),
        ("a" + ".a" * 16 + "=1", "plan:1: a key of too many parts"),
        ("x = 1.5\n" * 30 + "[" + "a." * 16 + "a]", "plan:31: a key of too many parts"),
    ],
)
def test_what_is_too_complex_is_named_with_its_line(text, why):
    assert mistakes_in(lambda: load(text)) == why


def test_brackets_and_dots_in_texts_do_not_count():
    about = "[[[[{{{{" * 10 + "a.b." * 20
    plan = load(f"about = \"{about}\"  # {about}\nname = '{about[:80]}'")
    assert plan.about == about
    assert load(f'about = """\n{about}"""').about == about


KEYS = ["point", "action", "match", "index", "probability", "interval", "times", "space", "name"]
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=True), st.text(max_size=8),
    st.sampled_from([*POINTS, *ACTIONS, "CREATE_CQ", "4..7", "beef"]),
    st.lists(st.integers(0, 9), max_size=3),
    st.dictionaries(st.sampled_from(["op", "qpn", "a.b", "type"]), st.integers(), max_size=2),
)  # fmt: skip


@pytest.mark.hostile
@given(
    st.lists(
        st.fixed_dictionaries(
            {"point": st.sampled_from([*POINTS])},
            optional=dict.fromkeys([*KEYS[1:], *sorted(PARAMETERS), "odd"], VALUES),
        ),
        max_size=3,
    )
)
@settings(max_examples=examples(60))
def test_any_table_is_a_plan_or_a_plan_error(rules):
    mistakes = mistakes_in(lambda: from_table({"rule": rules}))
    if mistakes is None:
        plan = from_table({"rule": rules})
        assert load(dump(plan)) == plan
    else:
        assert all(line.startswith("plan") for line in mistakes.splitlines())


PARAMETER_VALUES = {
    "at": st.integers(0, 0xFFFF), "celsius": st.integers(0, 250),
    "ms": st.floats(0, 1000), "count": st.integers(-9, 9), "vendor": st.integers(0, 255),
    "set": st.dictionaries(st.text(string.ascii_lowercase, min_size=1), st.integers(0), min_size=1),
    "data": st.binary(min_size=1, max_size=40).map(bytes.hex), "timer": st.integers(0, 31),
    "syndrome": st.one_of(st.integers(0, 300), st.just("REMOTE_OP_ERR")),
    "status": st.sampled_from(["NO_RES_ERR", 15]), "delivery": st.just("FW_ERR"),
    "fatal": st.booleans(), "severity": st.integers(0, 7), "stalled": st.booleans(),
    "up": st.booleans(), "event": st.just("PORT_CHANGE"), "sub_type": st.integers(0, 255),
    "vector": st.integers(0, 63), "starve": st.booleans(), "error": st.just("BAD_TLP"),
    "node": st.text(min_size=1, max_size=9), "port": st.integers(1, 254),
    "kind": st.just("symbols"),
}  # fmt: skip


def test_every_parameter_can_be_drawn():
    assert PARAMETER_VALUES.keys() == PARAMETERS.keys()


@st.composite
def rules(draw):
    """A rule that is right but for what its fields are called."""
    action = ACTIONS[draw(st.sampled_from(list(ACTIONS)))]
    takes = sorted(action.takes) or [""]
    names = [*action.needs, *draw(st.lists(st.sampled_from(takes), max_size=2))]
    table = {"point": draw(st.sampled_from(list(action.uses))), "action": action.name}
    return table | {name: draw(PARAMETER_VALUES[name]) for name in names if name}


@given(rules())
@settings(max_examples=examples(60))
def test_only_field_names_can_be_wrong_in_a_rule_by_the_book(table):
    mistakes = mistakes_in(lambda: from_table({"rule": [table]}))
    assert mistakes is None or "set" in table or "syndrome" in table


def test_dice_are_fair_and_fixed():
    thrown = [percent(1, "a", number) for number in range(2000)]
    assert thrown == [percent(1, "a", number) for number in range(2000)]
    assert 900 < sum(value < 50 for value in thrown) < 1100
    assert all(0 <= value < 100 for value in thrown)


def test_another_rule_has_settled_it():
    state = RuleState(load(GOOD).rule[0].model_copy(update={"match": {}, "index": None}), 0)
    event = RuleLoaded(None)
    assert not state.fires(event, is_settled=True)
    assert (state.met, state.fired) == (1, 0)
    assert state.fires(event)


@pytest.mark.parametrize(
    ("wanted", "value", "result"),
    [
        (5, 5, True), (5, 6, False), ("4..7", 5, True), ("4..", 5, True), ("..4", 5, False),
        ("0x10..0x1f", 0x18, True), ([1, 5], 5, True), ("CREATE_*", "CREATE_QP", True),
        ("beef", b"\xbe\xef", True), ("x..y", 5, False), (1, True, True),
    ],
)  # fmt: skip
def test_values_that_agree(wanted, value, result):
    assert agrees(wanted, value) is result


def test_an_empty_plan_is_one():
    assert load("") == Plan()


def test_the_names_of_rules_count_in_a_portion():
    """A name may be looked up in the layouts of all commands."""
    match = {f"f{number}": 1 for number in range(RULES_PER_PORTION // 2)}
    plan, _ = validated({"rule": [{"point": "cmd", "action": "fail", "match": match}] * 8})
    assert plan is not None
    portions = sum(1 for _ in misfits(dict(enumerate(plan.rule)), {}))
    assert portions == 4
