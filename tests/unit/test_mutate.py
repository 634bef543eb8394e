"""What scripts/mutate takes away, and that it is taken away and nothing else."""

import ast
import sys
import tomllib
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts" / "mutation"))

from checks import mutants, without
from forks import Forks

ROOT = Path(__file__).resolve().parents[2]

SOURCE = """\
def take(a, b=0, counts=None):
    if a == 1 or b and not (a == 2 or b == 2):
        raise ValueError(a)
    if a > 10:
        b += 1
    if a == 5:
        return None
    if (
        a == 6
    ):
        counts["dropped"] += 1
    if a < 100:
        b += 2
    else:
        fail()
    if (found := a) == 7:
        return False
    return found
"""


STEPS = """\
def step(qp: Qp, message: Message) -> Outcome | None:
    if qp is None:
        return Dropped("no such queue pair")
    refused = check(qp)
    if refused is not None:
        return refused
    if message.length > qp.limit:
        return Failure.of_access(message.error)
    if message.is_unreliable:
        return Dropped("UC") if qp.is_quiet else Nak(NakCode.INVALID_REQUEST)
    if message.op is SEND:
        return receive(qp, message)
    if not message.length:
        return invalid_request(qp)

def act(mad: Mad) -> MadStatus:
    if mad.version != VERSION:
        return MadStatus.BAD_VERSION
    if mad.method == GET:
        return MadStatus.SUCCESS
    return fill(mad)

def objection(packet: Packet) -> str:
    if packet.is_early:
        return "too early"
    if why := check(packet):
        return why
    return "" if packet.pkey else "no P_Key"

def state(port: Port) -> str:
    if not port.has_cable:
        return "NO CABLE"
    return port.state
"""


def changed(number):
    """The function without the check of that number."""
    names = {}
    exec(compile(without(SOURCE, [*mutants("x.py", SOURCE)][number]), "x.py", "exec"), names)
    return names["take"]


def test_what_is_found():
    found = [(one.line, one.fires, one.term) for one in mutants("x.py", SOURCE)]
    assert found == [
        (2, 3, ""),
        (2, 3, "a == 1"),
        (2, 3, "b and (not (a == 2 or b == 2))"),
        (2, 2, "b"),
        (2, 2, "not (a == 2 or b == 2)"),
        (2, 2, "a == 2"),
        (2, 2, "b == 2"),
        (6, 7, ""),
        (9, 11, ""),
        (12, 15, ""),
        (16, 17, ""),
    ]


def test_how_a_step_ends_a_bad_status_and_a_reason_are_refusals():
    assert [one.check for one in mutants("x.py", STEPS)] == [
        "qp is None",
        "refused is not None",
        "message.length > qp.limit",
        "message.is_unreliable",
        "not message.length",
        "mad.version != VERSION",
        "packet.is_early",
        "(why := check(packet))",
    ]


@pytest.mark.parametrize(
    ("number", "arguments", "result"),
    [
        (0, (1,), 1),
        (1, (1,), 1),
        (2, (3, 1), 3),
        (7, (5,), 5),
        (8, (6,), 6),  # counts["dropped"] of None would raise
        (9, (100,), 100),  # fail() does not exist
        (10, (7,), 7),
    ],
)
def test_a_check_is_taken_away(number, arguments, result):
    assert changed(number)(*arguments) == result


@pytest.mark.parametrize(("number", "arguments"), [(3, (3, 0)), (4, (2, 1)), (5, (2, 1))])
def test_it_refuses_more_without_a_term(number, arguments):
    with pytest.raises(ValueError):
        changed(number)(*arguments)


def test_a_key_stays_the_same_when_the_function_moves():
    moved = "X = 1\n\n" + SOURCE
    assert [one.key for one in mutants("x.py", moved)] == [
        one.key for one in mutants("x.py", SOURCE)
    ]
    others = {one.key for one in mutants("x.py", SOURCE.replace("b += 1", "b += 3"))}
    assert not others & {one.key for one in mutants("x.py", SOURCE)}


def test_functions_get_the_mutants_code(tmp_path):
    file = tmp_path / "x.py"
    names = {}
    exec(compile(SOURCE, str(file), "exec"), names)
    take = names["take"]
    forks = Forks(lambda collected: iter(()), at_once=1)
    forks._functions[str(file)] = [take]
    mutant = [*mutants(str(file), SOURCE)][7]
    assert take(5) is None
    forks._replace(str(file), SOURCE, without(SOURCE, mutant))
    assert take(5) == 5
    with pytest.raises(ValueError):
        take(1)


def test_reasons_are_about_checks_that_are_there():
    table = tomllib.loads((ROOT / "scripts/mutation/equivalent.toml").read_text())
    for entry in table.get("check", []):
        source = (ROOT / entry["file"]).read_text()
        found = {(one.function, one.check, one.term) for one in mutants("", source)}
        assert (entry["function"], entry["check"], entry.get("term", "")) in found
        assert entry["reason"]


def test_every_module_can_be_changed():
    for path in sorted((ROOT / "emu/device/engine/mr").glob("*.py")):
        source = path.read_text()
        for mutant in mutants(str(path), source):
            tree = without(source, mutant)
            compile(tree, str(path), "exec")
            assert ast.unparse(tree) != ast.unparse(ast.parse(source))
