"""Guests that live on: up, exec, dmesg, ps, down, and what a panic leaves to see."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from emu.guests.archive.names import DEFAULT_SUITE
from emu.host.process_identity import module_command

logger = logging.getLogger(__name__)

EXAMPLES = Path(__file__).parents[3] / "examples" / "lab"
SUBNET = EXAMPLES.parent / "subnet" / "hosts.toml"

HOSTS = ("h1", "h2")

pytestmark = [pytest.mark.guest, pytest.mark.suite(DEFAULT_SUITE)]


@pytest.fixture
def environ(tmp_path_factory):
    """With a runtime directory of the test's own."""
    return os.environ | {"XDG_RUNTIME_DIR": str(tmp_path_factory.mktemp("r"))}


@pytest.fixture
def mlx5emu(lab, environ):
    """The command line; what is up goes down."""

    def call(*words, **options):
        command = [*module_command("emu"), *words]
        options = {"capture_output": True, "check": False, "env": environ} | options
        return subprocess.run(command, **options)

    yield call
    call("down", "--all")


def test_ten_commands_of_one_boot(mlx5emu, tmp_path):
    memory = [tmp_path / "asked", tmp_path / "panic"]
    options = ("--out", str(tmp_path / "out"), "--memory", "1024", "--dump", str(memory[1]))
    up = mlx5emu("up", "dev", *options)
    assert up.returncode == 0, up.stderr
    assert b"mlx5_0" in mlx5emu("exec", "dev", "--", "ibv_devices").stdout
    data = os.urandom(3_000_000)
    echo = mlx5emu("exec", "dev", "--", "sh", "-c", "cat; echo e >&2; exit 9", input=data)
    assert (echo.returncode, echo.stdout, echo.stderr) == (9, data, b"e\n")
    mlx5emu("exec", "dev", "--", "touch", "/var/kept", "/mnt/out/back")
    assert mlx5emu("exec", "dev", "--", "test", "-e", "/var/kept").returncode == 0
    assert (tmp_path / "out" / "back").exists()
    assert b"mlx5_core" in mlx5emu("dmesg", "dev").stdout
    assert b"dev" in mlx5emu("ps").stdout
    console = mlx5emu("exec", "-t", "dev", "--", "sh", "-c", "test -t 0 && tty && stty size")
    assert b"/dev/pts/" in console.stdout
    assert b"is already running" in mlx5emu("up", "dev").stderr
    assert mlx5emu("dump", "dev", str(memory[0])).returncode == 0
    panic = mlx5emu("exec", "dev", "--", "sh", "-c", "echo c > /proc/sysrq-trigger; sleep 60")
    assert panic.returncode == 125
    assert b"the guest panicked: sysrq triggered crash; its memory was saved in" in panic.stderr
    assert b"panicked" in mlx5emu("ps").stdout
    later = mlx5emu("exec", "dev", "--", "true")
    assert later.returncode == 125
    assert later.stderr.startswith(b"mlx5emu: dev: the guest panicked: sysrq triggered crash; its")
    assert later.stderr.count(b"\n") == 1
    log = mlx5emu("dmesg", "dev")
    assert (log.returncode, b"Kernel panic - not syncing: sysrq" in log.stdout) == (0, True)
    memory.append(tmp_path / "later")
    assert mlx5emu("dump", "dev", str(memory[2])).returncode == 0
    for path in memory:
        assert_memory_of_a_kernel(path)
    assert mlx5emu("down", "dev").stdout == b"dev is down\n"
    assert b"no guests" in mlx5emu("ps").stdout


