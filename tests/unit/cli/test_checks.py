"""Mistakes in a guest's options are told before anything starts, with status 2."""

import os
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from emu.cli.commands.functions.serve import serve
from emu.cli.main import main
from emu.guests.architecture import ARCHITECTURES

WORKLOAD = '[[workload]]\nname = "w"\nrun = "true"\n'


@pytest.fixture
def no_start(monkeypatch):
    def start(*_, **__):
        raise AssertionError("something starts")

    monkeypatch.setattr("emu.guests.guest.guest.Guest.start", start)
    monkeypatch.setattr("emu.guests.named.daemon.launch", start)
    monkeypatch.setattr("emu.guests.kernel.archive.fetch", start)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--device", "connectx6d"], "--device: unknown model 'connectx6d'; near it: connectx6dx"),
        (["--device", "connectx6,lidd=3"], "--device: 'lidd=3' is no setting; near it: lid"),
        (["--device", "connectx6,link=eth,lid=3"], "--device: lid needs link=ib"),
        (["--device", "connectx6,lid=3", "--device", "connectx6,lid=3"], "both have lid=3"),
        (["--net", "usr"], "--net: 'usr': use user, stream=PATH or tap=NAME"),
        (["--transport", "vfio"], "no transport 'vfio'; known: vfio-user, libvfio-user"),
        (["--memory", str(1 << 40)], "--memory: 1099511627776 MiB exceed the host's"),
        (["--fabric", "xx"], "--fabric: no fabric 'xx'"),
        (["--suite", "trixi"], "'trixi' is not one of bookworm, trixie, sid; near it: trixie"),
        (["--share", "/usr/shar"], "no directory /usr/shar; near it: share"),
        (["--share", "/usr/shar/x:rw"], "no directory /usr/shar/x; near it: share"),
        (["--share", "/etc/passwd"], "'/etc/passwd' is a file"),
        (["--kernel", "/usr/shar"], "--kernel: no kernel /usr/shar; near it: share; a kernel"),
        (["--kernel", "/etc/passwd"], "--kernel: /etc/passwd is not a Linux bzImage"),
        (["--kernel", "/etc"], "--kernel: /etc is not a build tree"),
        (["--kernel", "debian:colud"], "--kernel: no kernel debian:colud: .*mean debian:cloud?"),
        (["--kernel", "debian:6.13", "--modules", "/usr/shar"], "--modules.*near it: share"),
        (["--kernel", "debian:6.13", "--icount", "3", "--cpus", "2"], "--cpus: icount needs one"),
        (["--out", "/etc/passwd/x"], "--out: /etc/passwd/x cannot be made: Not a directory"),
        (["--modules", "/usr"], "--modules: modules need a kernel"),
        (
            ["--net", "stream=/tmp/none"],
            "--net: no Ethernet port in connectx6: add --device connectx6dx",
        ),
        (["--package", "no such"], "--package: 'no such' is not the name of a Debian package"),
        (["--faults", "/etc/passw"], "no file /etc/passw; near it: passwd"),
    ],
)
@pytest.mark.parametrize("command", ["run", "up"])
def test_a_wrong_option(command, words, says, no_start):
    result = CliRunner().invoke(main, [command, *words, "x"])
    assert result.exit_code == 2
    assert re.search(re.escape(says).replace(r"\.\*", ".*"), result.output)


@pytest.mark.parametrize(
    "words",
    [
        "run --faults {0} --record {0} x",
        "run --record {0} --faults {0} x",
        "run --trace {1} --pcap {1} x",
        "serve --socket s --faults {0} --record {0}",
        "serve --socket s --trace {1} --control {1}",
        "trace export {0} --html {0}",
        "trace export {0} --html {1} --perfetto {1}",
        "coverage show {0} --html {0}",
    ],
)
def test_a_file_is_not_read_and_written(words, no_start, tmp_path):
    """The file of two parameters stays as it is if one of them writes it."""
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text("what the user wrote")
    result = CliRunner().invoke(main, words.format(old, new).split())
    assert result.exit_code == 2
    assert re.search(r" is the file of .*, too", result.output)
    assert (old.read_text(), new.exists()) == ("what the user wrote", False)


