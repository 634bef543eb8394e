"""``mlx5emu serve --trace`` and its other files: what functions do, and what is missing."""

import os
import signal
import subprocess
import sys

import pytest
from click.testing import CliRunner

from emu.cli.main import main
from emu.device.faults import record
from emu.host.process_identity import module_command


@pytest.fixture
def serve(tmp_path):
    """Starts a server of two functions, which is stopped again; gives its status."""

    def run(*options, pass_fds=()):
        sockets = [word for name in "ab" for word in ("--socket", str(tmp_path / name))]
        process = subprocess.Popen(
            [*module_command("emu"), "serve", *sockets, *map(str, options)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            text=True,
            pass_fds=pass_fds,
        )
        with process:
            said = []
            for line in process.stdout:
                said.append(line)
                if line == "ready\n":
                    process.send_signal(signal.SIGTERM)
        return process.returncode, "".join(said)

    return run


def test_json_is_what_show_reads(serve, tmp_path):
    trace = tmp_path / "trace"
    assert serve("--trace", trace)[0] == 0
    result = CliRunner().invoke(main, ["trace", "show", str(trace)])
    assert [line.split()[1:] for line in result.output.splitlines()] == [
        ["f0", "reset", "connectx6"],
        ["f1", "reset", "connectx6"],
    ]


def test_text_is_to_be_read_as_it_is(serve, tmp_path):
    trace = tmp_path / "trace"
    assert serve("--trace", trace, "--trace-format", "text")[0] == 0
    first, second = trace.read_text().splitlines()
    assert first == "    0.000000 f0 reset connectx6"
    assert second.endswith(" f1 reset connectx6")


def test_a_plan_from_a_pipe_of_the_shell_is_read_once(serve, tmp_path):
    reader, writer = os.pipe()
    os.write(writer, b'[[rule]]\nname = "late"\npoint = "load"\naction = "link"\n')
    os.close(writer)
    status, said = serve(
        "--faults", f"/dev/fd/{reader}", "--record", tmp_path / "record", pass_fds=[reader]
    )
    os.close(reader)
    assert (status, "Error" in said) == (0, False)
    written = record.read((tmp_path / "record").read_text(), "record")
    assert [rule.name for rule in written.plan.rule] == ["late"]


def test_a_plan_with_mistakes_leaves_no_trace(serve, tmp_path):
    (tmp_path / "plan").write_text('[[rule]]\npoint = "lod"\n')
    status, said = serve("--trace", tmp_path / "trace", "--faults", tmp_path / "plan")
    assert (status, "'lod'" in said) == (2, True)
    assert not (tmp_path / "trace").exists()


@pytest.mark.hostile
@pytest.mark.parametrize("what", ["trace", "record", "pcap"])
def test_full_disk_is_an_error_at_the_end(serve, what):
    status, said = serve(f"--{what}", "/dev/full")
    assert status == 1
    name = {"pcap": "capture"}.get(what, what)
    assert said.splitlines()[-1] == (
        f"mlx5emu: the {name} /dev/full is not complete: No space left on device"
    )


@pytest.mark.hostile
def test_all_files_that_are_not_complete_are_told(serve):
    status, said = serve("--trace", "/dev/full", "--record", "/dev/full", "--pcap", "/dev/full")
    assert status == 1
    assert said.splitlines()[-1].count("/dev/full is not complete") == 3


def test_a_trace_that_has_its_size_is_none(serve, tmp_path):
    assert serve("--trace", tmp_path / "trace", "--trace-limit", "1")[0] == 0


def test_directories_above_the_file_are_not_made(serve, tmp_path):
    status, said = serve("--trace", tmp_path / "new" / "trace")
    assert status == 2
    assert f"no directory {tmp_path / 'new'}" in " ".join(said.split())
    assert not (tmp_path / "new").exists()


def test_file_that_cannot_be_written(serve, tmp_path):
    """As one of its directories is a file."""
    (tmp_path / "file").touch()
    status, said = serve("--trace", tmp_path / "file" / "trace")
    assert status == 2
    assert f"{tmp_path / 'file'} is not a directory" in " ".join(said.split())
    assert "Traceback" not in said


def test_a_pipe_that_nobody_reads(serve, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    status, said = serve("--trace", tmp_path / "pipe")
    assert status == 2
    assert "No such device or address" in said
    assert "Traceback" not in said
