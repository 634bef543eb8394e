"""The guests that tests get by the plugin's options and marker."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from emu import pytest_plugin


class Config:
    """The command line of a run."""

    def __init__(self, **given):
        self._given = given

    def getoption(self, name):
        name = name.removeprefix("--mlx5-").replace("-", "_")
        return self._given.get(name, [] if name in ("device", "package", "suite") else None)


@pytest.fixture
def options(tmp_path):
    """The options of a test with markers, in a run with options."""

    def make(*marks, **given):
        node = SimpleNamespace(iter_markers=lambda name: marks)
        request = SimpleNamespace(config=Config(**given), node=node)
        directory = SimpleNamespace(getbasetemp=lambda: tmp_path)
        return pytest_plugin._options(request, None, directory)[0]

    return make


def test_packages_by_option_and_by_marker(options):
    mark = pytest.mark.mlx5(packages=["bc"]).mark
    assert options().packages == ()
    assert options(package=["fio", "gdb"]).packages == ("fio", "gdb")
    assert options(mark, package=["fio"]).packages == ("bc",)


def test_traces_of_guests_with_many_packages(options):
    """Their files have names that a file system takes, and each guest its own."""
    names = [f"libsomething-with-a-long-name{number}" for number in range(12)]
    one, two = options(package=names), options(package=names[:-1])
    assert one.trace != two.trace
    assert one.trace.parent.is_dir()