@pytest.mark.hostile
def test_a_link_to_itself_is_no_exception(no_start, tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    words = ["trace", "export", __file__, "--html", str(tmp_path / "loop")]
    result = CliRunner().invoke(main, words)
    assert isinstance(result.exception, SystemExit)
    assert result.exit_code == 1


@pytest.mark.parametrize("option", ["subnet", "record", "trace", "pcap"])
def test_serve_takes_a_pipe_of_the_shell(option):
    """Its name by /proc, as of any pipe without a path, cannot be opened."""
    pipe = os.pipe()
    path = Path(f"/dev/fd/{pipe[option != 'subnet']}")
    with serve.make_context("serve", ["--socket", "s", f"--{option}", str(path)]) as context:
        assert context.params[option] == path
    for end in pipe:
        os.close(end)


@pytest.mark.parametrize("words", ["run --faults {} x", "lab up {}", "boot --subnet {}"])
def test_a_pipe_is_no_file_of_a_guest(words, no_start):
    """Server and guest open the file later; the pipe's resolved path does not even exist."""
    reader, writer = os.pipe()
    result = CliRunner().invoke(main, words.format(f"/dev/fd/{reader}").split())
    assert result.exit_code == 2
    assert f"/dev/fd/{reader} is a pipe: name a file, which another process" in result.output
    os.close(reader)
    os.close(writer)


def test_standard_input_is_not_the_file_of_that_name(no_start, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["trace", "export", "-", "--html", "-"], input="")
    assert result.exit_code == 0
    assert (tmp_path / "-").stat().st_size


def test_a_device_is_written_by_two_options(no_start):
    result = CliRunner().invoke(main, ["trace", "export", "--html", "/dev/null", "--perfetto",
                                       "/dev/null", "/dev/null"])  # fmt: skip
    assert result.exit_code == 0


def test_a_merged_file_replaces_one_that_was_read(tmp_path):
    part = tmp_path / "part"
    part.write_text("no coverage")
    result = CliRunner().invoke(main, ["coverage", "merge", str(part), "--out", str(part)])
    assert (result.exit_code, "is not a coverage file" in str(result.output)) == (1, True)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("run --arch {} --iommu x", "--arch: {} guests have no emulated IOMMU"),
        ("up --arch {} --iommu x", "--arch: {} guests have no emulated IOMMU"),
        ("boot --arch {} --iommu", "--arch: {} guests have no emulated IOMMU"),
        ("rdma-tests --arch {} --iommu", "--arch: {} guests have no emulated IOMMU"),
        ("chaos --arch {} --iommu @verbs -- true", "--arch: {} guests have no emulated IOMMU"),
        (
            "run --arch {} --dump /tmp/no-such.core x",
            "--arch: {} guests have no dump of their memory",
        ),
        (
            "up --arch {} --dump /tmp/no-such.core x",
            "--arch: {} guests have no dump of their memory",
        ),
        ("run --arch {} --gdb run x", "--arch: {} guests have no debugger"),
        ("run --arch {} --gdb load x", "--arch: {} guests have no debugger"),
        ("run --arch {} --coverage mlx5_core x", "counts calls in amd64 guests, not in {}"),
        ("rdma-tests --arch {} --coverage mlx5_core", "counts calls in amd64 guests, not in {}"),
        ("run --arch {} --accel kvm x", "--arch: KVM runs guests of amd64 only on this host"),
        ("boot --arch {} --accel kvm", "--arch: KVM runs guests of amd64 only on this host"),
        ("run --arch {} --device connectx6dx,vfs=2 x", "only amd64 guests can have virtual"),
        ("fuzz run --arch {} --corpus x", "--arch: tasks are traced on amd64 only"),
        ("run --arch {} --pip rich x", "--pip: only for guests of amd64"),
        ("guest build --arch {} --pip rich", "--pip: only for images of amd64"),
    ],
)
@pytest.mark.parametrize("arch", ["s390x", "riscv64", "ppc64el-64k", "armhf"])
def test_another_architectures_lacks(words, why, arch, no_start, monkeypatch):
    """All in one line."""
    amd64 = ARCHITECTURES["amd64"]
    for module in ("guests.architecture", "guests.options.system", "guests.options.checks",
                   "cli.commands.setup.guest"):  # fmt: skip
        monkeypatch.setattr(f"emu.{module}.NATIVE", amd64)
    given = words.format(arch).split()
    if given[0] not in ("fuzz", "guest"):
        given[1:1] = ["--device", "connectx6"] * ARCHITECTURES[arch].min_functions
    result = CliRunner().invoke(main, given)
    assert result.exit_code == 2
    (line,) = [line for line in result.output.splitlines() if line.startswith("Error: ")]
    assert why.format(arch) in line


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("rdma-tests --arch armhf", "--arch: Debian's libibverbs of armhf has no mlx5"),
        ("run --arch armhf --cpus 9 x", "--cpus: armhf guests have at most 8 processors"),
        ("run --arch armhf --memory 3073 x", "--memory: armhf guests have at most 3072 MiB"),
        ("run --arch ppc64el x", "--arch: QEMU starts ppc64el guests with 2 functions or more"),
    ],
)
def test_an_architectures_limits(words, why, no_start):
    result = CliRunner().invoke(main, words.split())
    assert result.exit_code == 2
    (line,) = [line for line in result.output.splitlines() if line.startswith("Error: ")]
    assert why in line


@pytest.mark.parametrize("when", [(), ("--faults-when", "loading"), ("--faults-when", "loaded")])
def test_a_wrong_plan_whenever_it_begins(when, tmp_path, monkeypatch):
    plan = tmp_path / "plan.toml"
    plan.write_text('[[rule]]\npoint = "cmd"\naction = "explode"\n')
    monkeypatch.setattr("emu.guests.guest.guest.Guest.start", None)
    result = CliRunner().invoke(main, ["run", "--faults", str(plan), *when, "true"])
    assert result.exit_code == 2
    assert f"{plan}:3: rule[1].action" in result.output
    assert "faults begin" not in result.output


