"""The guest lab itself, without any emulated function."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import socket
import stat
import struct
import subprocess
import termios
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from emu.guests import CommandTimeoutError, GuestHungError, GuestPanicError, GuestStoppedError
from emu.guests.archive.names import DEFAULT_SUITE
from emu.guests.channel import frames
from emu.guests.image import image
from emu.host.process_identity import module_command

pytestmark = pytest.mark.guest
# What no kernel can change is tested on one suite.
any_suite = pytest.mark.suite(DEFAULT_SUITE)

KERNELS = {"bookworm": "6.1.", "trixie": "6.12.", "sid": "7."}


def mlx5emu(*words, **options):
    command = [*module_command("emu"), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def test_a_command_runs_as_root_on_the_suites_kernel(bare_guest, suite):
    result = bare_guest.run("id -u; uname -r")
    uid, release = result.stdout.split()
    assert (result.status, uid, result.stderr) == (0, "0", "")
    assert release.startswith(KERNELS[suite])
    assert release == bare_guest.kernel_release


def test_file_systems_of_the_kernel_are_where_its_tools_look(bare_guest):
    """All that Debian's kernels have; with an entry of the kernel's own in them."""
    places = {
        "configfs": "/sys/kernel/config", "debugfs": "/sys/kernel/debug",
        "tracefs": "/sys/kernel/tracing", "bpf": "/sys/fs/bpf",
    }  # fmt: skip
    mounts = bare_guest.run("cat /proc/mounts").check().stdout.splitlines()
    assert places.items() <= {(line.split()[2], line.split()[1]) for line in mounts}
    bare_guest.run("test -e /sys/kernel/tracing/trace; test -e /sys/kernel/debug/bdi").check()
    bare_guest.run("modprobe target_core_mod && test -d /sys/kernel/config/target").check()


@pytest.mark.parametrize(
    ("command", "status"),
    [("exit 3", 3), ("kill -9 $$", 137), (["no-such-program"], 127), (["/etc/passwd"], 126)],
)
def test_a_commands_status_is_what_a_shell_gives(bare_guest, command, status):
    assert bare_guest.run(command).status == status


def test_output_and_errors_stay_apart(bare_guest):
    result = bare_guest.run("echo out; echo err >&2; echo again >/dev/stderr")
    assert (result.stdout, result.stderr) == ("out\n", "err\nagain\n")
    assert "out\n" not in bare_guest.console


@any_suite
def test_words_are_taken_as_they_are(bare_guest):
    words = ["printf", "<%s>", "two words", "$HOME", "", "ü"]
    assert bare_guest.run(words).stdout == "<two words><$HOME><><ü>"


def test_much_output_on_both_streams_does_not_block(bare_guest):
    size = 20_000_000
    result = bare_guest.run(f"head -c {size} /dev/zero & head -c {size} /dev/zero >&2; wait")
    assert (len(result.stdout), len(result.stderr)) == (size, size)


def test_standard_input_is_closed_unless_given(bare_guest):
    assert bare_guest.run(["cat"]).stdout == ""
    data = bytes(range(128)) * 40_000
    assert bare_guest.run(["wc", "-c"], stdin=data).stdout.strip() == str(len(data))
    assert bare_guest.run(["true"], stdin=data).status == 0


@any_suite
def test_a_daemon_does_not_hold_up_its_command(bare_guest):
    started = time.monotonic()
    assert bare_guest.run("sleep 60 & echo $!").stdout.strip().isdigit()
    assert time.monotonic() - started < 30


@any_suite
def test_commands_run_side_by_side(bare_guest):
    reader = bare_guest.popen("mkfifo /tmp/pipe; cat /tmp/pipe")
    bare_guest.run("until [ -p /tmp/pipe ]; do :; done; echo hello > /tmp/pipe", timeout=60)
    assert bare_guest.wait(reader, timeout=60) == 0
    assert reader.stdout == b"hello\n"


def test_a_command_that_takes_too_long_is_killed(bare_guest):
    with pytest.raises(CommandTimeoutError) as caught:
        bare_guest.run("echo begun; sleep 1000", timeout=10)
    assert caught.value.stdout == b"begun\n"
    bare_guest.run("while pgrep -x -f 'sleep 1000'; do :; done", timeout=60).check()


@any_suite
def test_output_comes_while_the_command_runs(bare_guest):
    """The command ends only because its output has arrived: that makes the test kill it."""
    seen = []
    job = bare_guest.popen(
        "echo ready; exec sleep 1000",
        sink=lambda kind, data: (seen.append((kind, data)), job.kill(signal.SIGTERM)),
    )
    assert bare_guest.wait(job, timeout=60) == 128 + signal.SIGTERM
    assert seen == [(frames.STDOUT, b"ready\n")]


def test_what_a_guest_needs_is_there(bare_guest):
    tools = (
        "ibv_devinfo ib_write_bw ibstat rping devlink rdma ethtool lspci nvme fio iperf3 exportfs"
    )
    bare_guest.run(f"for tool in {tools}; do command -v $tool || exit 1; done").check()
    bare_guest.run("python3 -c 'import pyverbs.device'").check()
    bare_guest.run("cd /usr/share/rdma-core-tests && ! ls *.gz && ls test_qp.py").check()
    assert "LOWER_UP" in bare_guest.run("ip link show lo").check().stdout


def test_a_package_more(boot, suite):
    """It works, its image is the base's otherwise: bits beyond rwx, capabilities, the kernel."""
    guest, plain = boot(packages=("sudo",)), boot()
    assert "su\n" in guest.run("su nobody -s /bin/sh -c 'command -v su'").check().stdout
    assert guest.run("sudo -n id -u").check().stdout == "0\n"
    assert plain.run("command -v sudo").status == 127
    for command in (
        "find / -xdev ! -type l -perm /7000 ! -path '*sudo*' -printf '%m %p\\n' | sort",
        "! command -v getcap > /dev/null || getcap -r /usr",
        "uname -r; ls -l /usr/sbin/start-stop-daemon*; dpkg --audit",
    ):
        said = [one.run(command).check().stdout for one in (guest, plain)]
        assert said[0] == said[1]
    assert "1777 /tmp" in plain.run("stat -c '%a %n' /tmp").stdout


