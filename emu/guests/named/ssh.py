"""Lets OpenSSH reach a running guest: an sshd for each connection, over the guest's channel.

No network is needed: ssh's ProxyCommand has the guest run ``sshd -i``. The connection uses the
socket of :mod:`emu.guests.named.exec_server`, which belongs to this user alone, so the guest's host
key need not be checked. The guest authenticates the user by a key made once for this purpose.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

from emu.guests import cache
from emu.guests.errors import LabError
from emu.guests.named import running
from emu.guests.named.attach import attached

SUFFIX = ".mlx5emu"
"""Suffix of hosts' names: ``GUEST.mlx5emu``, in a lab ``GUEST.LAB.mlx5emu``."""
_KEY = "id_ed25519"
_CONFIG = "config"
_CHECK_TIMEOUT = 60.0
MISSING = (
    "the guest has no sshd: start it with --package openssh-server"
    ' (in a lab file, packages = ["openssh-server"])'
)
_SCRIPT = r"""
sshd=$(command -v sshd) || { echo "mlx5emu: $2" >&2; exit 127; }
umask 022
mkdir -p /run/sshd
key=/etc/ssh/ssh_host_ed25519_key
[ -e $key ] || ssh-keygen -q -t ed25519 -N '' -f $key < /dev/null
keys=/run/mlx5emu/authorized_keys
echo "$1" > $keys.$$ && mv $keys.$$ $keys
exec "$sshd" -i -e -f /dev/null -o HostKey=$key -o AuthorizedKeysFile=$keys -o StrictModes=no \
    -o PasswordAuthentication=no -o KbdInteractiveAuthentication=no -o LogLevel=ERROR \
    -o 'Subsystem=sftp internal-sftp' -o 'AcceptEnv=LANG LC_*'
"""


def host_of(name: str) -> str:
    """Return the ssh host name of the guest ``NAME`` or ``LAB/GUEST``."""
    lab, _, guest = name.partition("/")
    return f"{guest}.{lab}{SUFFIX}" if guest else f"{lab}{SUFFIX}"


def name_of(host: str) -> str:
    """Return ``NAME`` or ``LAB/GUEST`` of an ssh host name; guests' names may have dots.

    A running ``NAME`` is returned as it is, and GUEST.LAB of a running lab as ``LAB/GUEST`` without
    a check of the guest. A guest that only one lab has becomes ``LAB/GUEST``. Raises LabError for
    other names, which are unknown or ambiguous.
    """
    name = host.removesuffix(SUFFIX)
    for entry in running.entries():
        if entry.name == name:
            return name
        guest, dot, rest = name.partition(f".{entry.name}")
        if guest and dot and not rest:
            return f"{entry.name}/{guest}"
    entry, guest = running.resolve(name)
    return f"{entry.name}/{guest}" if guest else entry.name


def check(name: str) -> None:
    """Raise :class:`LabError` unless the running guest ``NAME`` or ``LAB/GUEST`` has an sshd."""
    with attached(name) as channel:
        words = ["sh", "-c", "command -v sshd"]
        if channel.start("sshd", words, {}).wait(_CHECK_TIMEOUT) != 0:
            raise LabError(f"{name}: {MISSING}")


def server_words() -> list[str]:
    """Return the command in a guest that serves SSH on its pipes. Raises :class:`LabError`."""
    public = _key().with_suffix(".pub").read_text().strip()
    return ["sh", "-c", _SCRIPT, "sh", public, MISSING]


def config() -> str:
    """Return the settings for ``*.mlx5emu`` hosts, as in ~/.ssh/config; make the key when absent.

    Raises :class:`LabError` when the key cannot be made.
    """
    proxy = shlex.join([sys.executable, "-P", "-m", "emu", "ssh", "--proxy"])
    lines = (
        "User root",
        f"ProxyCommand {proxy.replace('%', '%%')} '%n'",
        f'IdentityFile "{str(_key()).replace("%", "%%")}"',
        "IdentitiesOnly yes",
        "StrictHostKeyChecking no",
        "UserKnownHostsFile /dev/null",
        "ForwardAgent no",
        "ForwardX11 no",
        "LogLevel ERROR",
    )
    return "\n    ".join([f"Host *{SUFFIX}", *lines]) + "\n"


def config_file() -> Path:
    """Write a file with :func:`config`, and return its path. Raises :class:`LabError`."""
    path = cache.subdir("ssh") / _CONFIG
    cache.save_text(path, config())
    return path


def _key() -> Path:
    """Return the path of our own private key; make it by ssh-keygen when absent.

    Raises LabError without ssh-keygen, or when it fails.
    """
    path = cache.subdir("ssh") / _KEY
    with cache.lock("ssh"):
        if path.exists() and path.with_suffix(".pub").exists():
            return path
        path.unlink(missing_ok=True)
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "mlx5emu", "-f", str(path)]
        try:
            subprocess.run(words, check=True, stdin=subprocess.DEVNULL, capture_output=True)
        except FileNotFoundError:
            raise LabError("ssh-keygen is not installed: apt-get install openssh-client") from None
        except subprocess.CalledProcessError as error:
            said = error.stderr.decode(errors="replace").strip()
            raise LabError(f"ssh-keygen made no key: {said}") from None
    return path
