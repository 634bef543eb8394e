"""A client cannot kill the server with SIGBUS; each attempt is made in a process of its own."""

import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.hostile

PRELUDE = """
import fcntl, os, sys
from emu.ports import DmaError
from emu.transport.memory import READ, WRITE, DmaMap
from emu.transport.protocol import RequestError
SIZE = 1 << 16
memory = DmaMap()
fd = os.memfd_create("ram", os.MFD_ALLOW_SEALING)
os.ftruncate(fd, SIZE)
"""

ATTEMPTS = {
    "a file shorter than the range": """
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        try:
            memory.map(0, 2 * SIZE, 0, READ | WRITE, fd)
        except RequestError:
            pass
        try:
            memory.read(2 * SIZE - 1, 1)
        except DmaError:
            sys.exit(0)
    """,
    "a file that shrinks afterwards": """
        memory.map(0, SIZE, 0, READ | WRITE, fd)
        try:
            os.ftruncate(fd, 0)
        except PermissionError:
            memory.write(SIZE - 1, b"x")
            sys.exit(0)
    """,
    "a file that cannot be sealed": """
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL)
        try:
            memory.map(0, SIZE, 0, READ | WRITE, fd)
        except RequestError:
            os.ftruncate(fd, 0)
            sys.exit(0)
    """,
    "a sealed file with a hole": """
        import ctypes
        memory.map(0, SIZE, 0, READ | WRITE, fd)
        memory.write(0, b"gone")
        punch_hole_keep_size = 3
        libc = ctypes.CDLL(None, use_errno=True)
        offset, length = ctypes.c_long(0), ctypes.c_long(SIZE)
        assert libc.fallocate(fd, punch_hole_keep_size, offset, length) == 0
        assert memory.read(0, 4) == bytes(4)
        sys.exit(0)
    """,
}

CONTROL = """
    import mmap
    mapping = mmap.mmap(fd, SIZE)
    os.ftruncate(fd, 0)
    mapping[0]
    sys.exit(0)
"""


def run(code):
    script = PRELUDE + textwrap.dedent(code) + "\nsys.exit('the attempt was not answered')\n"
    command = [sys.executable, "-c", script]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_server_survives(attempt):
    result = run(ATTEMPTS[attempt])
    assert result.returncode == 0, result.stderr


def test_the_danger_is_real():
    """Without our rules the process does die, so the tests above can fail."""
    assert run(CONTROL).returncode < 0