@any_suite
def test_a_package_that_no_archive_has(lab, suite):
    result = mlx5emu("run", "--suite", suite, "--package", "no-such.package", "--", "true")
    assert result.returncode == 1
    assert "Unable to locate package no-such.package" in result.stderr
    assert not [one for one in image.cached() if "no-such.package" in one.packages]


@pytest.mark.slow
@any_suite
def test_the_disk_forgets(boot):
    for _ in range(2):
        guest = boot()
        guest.run("! [ -e /root/mark ] && dd if=/dev/zero of=/root/mark bs=1M count=8").check()
        guest.stop()


def test_a_shared_directory_is_read_only(boot, tmp_path):
    (tmp_path / "name, with comma").write_text("content")
    guest = boot(share=tmp_path, hugepages=64)
    assert guest.run(["cat", "/mnt/share/name, with comma"]).check().stdout == "content"
    assert "Read-only" in guest.run("touch /mnt/share/new").stderr
    assert guest.run("cat /proc/sys/vm/nr_hugepages").stdout.strip() == "64"


def test_files_come_back_and_the_share_may_be_written(boot, tmp_path):
    share, out = tmp_path / "share", tmp_path / "out"
    share.mkdir()
    out.mkdir()
    guest = boot(share=share, share_writable=True, out=out)
    guest.run(
        "head -c 3000000 /dev/urandom > /mnt/out/random; cp /mnt/out/random /mnt/share"
    ).check()
    harm = "cp /bin/true su; chmod 4755 su; mknod dev b 8 0; ln -s /etc/passwd link; mkfifo pipe"
    seen = guest.run(f"cd /mnt/share; {harm}; stat *").stdout
    assert "4755" in seen or os.geteuid() != 0
    guest.stop()
    for path in share.iterdir():
        mode = path.lstat().st_mode
        assert not mode & stat.S_ISUID or os.geteuid() != 0
        assert not stat.S_ISBLK(mode)
        assert stat.S_ISREG(mode) or os.geteuid() != 0
    written = (out / "random").read_bytes()
    assert len(written) == 3_000_000
    assert (share / "random").read_bytes() == written


