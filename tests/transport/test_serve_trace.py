"""``mlx5emu serve --trace``: what the served functions do, in a file."""

import os
import signal
import subprocess
import sys

import pytest
from click.testing import CliRunner

from emu.cli.main import main


@pytest.fixture
def serve(tmp_path):
    """Starts a server of two functions, which is stopped again; gives its status."""

    def run(*options):
        sockets = [word for name in "ab" for word in ("--socket", str(tmp_path / name))]
        process = subprocess.Popen(
            [sys.executable, "-m", "emu", "serve", *sockets, *map(str, options)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            text=True,
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


def test_full_disk_is_an_error_at_the_end(serve):
    status, said = serve("--trace", "/dev/full")
    assert status == 1
    assert said.splitlines()[-1] == (
        "mlx5emu: the trace /dev/full is not complete: No space left on device"
    )


def test_a_trace_that_has_its_size_is_none(serve, tmp_path):
    assert serve("--trace", tmp_path / "trace", "--trace-limit", "1")[0] == 0


def test_file_that_cannot_be_written(serve, tmp_path):
    status, said = serve("--trace", tmp_path / "no" / "trace")
    assert status == 1
    assert "No such file or directory" in said
    assert "Traceback" not in said
