"""A program for guests that counts what the kernel's psample tells of (uapi/linux/psample.h).

It joins the group "packets" of the generic netlink family "psample" and says "ready". After so many
seconds, its argument, it says how many samples have come.
"""

COUNT_SAMPLES = """
import socket, struct, sys, time
NETLINK_GENERIC, GENL_ID_CTRL, GETFAMILY, FAMILY_NAME = 16, 16, 3, 2
SOL_NETLINK, ADD_MEMBERSHIP, FAMILY_ID, MCAST_GROUPS, GRP_NAME, GRP_ID = 270, 1, 1, 7, 1, 2
def attrs(data):
    found = []
    while len(data) >= 4:
        size, kind = struct.unpack_from("HH", data)
        found.append((kind & 0x3fff, data[4:size]))
        data = data[size + 3 & ~3:]
    return found
s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_GENERIC)
s.bind((0, 0))
name = b"psample\\0"
body = struct.pack("BBxxHH", GETFAMILY, 1, 4 + len(name), FAMILY_NAME) + name
s.send(struct.pack("IHHII", 16 + len(body), GENL_ID_CTRL, 1, 1, 0) + body)
told = dict(attrs(s.recv(65536)[20:]))
(family,) = struct.unpack("H", told[FAMILY_ID])
groups = [dict(attrs(group)) for _, group in attrs(told[MCAST_GROUPS])]
(number,) = [struct.unpack("I", g[GRP_ID])[0] for g in groups if g[GRP_NAME] == b"packets\\0"]
s.setsockopt(SOL_NETLINK, ADD_MEMBERSHIP, number)
print("ready", flush=True)
end, samples = time.monotonic() + float(sys.argv[1]), 0
while (left := end - time.monotonic()) > 0:
    s.settimeout(left)
    try:
        data = s.recv(65536)
    except TimeoutError:
        break
    samples += struct.unpack_from("IH", data)[1] == family
print(samples)
"""
