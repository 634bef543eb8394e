"""The command line: commands are found, mistakes are one line, statuses are right."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import click
import pytest
from click.testing import CliRunner

from emu.cli import main as cli
from emu.cli.commands.setup import doctor
from emu.cli.shared.files import NewFile
from emu.cli.shared.params import RealNumber, WholeNumber
from emu.compiled import building
from emu.compiled.sources import DEVICE
from emu.guests import GuestPanicError, LabError, cache
from emu.guests.doctor import Check, State
from emu.host.user_error import UserError
from emu.version import COMPILED, PURE, code_line, version


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def commands(group=cli.main, path=()):
    """Every command with its words, groups' own included."""
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


def invoke(*words):
    return CliRunner().invoke(cli.main, words)


def test_every_module_is_a_command():
    result = invoke("--help")
    assert result.exit_code == 0
    for name in ("boot", "doctor", "guest", "run", "serve"):
        assert f"\n  {name} " in result.output
    assert "_progress" not in result.output


@pytest.mark.parametrize(
    "name", ["boot", "doctor", "guest", "guest build", "guest list", "guest clean", "run"]
)
def test_every_command_has_help(name):
    result = invoke(*name.split(), "--help")
    assert (result.exit_code, result.output[:6]) == (0, "Usage:")


def test_the_version_tells_the_code_that_runs():
    result = invoke("--version")
    assert (result.exit_code, result.output) == (
        0,
        f"mlx5emu, version {version()}, {code_line()}\n",
    )


def test_nothing_heavy_is_imported_before_a_command_is_chosen():
    code = "import sys, emu.cli.main; print(sorted(m for m in sys.modules if m.startswith('emu')))"
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    loaded = [
        "emu",
        "emu.cli",
        "emu.cli.commands",
        "emu.cli.main",
        "emu.compiled",
        "emu.compiled.loading",
        "emu.compiled.sources",
        "emu.host",
        "emu.host.cache_root",
        "emu.host.user_error",
    ]
    assert output.stdout.strip() == str(loaded)


def test_exec_loads_nothing_that_boots_a_guest():
    """It is typed again and again; images, QEMU and the server take a tenth of a second to load."""
    code = "import sys, emu.cli.runs.execute; print(*sys.modules)"
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    heavy = (
        "emu.server",
        "emu.guests.image",
        "emu.guests.machine",
        "emu.device",
        "rich",
        "tomllib",
    )
    assert [name for name in output.stdout.split() if name.startswith(heavy)] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nosuch"], "No such command"),
        (["run"], "Missing argument"),
        (["run", "--suite", "buster", "true"], "'buster' is not one of"),
        (["run", "--timeout", "0", "true"], "more than 0 is needed, not 0"),
        (["run", "--memory", "lots", "true"], "a whole number is needed, not 'lots'"),
        (["run", "--timeout", "long", "true"], "a number is needed, not 'long'"),
        (["run", "--share", "/nowhere", "true"], "no directory /nowhere"),
        (["guest", "build", "--suite", "x"], "'x' is not one of"),
    ],
)
def test_wrong_words_are_usage_errors(words, said):
    result = invoke(*words)
    assert result.exit_code == 2
    assert said in result.output


@pytest.mark.parametrize(
    ("error", "status", "lines"),
    [
        (LabError("no room"), 1, ["mlx5emu: no room"]),
        (
            GuestPanicError("the guest panicked: x", "BUG: y"),
            125,
            ["The console's last lines:", "BUG: y", "mlx5emu: the guest panicked: x"],
        ),
        (FileNotFoundError(2, "No such file", "/x"), 1, ["mlx5emu: /x: No such file"]),
        (KeyboardInterrupt(), 130, []),
    ],
)
def test_failures_end_as_a_line_and_a_status(monkeypatch, error, status, lines):
    def fail():
        raise error

    monkeypatch.setattr("emu.cli.commands.setup.doctor.examine", fail)
    result = invoke("doctor")
    assert result.exit_code == status
    assert result.output.splitlines() == lines


def test_our_own_mistakes_keep_their_traceback(monkeypatch):
    monkeypatch.setattr("emu.cli.commands.setup.doctor.examine", lambda: 1 / 0)
    assert isinstance(invoke("doctor").exception, ZeroDivisionError)


@pytest.mark.parametrize(
    ("state", "status", "verdict"),
    [
        (State.GOOD, 0, "guests can run here"),
        (State.NOTE, 0, "guests can run here"),
        (State.BAD, 1, "guests cannot run here yet"),
    ],
)
def test_the_doctor_says_what_to_do(monkeypatch, state, status, verdict):
    check = Check("mmdebstrap", state, "found", "apt-get install mmdebstrap")
    monkeypatch.setattr("emu.cli.commands.setup.doctor.examine", lambda: [check])
    result = invoke("doctor")
    assert result.exit_code == status
    assert verdict in result.output
    assert ("to do: apt-get install mmdebstrap" in result.output) == (state is State.BAD)


