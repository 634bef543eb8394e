"""DEVX by libmlx5: a command that completes later, and events of the port, printed as JSON."""

import ctypes
import json
import os
import select
import struct
import subprocess
import sys

ALLOC_FLOW_COUNTER, QUERY_FLOW_COUNTER, PORT_CHANGE = 0x939, 0x93B, 9
OPEN_DEVX, OMIT_DATA, NON_CACHED = 1, 1, 1
COOKIE, WORK = 0x77, 0x1234
STATISTICS_BYTES = 32

verbs = ctypes.CDLL("libibverbs.so.1", use_errno=True)
mlx5 = ctypes.CDLL("libmlx5.so.1", use_errno=True)


def function(library, name, result=ctypes.c_void_p):
    found = getattr(library, name)
    found.restype = result

    def call(*words):
        value = found(*words)
        if (result is ctypes.c_void_p and not value) or (result is ctypes.c_int and value):
            error = ctypes.get_errno() or value
            raise OSError(error, f"{name}: {os.strerror(error)}")
        return ctypes.c_void_p(value) if result is ctypes.c_void_p else value

    return call


def status(name):
    return function(mlx5, f"mlx5dv_devx_{name}", ctypes.c_int)


def made(name):
    return function(mlx5, f"mlx5dv_devx_{name}")


class Attributes(ctypes.Structure):
    """struct mlx5dv_context_attr."""

    _fields_ = (("flags", ctypes.c_uint32), ("mask", ctypes.c_uint64))


def file_of(handle):
    """The first member of a command or event channel is its file."""
    return ctypes.cast(handle, ctypes.POINTER(ctypes.c_int))[0]


def is_ready(handle):
    return bool(select.select([file_of(handle)], [], [], 10)[0])


def asked(context):
    """A counter's statistics, by a command that is answered later."""
    out = ctypes.create_string_buffer(16)
    size = ctypes.c_size_t
    command = struct.pack(">H14x", ALLOC_FLOW_COUNTER)
    counter = made("obj_create")(context, command, size(16), out, size(16))
    channel = made("create_cmd_comp")(context)
    query = struct.pack(">H26xI", QUERY_FLOW_COUNTER, struct.unpack_from(">I", out, 8)[0])
    status("obj_query_async")(
        counter, query, size(32), size(STATISTICS_BYTES), ctypes.c_uint64(WORK), channel
    )
    found = is_ready(channel)
    answer = ctypes.create_string_buffer(8 + STATISTICS_BYTES)
    status("get_async_cmd_comp")(channel, answer, size(len(answer)))
    function(mlx5, "mlx5dv_devx_destroy_cmd_comp", None)(channel)
    status("obj_destroy")(counter)
    return found and [struct.unpack_from("<Q", answer)[0], answer.raw[8:16].hex()]


def told(context, flags):
    """What a channel tells of the port when its interface goes down and up."""
    channel = made("create_event_channel")(context, flags)
    events = (ctypes.c_uint16 * 1)(PORT_CHANGE)
    status("subscribe_devx_event")(
        channel, None, ctypes.c_uint16(2), events, ctypes.c_uint64(COOKIE)
    )
    subprocess.run("ip link set eth0 down; ip link set eth0 up", shell=True, check=True)
    found = is_ready(channel)
    data = ctypes.create_string_buffer(128)
    length = function(mlx5, "mlx5dv_devx_get_event", ctypes.c_ssize_t)(
        channel, data, ctypes.c_size_t(len(data))
    )
    function(mlx5, "mlx5dv_devx_destroy_event_channel", None)(channel)
    return found and [
        length,
        struct.unpack_from("<Q", data)[0],
        data.raw[9] if length > 9 else None,
    ]


def device(name):
    """The RDMA device of this name, or the first one."""
    count = ctypes.c_int()
    devices = ctypes.cast(
        function(verbs, "ibv_get_device_list")(ctypes.byref(count)),
        ctypes.POINTER(ctypes.c_void_p),
    )
    name_of = function(verbs, "ibv_get_device_name", ctypes.c_char_p)
    return next(
        one
        for one in devices[: count.value]
        if not name or name_of(ctypes.c_void_p(one)).decode() == name
    )


def main(name=""):
    """``name``: the device of a function whose port has no events for it."""
    attributes = Attributes(OPEN_DEVX, 0)
    context = function(mlx5, "mlx5dv_open_device")(
        ctypes.c_void_p(device(name)), ctypes.byref(attributes)
    )
    eqn = ctypes.c_uint32()
    status("query_eqn")(context, 0, ctypes.byref(eqn))
    uar = made("alloc_uar")(context, NON_CACHED)
    function(mlx5, "mlx5dv_devx_free_uar", None)(uar)
    found = {
        "eqn": eqn.value,
        "answer": asked(context),
        "events": [] if name else [told(context, 0), told(context, OMIT_DATA)],
    }
    function(verbs, "ibv_close_device", ctypes.c_int)(context)
    json.dump(found, sys.stdout)


main(*sys.argv[1:])
