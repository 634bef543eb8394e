"""The kernel's own storage over the adapter: nvme-rdma and NFS over RDMA, by the examples."""

from pathlib import Path

import pytest

from emu.lab import Guest, GuestOptions

pytestmark = pytest.mark.guest

EXAMPLES = Path(__file__).parents[2] / "examples" / "storage"


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("connectx6-vf", id="InfiniBand", marks=pytest.mark.slow),
        pytest.param("connectx6dx", id="RoCE"),
    ],
)
def storage_guest(lab, suite, request):
    """A guest that sees the examples; ``lab`` skips where there can be none."""
    options = GuestOptions(suite=suite, devices=(request.param,), share=EXAMPLES)
    with Guest(options) as guest:
        yield guest


def test_nvme_over_rdma(storage_guest):
    result = storage_guest.run("sh /mnt/share/nvme-rdma.sh", timeout=240).check()
    assert "2m in blocks of 4k written and verified" in result.stdout
    assert "16m in blocks of 256k written and verified" in result.stdout
    assert result.stdout.endswith("nvme-rdma: unloaded\n")


def test_nfs_over_rdma(storage_guest):
    result = storage_guest.run("sh /mnt/share/nfs-rdma.sh", timeout=240).check()
    assert "are the same after mounting again" in result.stdout


def test_srp(storage_guest):
    if storage_guest.options.devices != ("connectx6dx",):
        pytest.skip("tried on an Ethernet port only")
    result = storage_guest.run("sh /mnt/share/srp.sh", timeout=240).check()
    assert "16m in blocks of 256k written and verified" in result.stdout
    assert result.stdout.endswith("srp: the initiator is unloaded\n")