@pytest.mark.parametrize(("word", "meant"), [("staus", "status"), ("trac", "trace")])
def test_a_command_that_there_is_not(word, meant):
    result = CliRunner().invoke(main, [word])
    assert result.exit_code == 2
    assert f"No such command '{word}'; near it: {meant}" in result.output


@pytest.mark.parametrize(("words", "status"), [((), 0), (("--coverage", "mlx5_core"), 2)])
def test_a_directory_without_permission_needs_none_without_a_file(words, status, monkeypatch):
    """The default of --coverage-file is in the working directory."""

    def started(*_, **__):
        raise SystemExit(0)

    for module in ("emu.cli.shared.files", "emu.cli.options.coverage"):
        monkeypatch.setattr(f"{module}.why_not_writable", "{} is not writable".format)
    monkeypatch.setattr("emu.cli.commands.guests.run.to_options", started)
    result = CliRunner().invoke(main, ["run", *words, "true"])
    assert result.exit_code == status
    assert ("--coverage-file: coverage.json is not writable" in result.output) == bool(words)


@pytest.mark.parametrize("command", [("guest", "build"), ("kernel", "module"), ("guest", "clean")])
def test_a_suite_that_there_is_not(command):
    result = CliRunner().invoke(main, [*command, "--suite", "trixi"])
    assert result.exit_code == 2
    assert "'trixi' is not one of bookworm, trixie, sid; near it: trixie" in result.output


@pytest.mark.parametrize(
    ("words", "text", "says"),
    [
        (["lab", "up"], '[[guest]]\nname = "h"\narch = "s390"\n', "3: arch: 's390' is not one of"),
        (
            ["lab", "up"],
            '[[guest]]\nname = "h"\narch = "arm64"\niommu = true\n',
            "3: arch: arm64 guests have no",
        ),
        (["lab", "up"], "[[guest]\n", "1:"),
        (
            ["campaign", "list"],
            f'{WORKLOAD}[[kernel]]\nname = "k"\narch = "s390"\n',
            "6: arch: 's390' is",
        ),
        (["campaign", "list"], f"{WORKLOAD}[[exclude]]\n", "no run is left"),
        (["chaos", "--recipe"], 'about = "x"\ncommand = ""\n', "2: command: "),
    ],
)
def test_a_file_with_mistakes(words, text, says, no_start, tmp_path):
    (tmp_path / "file.toml").write_text(text)
    result = CliRunner().invoke(main, [*words, str(tmp_path / "file.toml")])
    assert result.exit_code == 2, result.output
    assert says in result.output


@pytest.mark.parametrize("words", [("up", "a/b"), ("run", "--name", "a b", "true")])
def test_a_name_that_no_guest_can_have(words):
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2
    assert "is not a valid name: 1 to 32 letters, digits, dots, dashes" in result.output


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["fault", "clear"], "fault remove --all"),
        (["fault", "delete"], "fault remove"),
        (["fault", "show"], "fault list"),
        (["fault", "inject"], "fault add or fault load"),
        (["net", "ls"], "net show"),
        (["net", "rm"], "net clear"),
        (["net", "add"], "net set"),
        (["lab", "ps"], "lab status"),
        (["lab", "list"], "lab status"),
        (["lab", "start"], "lab up"),
        (["lab", "stop"], "lab down"),
        (["lab", "kill"], "lab down"),
        (["lab", "ssh"], "lab exec"),
        (["guest", "ls"], "guest list"),
        (["trace", "list"], "trace show"),
        (["trace", "stats"], "trace count"),
        (["campaign", "start"], "campaign resume or campaign run"),
        (["campaign", "ls"], "campaign list or campaign report"),
        (["fuzz", "start"], "fuzz run"),
        (["start"], "boot or run or up"),
        (["stop"], "down"),
        (["ls"], "ps or status"),
        (["copy"], "cp"),
        (["shell"], "exec or ssh"),
        (["help"], "guide"),
    ],
)
def test_a_word_of_other_tools_is_answered_with_the_command(words, answer):
    """Users type the commands of docker, systemctl and virsh."""
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2
    assert result.output.endswith(f"No such command '{words[-1]}'; use {answer}\n")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["suite"], "suite is now rdma-tests"),
        (["suite", "--module", "test_qp"], "suite is now rdma-tests"),
        (["layouts", "check", "--kernel", "sid"], "--kernel is now --suite"),
        (["layouts", "check", "--kernel=sid", "--suite", "sid"], "--kernel is now --suite"),
    ],
)
def test_a_name_of_an_earlier_release_is_answered_with_that_of_today(words, says):
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2
    assert result.output.endswith(f"Error: {says}\n")


def test_another_unknown_command_of_a_group_has_its_commands():
    output = CliRunner().invoke(main, ["lab", "xyzzy"]).output
    assert "No such command 'xyzzy'; commands: cp, down, exec, status, up" in output
    assert "; near it: status" in CliRunner().invoke(main, ["lab", "statsu"]).output
