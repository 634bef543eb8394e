"""UCX, and Open MPI on top of it, by the examples: user space that makes its queues by DEVX."""

from pathlib import Path

import pytest
from helpers.guest.kernel_log import KernelLog

from emu.guests import Guest, GuestOptions

pytestmark = [pytest.mark.guest, pytest.mark.suite("trixie")]

EXAMPLES = Path(__file__).parents[3] / "examples" / "ucx"
PACKAGES = ("openmpi-bin", "python3-mpi4py", "ucx-utils")
SECONDS = 400
"""UCX waits by polling: its two processes and QEMU share two emulated processors."""


@pytest.fixture(scope="module")
def ucx_guest(lab, suite):
    """A guest that sees the examples; ``lab`` skips where there can be none."""
    with Guest(GuestOptions(suite=suite, packages=PACKAGES, share=EXAMPLES)) as guest:
        yield guest


@pytest.fixture(scope="module")
def roce_guest(lab, suite):
    """The same with an Ethernet port."""
    devices = ("connectx6dx",)
    with Guest(
        GuestOptions(suite=suite, devices=devices, packages=PACKAGES, share=EXAMPLES)
    ) as guest:
        yield guest


def runs_in(guest):
    """Runs a command that has to succeed, and leaves nothing in the kernel's log; its output."""
    log = KernelLog(guest)

    def run_one(command):
        return guest.run(command, timeout=SECONDS).check().stdout

    yield run_one
    assert log.complaints() == []


@pytest.fixture
def run(ucx_guest):
    yield from runs_in(ucx_guest)


@pytest.fixture
def run_over_roce(roce_guest):
    yield from runs_in(roce_guest)


@pytest.mark.parametrize(
    ("transport", "tests"),
    [
        pytest.param("rc_verbs", 11, marks=pytest.mark.slow),
        ("rc_mlx5", 11),
        pytest.param("ud_verbs", 3, marks=pytest.mark.slow),
        pytest.param("ud_mlx5", 3, marks=pytest.mark.slow),
    ],
)
def test_transport(run, transport, tests):
    """All that it offers, UCP's protocols over it, and requests whose data both sides check."""
    assert run(f"ITERATIONS=20 sh /mnt/share/ucx.sh {transport}").splitlines() == [
        "ucx: 5 transports",
        f"ucx: {transport}: {tests} tests",
        f"ucx: protocols over {transport}: 11 tests",
        f"ucx: io_demo over {transport}: data verified",
    ]


@pytest.mark.parametrize(
    ("transport", "tests"),
    [
        ("rc_mlx5", 11),
        pytest.param("dc_mlx5", 11, marks=pytest.mark.slow),
        pytest.param("ud_mlx5", 3, marks=pytest.mark.slow),
    ],
)
def test_transport_over_roce(run_over_roce, transport, tests):
    """Without UCP: that differs in nothing. DC is here for both link layers."""
    command = f"PARTS=transport ITERATIONS=10 sh /mnt/share/ucx.sh {transport}"
    assert run_over_roce(command).splitlines() == [
        "ucx: 5 transports",
        f"ucx: {transport}: {tests} tests",
    ]


MPI = "mpirun --allow-run-as-root -n 2 {options} python3 /mnt/share/mpi.py"
UCX = "--mca pml ucx --mca osc ucx"


@pytest.mark.parametrize(
    "command",
    [
        MPI.format(options=""),
        *(
            pytest.param(
                f"UCX_TLS={tls},self UCX_NET_DEVICES=mlx5_0:1 {MPI.format(options=UCX)}",
                marks=pytest.mark.slow,
            )
            for tls in ("rc_x", "rc_v")
        ),
    ],
    ids=["default", "rc_mlx5", "rc_verbs"],
)
def test_mpi(run, command):
    """Messages, windows of memory and atomics, each checked by the ranks."""
    lines = run(command).splitlines()
    assert sorted(lines) == [f"mpi: rank {rank} has all its data" for rank in (0, 1)]
