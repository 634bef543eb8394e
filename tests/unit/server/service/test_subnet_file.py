"""The file of ``--subnet``: what is wrong with it is said with its name."""

from pathlib import Path

import pytest

from emu.host.user_error import UserError
from emu.server.service.subnet_file import read_topology

EXAMPLE = Path(__file__).parents[4] / "examples/subnet/two-leaves.net"


def test_the_example():
    found = read_topology(EXAMPLE)
    assert [node.name for node in found.nodes][:4] == ["leaf0", "leaf1", "spine0", "spine1"]
    assert len(found.cables) == 8


@pytest.mark.parametrize(
    ("data", "why"), [(b"\xff\xfe", "not text in UTF-8"), (b"x", "line 1: neither")]
)
@pytest.mark.hostile
def test_what_is_wrong_names_the_file(tmp_path, data, why):
    path = tmp_path / "a.net"
    path.write_bytes(data)
    with pytest.raises(UserError, match=rf"a\.net: {why}"):
        read_topology(path)
