"""ssh into a guest: names, the configuration, and the way of its bytes. No machine is needed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from helpers.guest.named_guests import FakeGuest

from emu.guests import LabError
from emu.guests.named import daemon, running, ssh
from emu.host.process_identity import module_command


@pytest.fixture(autouse=True)
def runtime(tmp_path_factory, monkeypatch):
    """Directories of the test's own: sockets want short names."""
    path = tmp_path_factory.mktemp("r")
    path.chmod(0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(path / "cache 100%"))
    return path


@pytest.fixture
def open_guest(tmp_path):
    """Opens the guest ``one`` with these programs before its PATH."""
    with FakeGuest(str(tmp_path)) as guest, running.NameClaim("one") as claim:

        def program(name, text):
            (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
            (tmp_path / name).chmod(0o755)

        with daemon.open_exec_servers(claim, {}, {"one": guest, "two.x": guest}):
            yield program


def mlx5emu(*words, **options):
    command = [*module_command("emu"), "ssh", *words]
    return subprocess.run(command, capture_output=True, check=False, timeout=60, **options)


needs_ssh = pytest.mark.skipif(
    None in (shutil.which("ssh"), shutil.which("ssh-keygen")), reason="openssh-client is absent"
)


@pytest.mark.parametrize("name", ["one", "one/one", "one/two.x"])
def test_a_host_stands_for_a_guest(open_guest, name):
    assert ssh.name_of(ssh.host_of(name)) == name


@pytest.mark.parametrize("host", ["nosuch.mlx5emu", "one.nosuch.mlx5emu", ".one.mlx5emu", ""])
def test_a_host_that_is_none(open_guest, host):
    with pytest.raises(LabError, match=r"no guest or lab named .* running: one"):
        ssh.name_of(host)


@needs_ssh
def test_ssh_reads_the_configuration(open_guest):
    words = ["ssh", "-G", "-F", ssh.config_file(), "one.mlx5emu"]
    lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    said = dict(line.split(" ", 1) for line in lines)
    assert (said["user"], said["identitiesonly"], said["forwardagent"]) == ("root", "yes", "no")
    key = Path(said["identityfile"].replace("%%", "%"))
    assert key.is_file()
    assert key.stat().st_mode & 0o077 == 0
    assert said["proxycommand"].endswith(" -m emu ssh --proxy '%n'")  # no words for the shell


@needs_ssh
def test_one_key_is_made_for_all(open_guest):
    words = ssh.server_words()
    assert words[4].startswith("ssh-ed25519 ")
    assert words == ssh.server_words()


@needs_ssh
def test_the_bytes_go_through_the_guests_command(open_guest):
    """What ssh gives its ProxyCommand reaches the guest's shell, whose output and status return."""
    open_guest("sh", 'case "$3 $4" in "sh ssh-ed25519 "*) cat; exit 5 ;; esac')
    done = mlx5emu("--proxy", "one.one.mlx5emu", input=b"SSH-2.0-x\r\n")
    assert (done.returncode, done.stdout) == (5, b"SSH-2.0-x\r\n")


@needs_ssh
def test_a_guest_without_sshd_says_how_to_get_it(open_guest):
    open_guest("sh", "exit 127")
    done = mlx5emu("one/one")
    assert done.returncode == 1
    assert (
        b"one/one: the guest has no sshd: start it with --package openssh-server (in a lab file, "
        in done.stderr
    )


def test_ssh_gets_its_own_options(open_guest, tmp_path):
    open_guest("sh", "exit 0")
    open_guest("ssh", 'shift 2; echo "$@"')
    open_guest("ssh-keygen", 'for file; do :; done; touch "$file" "$file.pub"')
    environ = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = mlx5emu("one/two.x", "-L", "80:localhost:80", "ls", "-l", env=environ)
    assert (done.returncode, done.stdout) == (0, b"two.x.one.mlx5emu -L 80:localhost:80 ls -l\n")


@pytest.mark.parametrize("missing", ["ssh-keygen", "ssh"])
def test_what_the_host_lacks_is_told(open_guest, tmp_path, missing):
    open_guest("sh", "exit 0")
    open_guest("ssh-keygen", 'for file; do :; done; > "$file"; > "$file.pub"')
    (tmp_path / missing).unlink(missing_ok=True)
    done = mlx5emu("one/one", env=os.environ | {"PATH": str(tmp_path)})
    assert done.returncode == 1
    said = done.stderr.decode()
    assert said == f"mlx5emu: {missing} is not installed: apt-get install openssh-client\n"


def test_a_key_that_is_not_made(open_guest, tmp_path, runtime):
    open_guest("ssh-keygen", "echo no room >&2; exit 1")
    environ = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = mlx5emu("--config", env=environ)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr == b"mlx5emu: ssh-keygen made no key: no room\n"


@pytest.mark.parametrize("words", [[], ["--config", "one"], ["--config", "--proxy", "x"]])
def test_one_thing_at_a_time(words):
    assert b"give the name of a guest, or --config" in mlx5emu(*words).stderr
