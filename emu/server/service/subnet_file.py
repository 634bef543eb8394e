"""The file of ``--subnet``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from emu.host.user_error import UserError
from emu.host.userfiles import read_infile
from emu.server.net.ib.subnet.topology import SubnetTopology, TopologyError, parse

MAX_BYTES = 16 << 20


def read_topology(path: Path) -> SubnetTopology:
    """Return the subnet that a file describes, with the path as its ``source``.

    Raises UserError with the path for a topology with mistakes, for more than 16 MiB and for text
    that is not UTF-8. Raises OSError if the file cannot be read.
    """
    try:
        return replace(parse(read_infile(path, MAX_BYTES).decode()), source=str(path))
    except UnicodeDecodeError:
        raise UserError(f"{path}: not text in UTF-8") from None
    except TopologyError as error:
        raise UserError(f"{path}: {error}") from None
