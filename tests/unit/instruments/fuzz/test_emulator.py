"""The fuzzer reports internal errors of the emulator, not of its driver."""

from types import SimpleNamespace

from emu.guests import GuestOptions
from emu.instruments.fuzz.emulator import internal_errors
from emu.instruments.fuzz.executor import GuestExecutor


def test_lines_of_exceptions_in_a_servers_log(tmp_path):
    log = tmp_path / "server.log"
    assert internal_errors(log) == internal_errors(None) == []
    log.write_bytes(b"INFO a\nERROR trace: internal error at wqe: the device goes on\n\xff\nTrace")
    assert internal_errors(log) == ["ERROR trace: internal error at wqe: the device goes on"]


def test_an_executor_tells_at_the_end_of_a_guest(tmp_path, caplog):
    log = tmp_path / "server.log"
    log.write_text("ERROR connectx6: internal error: the function stops\n")
    executor = GuestExecutor(GuestOptions())
    guest = SimpleNamespace(log_files={"server": log})
    executor._booted = SimpleNamespace(guest=guest, close=lambda: None)
    executor.close()
    assert executor.emulator_errors == ["ERROR connectx6: internal error: the function stops"]
    assert f"internal error of the emulator: {executor.emulator_errors[0]}: {log}" in caplog.text
