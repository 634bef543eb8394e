"""What skipped tests want, by the reasons that rdma-core's tests give."""

import pytest

from emu.guests.conformance.reasons import Wants, count_wants, wants

EFA = "Can not run the test over non EFA device"
GPU = "Device /dev/dri/renderD128 is not present"


@pytest.mark.parametrize(
    ("reason", "lack"),
    [
        (EFA, Wants.OTHER_DEVICE),
        (GPU, Wants.GPU),
        ("cuda-python 12.0+ must be installed to run CUDA tests", Wants.GPU),
        ("Device mlx5_0 must be in switchdev mode", Wants.SETUP),
        ("Crypto login details must be supplied in /tmp/mlx5_crypto_test.txt", Wants.SETUP),
        ("The device crypto engines does not support AES", Wants.SETUP),
        ("The device does not support plaintext DEK", Wants.SETUP),
        ("SRQ resize is not supported", Wants.DRIVER),
        ("before rdma-core 52 the test expects something else", Wants.CORRECTION),
        ("Tag matching is not supported", Wants.NOT_BUILT),
        ("", Wants.NOT_BUILT),
    ],
)
def test_a_reason_tells_what_is_wanted(reason, lack):
    assert wants(reason) is lack


def test_counts_come_in_one_order():
    reasons = [("Tag matching is not supported", 4), (GPU, 2), (EFA, 20), ("no DCT", 1)]
    found = count_wants(reasons)
    assert list(found.items()) == [
        (Wants.OTHER_DEVICE, 20),
        (Wants.GPU, 2),
        (Wants.NOT_BUILT, 5),
    ]
