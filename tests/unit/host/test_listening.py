"""Sockets in directories of others: their mode from the start, and clients without a descriptor."""

import errno
import os
import socket
import stat
import threading

import pytest

from emu.host.listening import Acceptor, bind, listen

pytestmark = pytest.mark.hostile


@pytest.fixture
def path(tmp_path):
    return tmp_path / "socket"


@pytest.fixture(params=[0o000, 0o022, 0o077, 0o777])
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path):
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.mark.parametrize("wanted", [0o600, 0o660, 0o666])
@pytest.mark.usefixtures("umask")
def test_the_mode_does_not_depend_on_the_umask(path, wanted):
    with listen(path, 1, wanted):
        assert mode(path) == wanted


def test_nobody_else_may_connect_for_a_moment(path, monkeypatch):
    """The kernel makes the path with its mode: what follows could only be too late."""
    before = os.umask(0)
    monkeypatch.setattr(os, "chmod", lambda *_: pytest.fail("too late"))
    try:
        with socket.socket(socket.AF_UNIX) as sock:
            bind(sock, path)
    finally:
        os.umask(before)
    assert mode(path) == 0o600


@pytest.mark.parametrize("target", ["nothing", "socket", "file"])
def test_a_symbolic_link_is_not_followed(path, tmp_path, target):
    elsewhere = tmp_path / "elsewhere"
    if target == "file":
        elsewhere.write_text("precious")
    elif target == "socket":
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(elsewhere))
    path.symlink_to(elsewhere)
    existed = elsewhere.exists()
    with pytest.raises(OSError, match="not a socket"):
        listen(path, 1)
    assert path.is_symlink()
    assert elsewhere.exists() == existed


def test_a_socket_whose_backlog_is_full_is_alive(path):
    """Without a wait for its server to accept somebody."""
    with listen(path, 0), socket.socket(socket.AF_UNIX) as first:
        first.connect(str(path))
        with pytest.raises(OSError, match="another process") as error:
            listen(path, 1)
        assert error.value.errno == errno.EADDRINUSE


class Short:
    """A socket that accepts nobody for want of descriptors, until one is given back."""

    def __init__(self, sock):
        self.sock = sock
        self.given_back = 0

    def accept(self):
        if not self.given_back:
            raise OSError(errno.EMFILE, "Too many open files")
        self.given_back -= 1
        return self.sock.accept()


@pytest.fixture
def short(path, monkeypatch):
    with listen(path, 8) as sock:
        short, close = Short(sock), os.close
        acceptor = Acceptor(short, "here")

        def closing(fd):
            short.given_back += 1
            close(fd)

        monkeypatch.setattr(os, "close", closing)
        yield acceptor
        monkeypatch.undo()
        acceptor.close()


def test_without_descriptors_a_client_is_turned_away(short, path, caplog):
    """Its socket would stay readable for ever, and the loop would never sleep."""
    for _ in range(3):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            assert short.accept() is None
            assert client.recv(1) == b""
    assert [record.getMessage() for record in caplog.records] == [
        "here: cannot accept clients: Too many open files"
    ]


def test_what_other_threads_make_meanwhile_keeps_its_mode(tmp_path):
    """The umask is the process's: it is not touched."""
    before = os.umask(0o022)
    stop = threading.Event()
    modes = set()

    def make():
        number = 0
        while not stop.is_set():
            number += 1
            file = tmp_path / f"file{number}"
            os.close(os.open(file, os.O_CREAT | os.O_WRONLY, 0o666))
            modes.add(mode(file))

    thread = threading.Thread(target=make)
    thread.start()
    try:
        for number in range(200):
            listen(tmp_path / f"socket{number}", 1).close()
    finally:
        stop.set()
        thread.join()
        os.umask(before)
    assert modes == {0o644}