@any_suite
def test_the_hosts_network(boot):
    with socket.create_server(("127.0.0.1", 0)) as server:
        guest = boot(network=True)
        server.settimeout(60)
        job = guest.popen(f"echo hello | busybox nc 10.0.2.2 {server.getsockname()[1]}")
        connection, _ = server.accept()
        with connection:
            assert connection.recv(16) == b"hello\n"
        assert guest.wait(job, 60) == 0
        assert "net0" in guest.run("ip -brief address show").stdout


@pytest.mark.slow
def test_reboots_keep_the_same_qemu(boot):
    guest = boot()
    boots = {guest.run("cat /proc/sys/kernel/random/boot_id").check().stdout}
    for hard in (False, True):
        guest.reboot(hard=hard)
        boots.add(guest.run("cat /proc/sys/kernel/random/boot_id").check().stdout)
    assert len(boots) == 3


def test_a_panic_ends_the_command(boot):
    guest = boot()
    with pytest.raises(GuestPanicError, match="sysrq triggered crash") as caught:
        guest.run("echo c > /proc/sysrq-trigger")
    assert "sysrq_handle_crash" in caught.value.console
    assert not guest.is_running


@any_suite
def test_powering_off_ends_the_command(boot):
    with pytest.raises(GuestStoppedError, match="powered off"):
        boot().run("poweroff; sleep 1000")


@pytest.mark.slow
@any_suite
def test_a_guest_without_a_sign_of_life_is_given_up(boot):
    """Stopped processors; the channel asks after five seconds of silence."""
    guest = boot(hang_timeout=20.0)
    guest.control("stop")
    with pytest.raises(GuestHungError):
        guest.run("true")


@any_suite
def test_a_boot_that_does_not_end_is_given_up(boot):
    with pytest.raises(GuestHungError, match="not up"):
        boot(kernel_arguments=("rdinit=/bin/busybox",), boot_timeout=0.5)


@any_suite
def test_two_guests_at_once(boot):
    with ThreadPoolExecutor(2) as pool:
        guests = list(pool.map(lambda _: boot(), range(2)))
    for number, guest in enumerate(guests):
        guest.run(f"echo {number} > /root/number").check()
    assert [guest.run("cat /root/number").stdout for guest in guests] == ["0\n", "1\n"]


def test_a_kernel_of_ones_own_with_its_modules(boot, suite, tmp_path):
    """The suite's own kernel and those of its modules that reach the root disk."""
    built = image.ensure(suite)
    tree = tmp_path / "lib" / "modules" / built.release
    tree.mkdir(parents=True)
    needs = []
    for name, data in built.boot_modules():
        (tree / name).write_bytes(data)
        needs.append(f"{name}: {' '.join(line.partition(':')[0] for line in needs[::-1])}")
    (tree / "modules.builtin").write_text((built.path / "modules.builtin").read_text())
    (tree / "modules.dep").write_text("\n".join(needs))
    guest = boot(kernel=built.path / "vmlinuz", modules=tmp_path)
    mounted = f"/usr/lib/modules/{built.release}"
    assert "modules.dep" in guest.run(["ls", mounted]).check().stdout
    assert guest.kernel_release == built.release


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["sh", "-c", "echo out; echo err >&2; exit 9"], 9, "err\n"),
        (["sh", "-c", "echo c > /proc/sysrq-trigger"], 125, "the guest panicked"),
    ],
)
@any_suite
def test_the_command_line_passes_output_and_status_on(lab, suite, words, status, said):
    result = mlx5emu("run", "--suite", suite, "--no-device", "--", *words)
    assert result.returncode == status
    assert said in result.stderr
    assert result.stdout == ("out\n" if status == 9 else "")


@any_suite
def test_a_program_of_the_working_directory(lab, suite, tmp_path, monkeypatch):
    """As a user types it: ./reproducer; with another directory shared; from elsewhere."""
    program = tmp_path / "reproducer"
    program.write_text("#!/bin/sh\npwd; touch made || echo read-only; mountpoint $PWD")
    program.chmod(0o755)
    words = ("run", "--suite", suite, "--no-device")
    monkeypatch.chdir(tmp_path)
    said = mlx5emu(*words, "--", "./reproducer").stdout
    assert said == "/mnt/share\nread-only\n/mnt/share is a mountpoint\n"
    monkeypatch.chdir("/")
    shared = (*words, "--share", f"{tmp_path}:rw")
    assert "/mnt/share\n/mnt/share" in mlx5emu(*shared, "--", "./reproducer").stdout
    assert (tmp_path / "made").exists()
    assert mlx5emu(*shared, "--cwd", "/usr/bin", "--", "pwd").stdout == "/usr/bin\n"
    missed = mlx5emu(*words, "--no-share", "--", str(program))
    assert missed.returncode == 127
    assert f"share its directory: --share {tmp_path}" in missed.stderr
    missed = mlx5emu(*shared, "--", str(program))
    assert "the guest sees it as /mnt/share/reproducer" in missed.stderr


