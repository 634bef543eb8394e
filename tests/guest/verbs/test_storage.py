"""The kernel's own storage over the adapter: NVMe, NFS, iSER and SRP, by the examples."""

import re
from pathlib import Path

import pytest
from helpers.guest.guests import no_complaints_since_boot

from emu.guests import Guest, GuestOptions

pytestmark = pytest.mark.guest

EXAMPLES = Path(__file__).parents[3] / "examples" / "storage"


KNOWN = re.compile(r"create_qp:\d+:\(pid \d+\): Create QP type 2 failed")
"""SRP's target asks for more send requests than a queue has, then for half of them."""

ZEROES = re.compile(r"I/O Cmd\(0x8\)|\(WRITE_ZEROES\)")
"""A disk of scsi_debug without WRITE SAME writes no zeroes, and the kernel sends them as data."""

DEVICES = [
    pytest.param("connectx6-vf", id="InfiniBand", marks=pytest.mark.slow),
    pytest.param("connectx6dx", id="RoCE"),
]


def with_examples(suite, device, *packages, known=KNOWN):
    """A guest that sees the examples; neither kernel nor server complains of anything else."""
    options = GuestOptions(suite=suite, devices=(device,), share=EXAMPLES, packages=packages)
    with Guest(options) as guest:
        yield guest
        no_complaints_since_boot(guest, known=known)


@pytest.fixture(scope="module", params=DEVICES)
def storage_guest(lab, suite, request):
    """``lab`` skips where there can be no guest."""
    yield from with_examples(suite, request.param)


@pytest.fixture(params=DEVICES)
def protected_guest(lab, suite, request):
    yield from with_examples(suite, request.param, known=ZEROES)


@pytest.fixture(scope="module")
def iscsi_guest(lab, suite):
    yield from with_examples(suite, "connectx6dx", "open-iscsi")


def test_nvme_over_rdma(storage_guest):
    result = storage_guest.run("sh /mnt/share/nvme-rdma.sh", timeout=240).check()
    assert "2m in blocks of 4k written and verified" in result.stdout
    assert "16m in blocks of 256k written and verified" in result.stdout
    assert result.stdout.endswith("nvme-rdma: unloaded\n")


@pytest.mark.slow
def test_nvme_with_protection_information(protected_guest):
    result = protected_guest.run("T10_PI=1 sh /mnt/share/nvme-rdma.sh", timeout=240).check()
    assert "blocks have T10-PI" in result.stdout
    assert "16m in blocks of 256k written and verified" in result.stdout
    assert "is the same after mounting again" in result.stdout
    assert result.stdout.endswith("nvme-rdma: unloaded\n")


def test_nfs_over_rdma(storage_guest):
    result = storage_guest.run("sh /mnt/share/nfs-rdma.sh", timeout=240).check()
    assert "are the same after mounting again" in result.stdout


def test_srp(storage_guest):
    if storage_guest.options.devices != ("connectx6dx",):
        pytest.skip("tried on an Ethernet port only")
    result = storage_guest.run("sh /mnt/share/srp.sh", timeout=240).check()
    assert "16m in blocks of 256k written and verified" in result.stdout
    assert result.stdout.endswith("srp: unloaded\n")


@pytest.mark.slow
def test_iser(iscsi_guest):
    result = iscsi_guest.run("sh /mnt/share/iser.sh", timeout=240).check()
    assert "16m in blocks of 256k written and verified" in result.stdout
    assert "is the same after mounting again" in result.stdout
    assert result.stdout.endswith("iser: unloaded\n")