def test_an_empty_cache_is_listed_and_cleaned(home):
    assert "no images" in invoke("guest", "list").output
    assert "freed" in invoke("guest", "clean", "--all").output


def test_the_list_has_what_clean_removes_besides_images(home):
    (cache.subdir("kernels") / "debian-rt-trixie").mkdir()
    (cache.subdir("boots") / "trixie-1").mkdir()
    (cache.subdir("boots") / "trixie-1" / "memory").write_bytes(bytes(3_000_000))
    output = invoke("guest", "list").output
    assert ": debian-rt-trixie\n" in output
    assert "saved boots (3.0 MB): 1\n" in output


def test_clean_removes_what_can_be_made_again_but_no_ssh_key(home):
    made = ("kernels", "headers", "qemu", "plugins", "runs", "ssh")
    for name in made:
        (cache.subdir(name) / "file").write_bytes(bytes(4096))

    def left():
        return {name for name in made if (cache.subdir(name) / "file").exists()}

    assert invoke("guest", "clean").exit_code == 0
    assert left() == set(made)
    assert invoke("guest", "clean", "--kernels").output == "8.2 kB freed\n"
    assert left() == {"qemu", "plugins", "runs", "ssh"}
    assert invoke("guest", "clean", "--all").exit_code == 0
    assert left() == {"ssh"}


def test_clean_removes_compiled_code_of_other_sources(home):
    current, other = DEVICE.key(), "0123456789ab"
    for key in (current, other):
        (cache.subdir("compiled") / key).mkdir()

    def left():
        return {path.name for path in cache.subdir("compiled").iterdir()}

    for words in (("--kernels",), ("--suite", "sid")):
        assert invoke("guest", "clean", *words).exit_code == 0
        assert left() == {current, other}
    assert invoke("guest", "clean", "--old").exit_code == 0
    assert left() == {current}
    assert invoke("guest", "clean", "--all").exit_code == 0
    assert left() == set()


def test_doctor_compiles_when_it_is_asked_to(home, monkeypatch):
    monkeypatch.setattr(doctor, "code", lambda: PURE)
    monkeypatch.setattr(building, "build", lambda on_wait: "0123456789ab")
    result = invoke("doctor", "--compile")
    assert result.output.endswith("device code: compiled (0123456789ab), used from now on\n")

    begun = "compiling the device code; this takes minutes\n"

    def fails(on_wait):
        raise UserError("no compiled code: gcc: error")

    monkeypatch.setattr(building, "build", fails)
    result = invoke("doctor", "--compile")
    assert (result.exit_code, result.output) == (
        1,
        f"{begun}mlx5emu: no compiled code: gcc: error\n",
    )
    monkeypatch.setattr(doctor, "code", lambda: COMPILED)
    assert invoke("doctor", "--compile").output == f"device code: {code_line()}\n"


@pytest.mark.parametrize(
    "words", [("--all", "--kernels"), ("--kernels", "--old"), ("--all", "--old")]
)
def test_clean_refuses_choices_that_contradict(home, words):
    result = invoke("guest", "clean", *words)
    assert (result.exit_code, "drop --" in result.output) == (2, True)


@pytest.mark.parametrize("mode", ["", "600x", "rw", "-1", "1777", "0400"])
def test_modes_that_no_socket_can_have(mode, tmp_path):
    result = invoke("serve", "--socket", str(tmp_path / "socket"), "--socket-mode", mode)
    assert result.exit_code == 2
    assert "0200" in result.output


ENDED = """
import os, signal, sys
import click
from emu.cli.main import CommandGroup, main

number, before = int(sys.argv[1]), signal.Handlers(int(sys.argv[2]))

@click.command()
def end():
    try:
        os.kill(os.getpid(), number)
    finally:
        print("in order")

CommandGroup.get_command = lambda *_: end
signal.signal(number, before)
try:
    main(["end"])
finally:
    assert signal.getsignal(number) is before
"""


def test_models_are_listed_whole():
    """In 80 columns, and as JSON; names and PCI ids are what users type."""
    lines = invoke("models").output.splitlines()
    assert max(map(len, lines)) <= 80
    assert {"bluefield3-vf", "15b3:101e", "NDR 4X or 400 GbE"} <= {
        word.strip() for line in lines for word in line.split("  ")
    }
    (first, *_) = json.loads(invoke("models", "--json").output)
    assert (first["model"], first["PCI id"]) == ("connectx4lx", "15b3:1015")


