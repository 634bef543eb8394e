"""Objects decode their context once; the engine reads few fields of one again."""

import ast
from pathlib import Path

import pytest

ENGINE = Path(__file__).resolve().parents[3] / "emu/device/engine"

READ_AGAIN = {
    "paths of a connection": {"primary_address_path", "secondary_address_path"},
    "path migration": {"pm_state"},
    "check of a command": {"mtu"},
    "rates that a command has changed": {"packet_pacing_rate_limit_index"},
    "signatures of a key, of which a UMR names all or none": {"bsf_en"},
}
"""Fields by the reason why the engine reads them in a context, instead of in the object."""


def reads(source):
    """Return the fields that a source reads in the context of an object."""
    nodes = ast.walk(ast.parse(source))
    found = [node for node in nodes if isinstance(node, ast.Attribute)]
    return {
        node.attr
        for node in found
        if isinstance(node.value, ast.Attribute) and node.value.attr == "ctx"
    }


def test_the_engine_reads_few_fields_of_contexts():
    allowed = set().union(*READ_AGAIN.values())
    found = {path.name: reads(path.read_text()) - allowed for path in ENGINE.rglob("*.py")}
    assert not {name: fields for name, fields in found.items() if fields}


@pytest.mark.parametrize(
    ("source", "fields"),
    [
        ("x = qp.ctx.fre", {"fre"}),
        ("def f(qp):\n return qp.ctx.path.eth_prio", {"path"}),
        ("x = qp.registers", set()),
        ("x = ctx.fre", set()),
    ],
)
def test_reads_are_found(source, fields):
    assert reads(source) == fields
