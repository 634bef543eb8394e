"""Packets to a group: ``listen GROUP DEVICE COUNT`` says when it has joined and when all have come,
``speak GROUP DEVICE COUNT`` sends that many."""

import socket
import struct
import sys

PORT = 9000
word, group, device, count = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
family = socket.AF_INET6 if ":" in group else socket.AF_INET
index = socket.if_nametoindex(device)
address = socket.inet_pton(family, group)
there = socket.socket(family, socket.SOCK_DGRAM)
if word == "speak":
    if family == socket.AF_INET:
        where = struct.pack("=4s4si", bytes(4), bytes(4), index)
        there.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, where)
    else:
        there.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
    for _ in range(count):
        there.sendto(b"to all", (group, PORT))
else:
    there.bind(("", PORT))
    there.settimeout(90)
    if family == socket.AF_INET:
        join = struct.pack("=4s4si", address, bytes(4), index)
        there.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, join)
    else:
        join = struct.pack("=16si", address, index)
        there.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, join)
    for _ in range(count):
        assert there.recv(99) == b"to all"
    sys.stdout.write("all have come\n")