@pytest.mark.parametrize(
    "how", ["reboot", pytest.param("echo b > /proc/sysrq-trigger", marks=pytest.mark.slow)]
)
def test_a_guest_that_reboots_comes_back(mlx5emu, how):
    """Whether it says so before or not, and more than once; then it powers off, and stays so."""
    assert mlx5emu("up", "dev", "--memory", "1024").returncode == 0
    for _ in range(2):
        assert mlx5emu("exec", "dev", "--", "touch", "/run/before").returncode == 0
        ended = mlx5emu("exec", "dev", "--", "sh", "-c", f"{how}; sleep 600")
        assert (ended.returncode, b"the guest was rebooted" in ended.stderr) == (125, True)
        assert b"mlx5_0" in mlx5emu("exec", "dev", "--", "ibv_devices").stdout
        assert mlx5emu("exec", "dev", "--", "test", "-e", "/run/before").returncode == 1
    assert b" up " in mlx5emu("ps").stdout
    ended = mlx5emu("exec", "dev", "--", "sh", "-c", "poweroff -f; sleep 600")
    assert (ended.returncode, b"the guest powered off" in ended.stderr) == (125, True)
    assert b" off " in mlx5emu("ps").stdout
    assert mlx5emu("down", "dev").returncode == 0


def test_files_users_and_boots(mlx5emu, tmp_path):
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "test").write_text("#!/bin/sh\necho $USER $A; pwd; touch made")
    (tmp_path / "tree" / "test").chmod(0o755)
    assert mlx5emu("up", "dev", "--memory", "1024").returncode == 0
    assert mlx5emu("cp", str(tmp_path / "tree"), "dev:").returncode == 0
    place = ["--cwd", "tree", "--env", "A=b"]
    ran = mlx5emu("exec", *place, "dev", "--", "./test")
    assert (ran.returncode, ran.stdout) == (0, b"root b\n/root/tree\n")
    assert mlx5emu("cp", "dev:tree", str(tmp_path / "back")).returncode == 0
    assert sorted(path.name for path in (tmp_path / "back").iterdir()) == ["made", "test"]
    ran = mlx5emu("exec", "--user", "nobody", "dev", "--", "sh", "-c", "echo $HOME; id -un")
    assert (ran.returncode, ran.stdout) == (0, b"/nonexistent\nnobody\n")
    assert b"nobody-here" in mlx5emu("exec", "--user", "nobody-here", "dev", "--", "true").stderr
    for words in (["reboot", "dev"], ["reboot", "--hard", "dev"]):
        assert mlx5emu("exec", "dev", "--", "touch", "/run/before", "/root/kept").returncode == 0
        rebooted = mlx5emu(*words)
        assert (rebooted.returncode, b"dev is up again after " in rebooted.stdout) == (0, True)
        # A saved boot, whose disk nobody has written to, could not be gone on from.
        assert mlx5emu("exec", "dev", "--", "test", "-e", "/root/kept").returncode == 0
        assert mlx5emu("exec", "dev", "--", "test", "-e", "/run/before").returncode == 1
        assert b"mlx5_0" in mlx5emu("exec", "dev", "--", "ibv_devices").stdout
    assert b"mlx5_core" in mlx5emu("dmesg", "dev").stdout
    assert mlx5emu("logs", "dev").returncode == 0
    assert b"loading the mlx5 driver" in mlx5emu("logs", "--of", "console", "dev").stdout
    assert mlx5emu("down", "dev").returncode == 0


def assert_memory_of_a_kernel(path):
    """What crash and drgn look for, and drgn itself where it is installed."""
    with path.open("rb") as file:
        head = file.read(1 << 20)
    assert head.startswith(b"KDUMP   ")
    assert b"VMCOREINFO" in head
    assert path.stat().st_size < 512 << 20
    try:
        import drgn
    except ImportError:
        return
    program = drgn.Program()
    program.set_core_dump(path)
    about = program["VMCOREINFO"].string_().decode()
    names = int(re.search(r"SYMBOL\(init_uts_ns\)=([0-9a-f]+)", about)[1], 16)
    assert b"Linux" in program.read(names, 16)  # by the kernel's page tables


def test_a_start_that_fails_says_why(mlx5emu):
    up = mlx5emu("up", "dev", "--device", "nosuch")
    assert up.returncode == 2
    assert b"nosuch" in up.stderr
    assert b"no guests" in mlx5emu("ps").stdout


