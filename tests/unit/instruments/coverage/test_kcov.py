"""Coverage by KCOV: where a module calls it, and what a guest tells of it."""

import json
import shutil
import subprocess

import pytest
from click.testing import CliRunner

from emu.cli.main import main
from emu.guests import GuestError, LabError
from emu.guests.channel import frames
from emu.instruments.coverage import kcov
from emu.instruments.coverage.data import Blocks, CoveredFunction

LISTING = """
core.ko:     file format elf64-x86-64

Disassembly of section .text:

0000000000000000 <__pfx_probe>:
   0:\tnop

0000000000000010 <probe>:
  10:\tpush   %rbx
  14:\tcall   19 <probe+0x9>
\t\t\t15: R_X86_64_PLT32\t__sanitizer_cov_trace_pc-0x4
  19:\tcall   1e <probe+0xe>
\t\t\t1a: R_X86_64_PLT32\tpanic-0x4
  2b:\tcall   30 <remove>
\t\t\t2c: R_X86_64_PLT32\t__sanitizer_cov_trace_pc-0x4

0000000000000030 <remove>:
  30:\tcall   35 <remove+0x5>
\t\t\t31: R_X86_64_PC32\t__sanitizer_cov_trace_pc-0x4

0000000000000040 <table>:
  40:\tret
"""
BASE = 0xFFFFFFFFC0000000
TOLD = {
    "release": "6.12",
    "modules": {"core": {"directory": "drivers/core", "base": BASE}},
    "places": [[BASE + 0x19, 7], [BASE + 0x30, 1], [BASE + 0x1E, 9], [BASE - 8, 2]],
    "full": 0,
    "without": 0,
}


def listed():
    return kcov.sites_of(LISTING.splitlines())


def test_blocks_are_where_calls_of_kcov_return_to():
    """The last call of a function may return to where the next function begins."""
    found = listed()
    assert found.functions == [("probe", 0x10, 0x19), ("remove", 0x30, 0x35)]
    assert found.blocks == [0x19, 0x30, 0x35]


def test_a_function_ran_when_its_first_block_did():
    (kernel,) = kcov.coverage(TOLD, {"core": listed()}).kernels.values()
    core = kernel.modules["core"]
    assert core.functions == [
        CoveredFunction(name="probe", offset=0x10, calls=7),
        CoveredFunction(name="remove", offset=0x30, calls=0),
    ]
    assert core.blocks == Blocks(total=3, ran=[0x19, 0x30])
    assert core.directory == "drivers/core"
    assert kernel.missed == 0


def test_lost_buffers_are_told():
    found = kcov.coverage(TOLD | {"full": 2, "without": 3}, {"core": listed()})
    assert found.kernels["6.12"].missed == 5


class FakeGuest:
    """A guest whose program has said all that it says, and that shows a module."""

    is_running = True
    status = 0

    def __init__(self, told, module):
        self.lines = [b'{"ready":true}\n', json.dumps(told).encode() + b"\n"]
        self.stdout = module
        self.words = []

    def popen(self, words, *, has_input=False, sink=None):
        self.words.append(words)
        for line in self.lines if has_input else ():
            sink(frames.STDOUT, line)
        return self

    def run(self, words, timeout):
        return subprocess.CompletedProcess(words, 0, stdout="/lib/core.ko\n")

    def wait(self, job, timeout):
        return 0

    def close_input(self):
        pass


@pytest.fixture
def guest(monkeypatch):
    monkeypatch.setattr(subprocess.CompletedProcess, "check", lambda self: self, raising=False)
    return lambda told, module=b"": FakeGuest(told, module)


@pytest.mark.hostile
@pytest.mark.parametrize(
    "wrong",
    [
        {"places": 3}, {"places": [3]}, {"places": [["a", "b"]]}, {"places": [[BASE + 0x19, -1]]},
        {"full": None}, {"without": -9}, {"modules": []}, {"modules": {}},
        {"modules": {"core": {"directory": "d"}}}, {"release": 6},
    ],
)  # fmt: skip
def test_what_a_guest_sends_is_checked(guest, monkeypatch, wrong):
    monkeypatch.setattr(kcov, "sites", lambda _path: listed())
    counting = kcov.KcovSession(guest(TOLD | wrong), ["core"])
    counting.start()
    with pytest.raises(GuestError, match="invalid answer"):
        counting.finish()


@pytest.mark.skipif(shutil.which("objdump") is None, reason="there is no objdump")
@pytest.mark.parametrize("module", [b"", b"no module"])
def test_a_file_that_is_no_module_is_refused(guest, module):
    counting = kcov.KcovSession(guest(TOLD, module), ["core"])
    with pytest.raises(LabError, match="objdump cannot read core"):
        counting.finish()


def test_a_module_without_kcov_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(kcov, "sites_of", lambda listing: list(listing) and kcov.Sites())
    (tmp_path / "true").symlink_to(shutil.which("true"))
    with pytest.raises(LabError, match="CONFIG_KCOV_INSTRUMENT_ALL"):
        kcov.sites(tmp_path / "true")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--coverage-kcov"], "--coverage-kcov needs --coverage"),
        (
            ["--coverage", "mlx5_core", "--coverage-kcov", "--coverage-blocks"],
            "drop --coverage-blocks",
        ),
    ],
)
def test_options_that_do_not_go_together(options, says):
    result = CliRunner().invoke(main, ["run", *options, "true"])
    assert result.exit_code == 2
    assert says in result.output
