"""rdma-core's pingpongs and perftest, and how a server and a client of them meet.

Sizes and counts are small: these runs show that something works, not how fast it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

SECONDS = 120
"""For anything: a guest on emulated processors is slow, and one that hangs never ends."""

PINGPONGS = {
    f"{service}{' with events' if events else ''}": f"ibv_{service}_pingpong {options}{events}"
    for service, options in {
        "rc": "-n 100 -s 10000 -c",
        "uc": "-n 100 -c",
        "ud": "-n 100 -c",
        "srq": "-n 20 -q 8 -c",
        "xsrq": "-n 100",
    }.items()
    for events in ("", " -e")
}
"""Where a program can compare what it receives (-c), it does."""

_COUNTS = {2: 100, 4096: 100, 65536: 50, 1 << 20: 10, 4 << 20: 5}
"""How many messages of each size."""


def _bandwidth(op, size, *options):
    return " ".join((f"ib_{op}_bw -F -s {size} -n {_COUNTS[size]}", *options))


def perftests(sizes, *, sizes_of_16=()):
    """Latency and bandwidth of every operation, by what to call each run.

    ``sizes_of_16`` are those of runs with 16 queue pairs.
    """
    runs = {}
    for op in ("send", "write", "read"):
        for size in sizes:
            count = min(_COUNTS[size], 50)
            runs[f"{op}_lat {size}"] = f"ib_{op}_lat -F -s {size} -n {count}"
            runs[f"{op}_bw {size}"] = _bandwidth(op, size)
        for size in sizes_of_16:
            runs[f"{op}_bw {size}, 16 QPs"] = f"ib_{op}_bw -F -s {size} -n 5 -q 16"
        for size in (4096, 1 << 20):
            runs[f"{op}_bw {size}, both ways"] = _bandwidth(op, size, "-b")
    for op in ("FETCH_AND_ADD", "CMP_AND_SWAP"):
        runs[f"atomic_lat {op}"] = f"ib_atomic_lat -F -n 50 -A {op}"
        runs[f"atomic_bw {op}"] = f"ib_atomic_bw -F -n 100 -A {op}"
    runs["atomic_bw, 16 QPs"] = "ib_atomic_bw -F -n 50 -q 16"
    runs["atomic_bw, both ways"] = "ib_atomic_bw -F -n 100 -b"
    for service in ("UC", "UD"):
        runs[f"send_bw {service}"] = f"ib_send_bw -F -s 2048 -n 100 -c {service}"
    runs["write_bw UC"] = "ib_write_bw -F -s 4096 -n 100 -c UC"
    runs["send_lat with events"] = "ib_send_lat -F -s 2 -n 50 -e"
    runs["send_bw with events"] = _bandwidth("send", 4096, "-e")
    return runs


_VERIFY = (Path(__file__).parents[2] / "guest" / "inside" / "verify.py").read_text()

_LISTENING = (
    'for _ in $(seq 100); do grep -q ":4853 .* 0A " /proc/net/tcp* && exit; sleep 0.02; done;'
    " exit 1"
)
"""Port 18515, which both families of programs take, in state LISTEN within two seconds."""


@dataclass(frozen=True)
class Talk:
    """What both sides have said, and their exit statuses: server first."""

    server: str
    client: str
    errors: str
    statuses: tuple[int, int]

    def __contains__(self, text):
        return text in self.server + self.client + self.errors


def talk(server, client, command, to, *, server_device="mlx5_0", client_device="mlx5_0"):
    """Run one command on both sides, and tell how it went: a :class:`Talk`.

    The server has to listen, or to have ended, before the client comes: it would give up at once.
    """
    job = server.popen(f"exec timeout {SECONDS} {command} -d {server_device}")
    while job.status is None and server.run(_LISTENING, timeout=SECONDS).status:
        pass
    said = client.run(f"timeout {SECONDS} {command} -d {client_device} {to}", timeout=2 * SECONDS)
    status = server.wait(job, timeout=SECONDS)
    heard, errors = (bytes(pipe).decode() for pipe in (job.stdout, job.stderr))
    return Talk(heard, said.stdout, errors + said.stderr, (status, said.status))


def converse(server, client, command, to, **devices):
    """As :func:`talk`; the test fails when the programs do."""
    told = talk(server, client, command, to, **devices)
    check(told)
    return told


def check(told):
    """Both have ended well, and nobody has received what was not sent."""
    assert told.statuses == (0, 0), told
    for text in (told.server, told.client):
        assert "invalid data" not in text
        assert not re.search(r"[Ff]ailed|[Ee]rror", text), text


def verify(server, client, to, server_environment=(), client_environment=()):
    """SEND, WRITE, READ and both atomics between two guests, of up to a mebibyte, byte by byte.

    What is in ``inside/verify.py``; the environments are words as NAME=VALUE.
    """
    words = ["timeout", f"{SECONDS}", "python3", "-c", _VERIFY]
    job = server.popen(["env", *server_environment, *words])
    listens = server.run("until ss -Hltn sport = :7000 | grep -q LISTEN; do sleep 0.1; done")
    listens.check()
    said = client.run(["env", *client_environment, *words, to], timeout=2 * SECONDS)
    status = server.wait(job, timeout=SECONDS)
    assert (bytes(job.stderr).decode(), said.stderr, status) == ("", "", 0)
    assert said.check().stdout == "verified\n"


def check_table(told):
    """The client has finished (perftest's table).

    Its figures do not matter: on a busy machine it misjudges the clock, and shows 0.00 or less.
    """
    *_, table = told.client.partition("#bytes")
    size, iterations, *_ = table.splitlines()[1].split()
    assert int(size) > 0
    assert int(iterations) > 0
