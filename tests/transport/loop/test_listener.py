"""The listening socket's path."""

import gc
import os
import socket

import pytest

from emu.server.vfio.base import TransportError
from emu.server.vfio.listener import VfioListener


@pytest.fixture
def path(tmp_path):
    return tmp_path / "socket"


def test_path_is_there_while_listening(path):
    listener = VfioListener(path)
    assert listener.fileno() == -1
    listener.open()
    assert path.is_socket()
    assert listener.fileno() >= 0
    listener.close()
    listener.close()
    assert not path.exists()
    assert listener.accept() is None


def test_nobody_waits(path):
    listener = VfioListener(path)
    listener.open()
    assert listener.accept() is None
    listener.close()


def test_a_dead_servers_path_is_taken_over(path):
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    listener = VfioListener(path)
    listener.open()
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        accepted = listener.accept()
    assert accepted.getblocking()
    accepted.close()
    listener.close()


def test_a_living_servers_path_is_not(path):
    first, second = VfioListener(path), VfioListener(path)
    first.open()
    with pytest.raises(TransportError, match="another process"):
        second.open()
    second.close()
    assert path.is_socket()
    first.close()


def test_what_is_no_socket_is_left_alone(path):
    path.write_text("precious")
    with pytest.raises(TransportError, match="not a socket"):
        VfioListener(path).open()
    assert path.read_text() == "precious"


def test_a_path_of_somebody_else_is_not_removed(path):
    listener = VfioListener(path)
    listener.open()
    path.unlink()
    path.write_text("precious")
    listener.close()
    assert path.read_text() == "precious"


def test_a_directory_that_does_not_exist(tmp_path):
    with pytest.raises(TransportError, match="No such file"):
        VfioListener(tmp_path / "no" / "socket").open()


def test_a_path_too_long_for_a_socket(tmp_path):
    with pytest.raises(TransportError, match="107 bytes"):
        VfioListener(tmp_path / ("x" * 108)).open()


def test_no_descriptor_is_left_behind(path):
    gc.collect()  # objects of earlier tests may have descriptors
    before = set(os.listdir("/proc/self/fd"))
    path.write_text("")
    with pytest.raises(TransportError):
        VfioListener(path).open()
    assert set(os.listdir("/proc/self/fd")) <= before
