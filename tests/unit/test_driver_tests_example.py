"""examples/ethernet/driver-tests.py: what it reads out of the output of the kernel's tests."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "examples" / "ethernet" / "driver-tests.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("driver_tests_example", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read(example, said, status=0):
    return [tuple(case) for case in example.cases(said, status)]


def test_ktap(example):
    said = """TAP version 13
1..4
ok 1 stats.check_pause
not ok 2 stats.check_down
ok 3 stats.check_fec # XFAIL FEC not supported by the device
ok 4 gro.test.hw_ipv4 # SKIP no such feature
# Totals: pass:1 fail:1 xfail:1 xpass:0 skip:1 error:0
"""
    assert read(example, said, 1) == [
        ("check_pause", "passed", ""),
        ("check_down", "failed", ""),
        ("check_fec", "expected", "FEC not supported by the device"),
        ("hw_ipv4", "skipped", "no such feature"),
    ]


def test_shell_tests(example):
    said = "TEST: loopback    [ OK ]\nTEST: rmon [FAIL]\nTEST: other   [SKIP]\n"
    assert [case[:2] for case in read(example, said)] == [
        ("loopback", "passed"), ("rmon", "failed"), ("other", "skipped"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("said", "status", "outcome"),
    [
        ("SKIP: jq not installed\n", 4, ("", "skipped", "SKIP: jq not installed")),
        ("", 1, ("", "failed", "no result")),
        ("boom\n", 1, ("", "failed", "boom")),
        ("1..3\n", None, ("", "failed", "took too long")),
    ],
)
def test_no_cases(example, said, status, outcome):
    assert read(example, said, status) == [outcome]