def test_a_command_in_another_thread_leaves_signals_alone():
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(invoke, "models").result()
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("before", [signal.SIG_DFL, signal.SIG_IGN])
def test_a_signal_ends_a_command_in_order_or_is_ignored_as_before(number, before):
    command = [sys.executable, "-c", ENDED, str(int(number)), str(int(before))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.endswith("in order\n")
    assert done.returncode == (0 if before is signal.SIG_IGN else 128 + number)


@pytest.mark.parametrize(
    "words",
    [
        ("run", "--dump", "PATH", "true"),
        ("run", "--junit", "PATH", "true"),
        ("up", "--trace", "PATH", "dev"),
        ("rdma-tests", "--tap", "PATH"),
        ("rdma-tests", "--json", "PATH"),
        ("run", "--coverage", "mlx5_core", "--coverage-file", "PATH", "true"),
        ("dump", "dev", "PATH"),
        ("serve", "--socket", "socket", "--pcap", "PATH"),
    ],
)
@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("text/file", "/text is not a directory"),
        ("text/new/file", "no directory "),
        ("resutls/new/file", "; near it: results"),
        ("results", "is a directory"),
    ],
)
def test_a_file_that_cannot_be_written_is_told_before_a_guest_boots(words, path, why, tmp_path):
    (tmp_path / "text").touch()
    (tmp_path / "results").mkdir()
    result = invoke(*(str(tmp_path / path) if word == "PATH" else word for word in words))
    assert result.exit_code == 2
    assert why in result.output
    assert sorted(each.name for each in tmp_path.iterdir()) == ["results", "text"]


def test_a_file_to_write_need_not_be_there(tmp_path):
    path = NewFile().convert(str(tmp_path / "file"), None, None)
    assert path == tmp_path / "file"
    assert not path.exists()


def test_no_number_has_a_type_of_click():
    """Errors of click call the types "integer range" and "float"."""
    of_click = (click.types.IntParamType, click.types.FloatParamType)
    assert [
        f"{' '.join(path)} {parameter.name}"
        for path, command in commands()
        for parameter in command.params
        if isinstance(parameter.type, of_click)
        and not isinstance(parameter.type, (WholeNumber, RealNumber))
        and not getattr(parameter, "count", False)
    ] == []


def test_every_option_that_writes_a_file_looks_for_its_directory():
    """An option for a file that need not be there has the type that does so."""
    assert [
        f"{' '.join(path)} {parameter.opts[0]}"
        for path, command in commands()
        for parameter in command.params
        if type(parameter.type) is click.Path
        and not parameter.type.exists
        and parameter.type.file_okay
        and parameter.type.name != "path"
    ] == []  # fmt: skip


def test_a_coverage_file_of_a_corpus_that_can_have_no_folder_is_told_first(tmp_path):
    image = tmp_path / "vmlinux"
    image.touch()
    result = invoke("fuzz", "coverage", str(tmp_path), str(image), "--out", f"{image}/new/x")
    assert result.exit_code == 2
    assert f"no directory {image}/new" in result.output


FULL = """
import resource, sys
from emu.cli.main import main
from emu.guests import cache

resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))  # no file gets longer, as on a full disk
sys.argv = ["mlx5emu", "trace", "export", sys.argv[1], "--html", sys.argv[2]]
main()
"""


def test_a_full_disk_is_one_line(tmp_path):
    trace = tmp_path / "trace"
    trace.touch()
    # -B: Python would keep the first 1000 bytes of each module that it compiles, and nobody could
    # import them any more.
    command = [sys.executable, "-B", "-c", FULL, trace, tmp_path / "page"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.endswith(f"mlx5emu: {tmp_path}/page: File too large\n")
    assert "Traceback" not in done.stderr


def test_a_full_disk_where_the_file_has_no_name(monkeypatch):
    def full():
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("emu.cli.commands.setup.doctor.examine", full)
    result = invoke("doctor")
    assert result.exit_code == 1
    assert result.output.startswith("mlx5emu: a file cannot be written; ")
    assert result.output.endswith(": No space left on device\n")


def test_a_misspelled_option_suggests_only_options_of_the_help():
    said = invoke("run", "--no-devic", "--", "true")
    assert said.exit_code == 2
    assert "No such option '--no-devic'" in said.output
    assert "--no-device" not in said.output.replace("'--no-devic'", "")
    assert "--device" in invoke("run", "--devic", "--", "true").output
    assert "--help" in invoke("ps", "--hepl").output