@pytest.mark.slow
def test_a_debugger_a_time_line_and_ssh(mlx5emu, environ, tmp_path):
    """gdb stops the guest where the driver takes its function; then OpenSSH comes in."""
    missing = [name for name in ("gdb", "ssh", "scp") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    trace = tmp_path / "trace.json"
    up = mlx5emu(
        "up", "dev", "--package", "openssh-server", "--gdb", "load", "--trace", str(trace)
    )  # fmt: skip
    assert up.returncode == 0, up.stderr
    commands = up.stderr.decode().split()[-1]
    asked = ("hbreak probe_one", "continue", "backtrace 1", "delete", "detach")
    words = ["gdb", "-batch", "-x", commands, *(word for one in asked for word in ("-ex", one))]
    said = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    assert "#0 " in said.stdout, said.stderr
    assert "in probe_one ()" in said.stdout
    wait = "until ibv_devinfo | grep -q PORT_ACTIVE; do sleep 0.1; done"
    assert mlx5emu("exec", "--timeout", "300", "dev", "--", "sh", "-c", wait).returncode == 0
    line = mlx5emu("dmesg", "dev", "--trace", str(trace)).stdout.decode()
    assert line.index("EXT4-fs (vda): mounted") < line.index("f0 mmio  read  fw_rev")
    assert line.index("firmware version") < line.index("ENABLE_HCA")
    config, data = tmp_path / "config", os.urandom(300_000)
    echo = mlx5emu("ssh", "dev", "cat; exit 7", input=data)
    assert (echo.returncode, echo.stdout) == (7, data)
    config.write_bytes(mlx5emu("ssh", "--config").stdout)
    (tmp_path / "data").write_bytes(data)
    copy = ["scp", "-F", config, tmp_path / "data", "dev.mlx5emu:"]
    subprocess.run(copy, env=environ, check=True, timeout=300)
    assert mlx5emu("exec", "dev", "--", "cat", "data").stdout == data
    assert b"/dev/pts/" in mlx5emu("ssh", "dev", "-tt", "tty", input=b"").stdout


def test_a_guest_s_name_means_its_functions(mlx5emu):
    """Of two guests of a lab, a link and a rule of one leave the other as it is."""
    assert mlx5emu("lab", "up", str(EXAMPLES / "roce.toml")).returncode == 0

    def said(*words):
        done = mlx5emu(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.decode()

    told = {name: json.loads(said("status", "--json", name)) for name in ("roce", "roce/h1", "h2")}
    owners = {
        name: [(one["guest"], one["function"]) for one in status["functions"]]
        for name, status in told.items()
    }
    assert owners == {"roce": [("h1", 0), ("h2", 1)], "roce/h1": [("h1", 0)], "h2": [("h2", 1)]}
    assert "h1 0 " in said("status", "roce")

    said("exec", "h1", "--", "ping", "-c", "1", "-W", "30", "10.0.0.2")
    said("net", "set", "roce/h2", "direction=tx", "loss=100")
    (link,) = json.loads(said("net", "show", "--json", "roce"))
    assert (link["guest"], link["function"]) == ("h2", 1)
    assert mlx5emu("exec", "h1", "--", "ping", "-c", "1", "-W", "1", "10.0.0.2").returncode == 1
    said("net", "clear", "h2")
    said("exec", "h1", "--", "ping", "-c", "1", "-W", "30", "10.0.0.2")

    said("fault", "add", "h2", "point=cmd", "action=fail", "match.op=CREATE_CQ", "name=no-cq")
    assert mlx5emu("exec", "h2", "--", "ibv_rc_pingpong", "-g", "0").returncode != 0
    (rule,) = json.loads(said("fault", "list", "--json", "roce"))
    assert [(one["guest"], one["fired"] > 0) for one in rule["counts"]] == [("h2", True)]
    made = "import pyverbs.device as d, pyverbs.cq as c; c.CQ(d.Context(name='mlx5_0'), 10)"
    said("exec", "h1", "--", "python3", "-c", made)


@pytest.mark.slow
def test_two_guests_of_a_topology_are_as_close_as_one(mlx5emu):
    """What the server's processor does for messages between them, and inside one guest.

    Not how long they take: two guests that poll and the server are three, and on a host with two
    processors, or a busy one, the server gets its share later.
    """
    up = mlx5emu("lab", "up", str(EXAMPLES / "pair.toml"))
    assert up.returncode == 0, up.stderr
    server = server_of(mlx5emu("ps").stdout)
    command = "ib_write_bw -F -d mlx5_0 -s 1048576 -n 10000"
    used = {to: busy_seconds(server, mlx5emu, to, command) for to in ("h1", "h2")}
    logger.info("%s: %s", command, used)
    assert used["h1"] <= 1.5 * used["h2"], used
    assert b"h2" in mlx5emu("lab", "status").stdout
    assert mlx5emu("lab", "down").returncode == 0


@pytest.mark.slow
def test_guests_at_two_leaves_of_a_subnet_and_a_second_manager(mlx5emu):
    """opensm in one guest; the other's stands by, and takes over when the first has gone."""
    up = mlx5emu("lab", "up", str(SUBNET))
    assert up.returncode == 0, up.stderr

    def inside(guest, script):
        done = mlx5emu("lab", "exec", guest, "--", "sh", "-c", script)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.decode()

    assert len(re.findall(r"^(?:Switch|Ca)\s", inside("h1", "ibnetdiscover"), re.M)) == 8
    inside("h2", "ping -c 1 -W 30 10.0.0.1")
    first, standby = (inside(one, "cat /sys/class/infiniband/mlx5_0/node_guid") for one in HOSTS)
    inside(
        "h2",
        "printf 'sminfo_polling_timeout 1000\npolling_retry_number 2\n' > /tmp/conf;"
        "(exec opensm -F /tmp/conf > /tmp/out 2>&1 < /dev/null) & timeout 60 sh -c "
        "'until grep STANDBY /tmp/out; do sleep 0.2; done'",
    )
    assert plain(first) in inside("h2", "sminfo")
    inside("h1", "pkill -x opensm")
    inside("h2", "timeout 60 sh -c 'until grep MASTER /tmp/out; do sleep 0.2; done'")
    inside("h2", "timeout 60 sh -c 'until sminfo; do sleep 1; done'")
    assert plain(standby) in inside("h2", "sminfo")
    assert "NodeRecord dump" in inside("h1", "saquery -N")


def plain(guid):
    """A GUID of sysfs as infiniband-diags print it."""
    return f"{int(guid.replace(':', ''), 16):x}"


def server_of(ps):
    """The process that serves the functions: the daemon's child of that name."""
    daemon = ps.decode().split()[-1]
    found = subprocess.run(["pgrep", "-P", daemon, "-f", "emu serve"], capture_output=True)
    return int(found.stdout)


def busy_seconds(server, mlx5emu, to, command):
    """The server's processor time for perftest between h2 and ``to``."""

    def spent():
        return int(Path(f"/proc/{server}/schedstat").read_text().split()[0]) / 1e9

    before = spent()
    figure(mlx5emu, to, command, 3)
    return spent() - before


def figure(mlx5emu, to, command, column):
    """What perftest's client in h2 measures against a server in ``to``."""
    server = f"nohup {command} > /tmp/server 2>&1 & until ss -tln | grep -q 18515; do :; done"
    mlx5emu("lab", "exec", to, "--", "sh", "-c", server)
    peer = "10.0.0.1" if to == "h1" else "127.0.0.1"
    result = mlx5emu("lab", "exec", "h2", "--", "sh", "-c", f"{command} {peer}")
    assert result.returncode == 0, result.stderr
    lines = [line.split() for line in result.stdout.decode().splitlines()]
    return float(next(words for words in lines if words and words[0].isdigit())[column])
