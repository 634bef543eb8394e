"""Datagrams there and back between two ends, in a guest or in two, with no rate and no deadline.

iperf3 begins with one datagram that nobody repeats, and ends by a control connection that gives up:
on a busy machine either fails. Here each batch is sent again until its answers have come, and what
is judged is how many had to be.
"""

from __future__ import annotations

import json

from helpers.guest.guests import SECONDS, run

PORT = 5202
BATCH = 8
"""Datagrams that are on their way at a time: no socket's buffer overflows with them."""

_ANSWER = f"""
import socket
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.bind(("", {PORT}))
while True:
    data, sender = sock.recvfrom(1 << 16)
    sock.sendto(data, sender)
"""
_ASK = f"""
import json, os, socket, sys
to, length, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sock.connect((to, {PORT}))
sock.settimeout(5)
sent = 0
for first in range(0, count, {BATCH}):
    left = {{number: number.to_bytes(4, "big") + os.urandom(length - 4)
            for number in range(first, min(first + {BATCH}, count))}}
    while left:
        for data in left.values():
            sock.send(data)
            sent += 1
        try:
            for _ in range(len(left)):
                data = sock.recv(1 << 16)
                number = int.from_bytes(data[:4], "big")
                if number >= first:
                    assert left.pop(number, data) == data, number
        except TimeoutError:
            pass
print(json.dumps({{"sent": sent, "answered": count}}))
"""


def talk(client, server, to, lengths, count, *, in_peer=""):
    """Send ``count`` datagrams of each length and have them back; ``server`` has address ``to``.

    ``in_peer`` goes before the server's command. For each length, how many were sent in all.
    """
    job = server.popen(f"exec {in_peer}python3 -c '{_ANSWER}'")
    try:
        run(server, f"until {in_peer}ss -Hlun sport = :{PORT} | grep -q :; do sleep 0.1; done")
        sent = {}
        for length in lengths:
            said = client.run(
                ["python3", "-c", _ASK, to, str(length), str(count)], timeout=SECONDS
            ).check()
            sent[length] = json.loads(said.stdout)["sent"]
        return sent
    finally:
        server.run(f"{in_peer}pkill -f 'python3 -c.*{PORT}'")
        server.wait(job, timeout=SECONDS)