@any_suite
def test_faults_that_begin_once_the_driver_is_up(lab, suite, tmp_path):
    """A plan without an expectation: its first event comes after the driver's own commands."""
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'when = "loaded"\n[[rule]]\npoint = "cmd"\naction = "fail"\nmatch.op = "CREATE_CQ"\n'
    )
    words = ("run", "--suite", suite, "--faults", str(plan), "--faults-when")
    loaded = mlx5emu(*words[:-1], "--", "sh", "-c", "ibv_devinfo; ibv_rc_pingpong")
    assert "faults begin once the driver is up" in loaded.stderr
    assert "PORT_ACTIVE" in loaded.stdout
    assert "faults that have fired: rule-1" in loaded.stderr
    assert "has not fired" not in loaded.stderr
    idle = mlx5emu(*words[:-1], "--", "true")
    assert "rule-1 has not fired: it matched no event" in idle.stderr
    loading = mlx5emu(*words, "loading", "--", "ibv_devinfo")
    assert "faults begin with the boot" in loading.stderr
    assert "faults that have fired: rule-1" in loading.stderr
    assert "Couldn't create ib_mad CQ" in loading.stderr


@any_suite
def test_the_command_line_ends_what_takes_too_long(lab, suite):
    result = mlx5emu("run", "--suite", suite, "--no-device", "--timeout", "1", "sleep", "100")
    assert result.returncode == 124
    said = "mlx5emu: the command timed out: sleep 100 was still running after 1 s\n"
    assert result.stderr.endswith(said)


@any_suite
def test_a_shell_on_the_console(lab, suite):
    """A terminal of 33 lines: its size reaches the guest, the interrupt key too, exit ends it."""
    master, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 33, 101, 0, 0))
    command = [*module_command("emu"), "boot", "--suite", suite, "--no-device"]
    shell = subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal)
    os.close(terminal)
    seen = bytearray()

    def expect(text):
        while text not in seen:
            assert select.select([master], [], [], 120)[0], f"no {text!r} in {seen!r}"
            seen.extend(os.read(master, 4096))
        del seen[: seen.index(text) + len(text)]

    try:
        expect(b"guest:~# ")
        os.write(master, b"sh -c 'stty size; exec sleep 1000'\n")
        expect(b"33 101\r")
        os.write(master, b"\x03")
        expect(b"guest:~# ")
        os.write(master, b"echo $((6*7)); exit\n")
        expect(b"42\r")
        assert shell.wait(60) == 0
    finally:
        shell.kill()
        shell.wait()
        os.close(master)


@any_suite
def test_the_command_line_hands_over_its_input(lab, suite):
    words = ["run", "--suite", suite, "--no-device", "--stdin", "--", "cat"]
    assert mlx5emu(*words, input="hello").stdout == "hello"


def test_a_disk_of_the_users(boot, tmp_path):
    """In front of the guest's own; what is written to it stays."""
    path = tmp_path / "disk"
    path.write_bytes(bytes(1 << 20))
    guest = boot(devices=(), qemu_arguments=("-drive", f"file={path},format=raw,if=virtio"))
    (name,) = guest.run("lsblk -bno NAME,SIZE | grep -w 1048576").check().stdout.split()[:1]
    guest.run(f"echo it stays | dd of=/dev/{name} conv=fsync").check()
    assert path.read_bytes().startswith(b"it stays\n")


def test_an_argument_that_qemu_refuses(boot):
    with pytest.raises(
        GuestStoppedError, match=r"QEMU ended with status 1: .*nonsense: invalid option"
    ):
        boot(devices=(), qemu_arguments=("-nonsense",))
