"""Workers of a cluster are known by the sources that decide about a run's result."""

import pytest

import emu
from emu.instruments.campaign.cluster import fingerprint


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """An installed package of which a few files are left."""
    names = "emu/__init__.py", "layouts/cmd.py", "firmware_cmds/objects/cq.py"
    for name in (*names, "emu/guests/inside/init.sh", "emu/guests/kernel/options.toml"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("before")
    monkeypatch.setattr(emu, "__file__", str(tmp_path / "emu" / "__init__.py"))
    return tmp_path


def test_a_change_of_any_source_is_another_fingerprint(tree):
    found = [fingerprint()]
    for path in [path for path in tree.rglob("*") if path.is_file()]:
        path.write_text("after")
        found.append(fingerprint())
    assert len({*found}) == 1 + 5


def test_copies_of_examples_are_none(tree):
    """A wheel has them, a checkout does not."""
    before = fingerprint()
    example = tree / "emu" / "data" / "examples" / "programs" / "exchange.py"
    example.parent.mkdir(parents=True)
    example.write_text("after")
    assert fingerprint() == before
