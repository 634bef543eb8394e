"""The file of a record: each line says when it came."""

from __future__ import annotations

import json

from emu.device.faults import record
from emu.device.faults.plan import Plan
from emu.device.faults.record import Fired
from emu.server.service.fault_options import FaultOptions
from emu.server.service.record_file import RecordFile


def test_lines_have_seconds_since_the_record_began(tmp_path):
    path, times = tmp_path / "record", iter((100.0, 100.5, 107.123456789))
    file = RecordFile(path, Plan(), FaultOptions(), clock=lambda: next(times))
    file.fired(Fired(0, "a", 1, "irq", "drop"))
    file.changed({"seed": 5}, [3])
    file.close()
    head, *lines = map(json.loads, path.read_text().splitlines())
    assert (head["record"], "seconds" in head) == (2, False)
    assert [line["seconds"] for line in lines] == [0.5, 7.123457]
    read = record.read(path.read_text())
    assert ([one.seconds for one in read.fired], read.plan.seed) == ([0.5], 5)
