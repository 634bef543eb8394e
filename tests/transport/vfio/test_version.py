"""VFIO_USER_VERSION."""

import contextlib
import errno
import json
import os
import resource

import pytest

from emu.driver.transport.vfio_client import QEMU_CAPABILITIES, VfioRefusedError
from emu.server.vfio.protocol import VERSION, VfioCommand


def version(data, major=0, minor=0):
    return VERSION.pack(major, minor) + data


def test_qemu_is_answered(served):
    agreed = served.connect().negotiate()
    assert agreed["max_data_xfer_size"] == 1 << 20
    assert 1 <= agreed["max_msg_fds"] <= 16


@contextlib.contextmanager
def descriptors_in_use(count):
    """Hold ``count`` descriptors while the body runs; skip if the limit is below that."""
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 2 * count:
        pytest.skip("too few descriptors may be open")
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(count)]
    try:
        yield
    finally:
        for fd in held:
            os.close(fd)


def test_client_and_server_work_with_descriptors_above_the_limit_of_select(served):
    with descriptors_in_use(1024):
        served.connect().negotiate()


def test_the_answer_has_our_values(own):
    assert own.connect().negotiate() == {
        "max_msg_fds": 16,
        "max_data_xfer_size": 1 << 20,
        "max_dma_maps": 65535,
        "pgsizes": 4096,
    }


def test_the_answer_is_no_longer_than_qemus_request(served):
    client = served.connect()
    request = version(json.dumps({"capabilities": QEMU_CAPABILITIES}).encode() + b"\0")
    assert len(client.call(VfioCommand.VERSION, request)) <= len(request)


def test_capabilities_are_a_subset_of_those_proposed(own):
    assert own.connect().negotiate({"max_dma_maps": 7}) == {"max_dma_maps": 7}


def test_write_multiple_is_not_agreed_to(served):
    assert "write_multiple" not in served.connect().negotiate({"write_multiple": True})


def test_version_data_are_optional(served):
    client = served.connect()
    reply = client.call(VfioCommand.VERSION, version(b""))
    assert VERSION.unpack_from(reply) == (0, 0)
    client.device_info()


def test_minor_version_is_not_raised(served):
    served.connect().negotiate(version=(0, 0))


def test_higher_minor_version_is_lowered(own):
    reply = own.connect().call(VfioCommand.VERSION, version(b"", minor=9))
    assert VERSION.unpack(reply) == (0, 0)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\0\0\0",
        version(b"", major=1),
        version(b"{}"),
        version(b"\0"),
        version(b"no json\0"),
        version(b"[]\0"),
        version(b'{"capabilities": []}\0'),
        version(b'{"capabilities": {"max_msg_fds": "16"}}\0'),
        version(b'{"capabilities": {"max_msg_fds": -1}}\0'),
        version(b'{"capabilities": {"max_msg_fds": true}}\0'),
        version(b'{"capabilities": {"max_dma_maps": 1.5}}\0'),
        version(b"[" * 4000 + b"\0"),
        version(b'{"capabilities": {"max_msg_fds": ' + b"9" * 4050 + b"}}\0"),
        version(b" " * 4096 + b"\0"),
        version(b"\xff\xfe\0"),
    ],
)
def test_bad_version_is_refused_and_the_client_dropped(own, payload):
    client = own.connect()
    with pytest.raises(VfioRefusedError) as refused:
        client.call(VfioCommand.VERSION, payload)
    assert refused.value.errno == errno.EINVAL
    own.settle()
    own.client().device_info()


def test_wrong_major_version_is_refused(served):
    client = served.connect()
    with pytest.raises(VfioRefusedError) as refused:
        client.negotiate(version=(1, 0))
    assert refused.value.errno == errno.EINVAL
    served.settle()
    served.client().device_info()


def test_version_comes_first(served):
    client = served.connect()
    client.send(VfioCommand.DEVICE_RESET)
    with pytest.raises((EOFError, ConnectionResetError)):
        client.receive()
    assert served.function.accesses == []
    served.client().device_info()


def test_version_comes_once(served):
    client = served.client()
    with pytest.raises(VfioRefusedError):
        client.negotiate()
    client.device_info()


def test_version_in_single_bytes(served):
    client = served.connect()
    data = version(b'{"capabilities": {}}\0')
    message = b"\1\0\1\0" + (16 + len(data)).to_bytes(4, "little") + bytes(8) + data
    for byte in message:
        client.send_raw(bytes([byte]))
        served.step()
    assert VERSION.unpack_from(client.receive().payload) == (0, 0)
    client.device_info()
