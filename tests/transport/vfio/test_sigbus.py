"""A client cannot kill the server with SIGBUS; each attempt is made in a process of its own."""

import signal
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.hostile

PRELUDE = """
import fcntl, os, sys
from emu.device.ports import DmaError
from emu.server.vfio.memory import READ, WRITE, DmaMap
from emu.server.vfio.protocol import VfioRequestError
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
        except VfioRequestError:
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
        except VfioRequestError:
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

GUARDED = {
    "a trusted file that shrinks": """
        memory = DmaMap(trust_unsealed=True)
        memory.on_lost = lambda: lost.append(1)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL)
        memory.map(0, SIZE, 0, READ | WRITE, fd)
        os.ftruncate(fd, 0)
        touch_and_leave()
    """,
    "one that is mapped for reading": """
        memory = DmaMap(trust_unsealed=True)
        memory.on_lost = lambda: lost.append(1)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL)
        memory.map(0, SIZE, 0, READ, fd)
        os.ftruncate(fd, 4096)
        assert memory.read(0, SIZE) == bytes(SIZE)
        assert lost == [1]
        sys.exit(0)
    """,
    "two of them, and one that is unmapped again": """
        memory = DmaMap(trust_unsealed=True)
        memory.on_lost = lambda: lost.append(1)
        fds = [os.memfd_create("ram") for _ in range(3)]
        for number, fd in enumerate(fds):
            os.ftruncate(fd, SIZE)
            memory.map(number * SIZE, SIZE, 0, READ | WRITE, fd)
            os.ftruncate(fd, 0)
        memory.unmap(SIZE, SIZE)
        assert memory.read(2 * SIZE, 4) == bytes(4)
        touch_and_leave(2)
    """,
    "huge pages with a hole": """
        import ctypes, mmap
        fd = os.memfd_create("ram", os.MFD_ALLOW_SEALING | os.MFD_HUGETLB)
        os.ftruncate(fd, SIZE := 2 << 20)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        memory.on_lost = lambda: lost.append(1)
        try:
            memory.map(0, SIZE, 0, READ | WRITE, fd)
        except VfioRequestError:
            sys.exit(77)
        memory.write(0, b"gone")
        libc = ctypes.CDLL(None, use_errno=True)
        offset, length = ctypes.c_long(0), ctypes.c_long(SIZE)
        assert libc.fallocate(fd, 3, offset, length) == 0
        pool = os.memfd_create("pool", os.MFD_HUGETLB)
        while True:
            os.ftruncate(pool, os.fstat(pool).st_size + SIZE)
            try:
                mmap.mmap(pool, os.fstat(pool).st_size).close()
            except OSError:
                break
        os.ftruncate(pool, os.fstat(pool).st_size - SIZE)
        taken = mmap.mmap(pool, os.fstat(pool).st_size)
        for at in range(0, len(taken), SIZE):
            taken[at] = 1
        touch_and_leave()
    """,
}

TOUCH = """
lost = []

def touch_and_leave(times=1):
    memory.write(1, b"x")
    assert memory.read(0, 3) == b"\\0x\\0"
    memory.view(8, 4)[:] = b"view"
    assert lost == [1] * times, lost
    memory.clear()
    memory.collect()
    sys.exit(0)
"""

NOT_OURS = """
    import mmap
    memory = DmaMap(trust_unsealed=True)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL)
    memory.map(0, SIZE, 0, READ | WRITE, fd)
    assert "emu.server.vfio.sigbus" in sys.modules
    own = os.memfd_create("own")
    os.ftruncate(own, SIZE)
    mapping = mmap.mmap(own, SIZE)
    os.ftruncate(own, 0)
    mapping[0]
    sys.exit(0)
"""

CONTROL = """
    import mmap
    mapping = mmap.mmap(fd, SIZE)
    os.ftruncate(fd, 0)
    mapping[0]
    sys.exit(0)
"""


def run(code):
    script = (
        PRELUDE + TOUCH + textwrap.dedent(code) + "\nsys.exit('the attempt was not answered')\n"
    )
    command = [sys.executable, "-c", script]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_server_survives(attempt):
    result = run(ATTEMPTS[attempt])
    assert result.returncode == 0, result.stderr


NO_HUGE_PAGES = 77


@pytest.mark.parametrize("attempt", GUARDED)
def test_pages_that_are_lost_read_as_zeros(attempt):
    result = run(GUARDED[attempt])
    if result.returncode == NO_HUGE_PAGES:
        pytest.skip("no free huge pages: /proc/sys/vm/nr_hugepages")
    assert result.returncode == 0, result.stderr


def test_a_client_whose_memory_is_lost_is_dropped(serve, tmp_path, caplog):
    own = serve("vfio-user", trust_unsealed=True)
    path = tmp_path / "ram"
    path.write_bytes(b"here" * 1024)
    client = own.client()
    with path.open("r+b") as file:
        client.dma_map(0, 4096, fd=file.fileno())
        assert own.memory.read(0, 4) == b"here"
        file.truncate(0)
        assert own.memory.read(0, 4) == bytes(4)
    own.settle()
    assert "has lost granted pages" in caplog.text
    assert own.function.resets == 1
    own.client().device_info()


def test_what_is_not_ours_ends_the_process_as_before():
    assert run(NOT_OURS).returncode == -signal.SIGBUS


def test_the_danger_is_real():
    """Without our rules the process does die, so the tests above can fail."""
    assert run(CONTROL).returncode < 0
