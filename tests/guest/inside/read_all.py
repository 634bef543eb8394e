"""Read every file that an adapter's functions have in sysfs and debugfs; print what failed.

Arguments: PCI addresses. A file that nobody may read is left out. Files that may block are opened
without waiting; of each file 1 MiB is read at most.
"""

import errno
import json
import os
import sys

MAX_BYTES = 1 << 20


def folders():
    for address in sys.argv[1:]:
        yield f"/sys/bus/pci/devices/{address}/"
        yield f"/sys/kernel/debug/mlx5/{address}/"
        base = f"/sys/bus/pci/devices/{address}/infiniband"
        for name in os.listdir(base) if os.path.isdir(base) else ():
            yield f"/sys/kernel/debug/mlx5/{address}/{name}/"


def readable(folder):
    for path, _, names in os.walk(folder):
        for name in names:
            file = os.path.join(path, name)
            if not os.path.islink(file) and os.stat(file).st_mode & 0o444:
                yield file


def read(path):
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        left = MAX_BYTES
        while left > 0 and (data := os.read(file, min(left, 65536))):
            left -= len(data)
    finally:
        os.close(file)


count, failed = 0, []
for path in sorted({path for folder in folders() for path in readable(folder)}):
    count += 1
    try:
        read(path)
    except OSError as error:
        failed.append((path, errno.errorcode[error.errno]))
sys.stdout.write(json.dumps({"count": count, "failed": failed}))
