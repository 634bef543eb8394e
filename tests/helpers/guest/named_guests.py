"""A guest without a machine: the program of a guest's inside as a child process."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

from emu.guests.channel.channel import GuestChannel

INSIDE = """
import os, sys
from emu.guests.inside.runner import Runner

port = int(sys.argv[1])
os.set_inheritable(port, False)  # as the guest opens it: no command keeps it
if len(sys.argv) > 2:
    os.environ["PATH"] = sys.argv[2] + ":" + os.environ["PATH"]
Runner(port, os.devnull).run()
"""


class FakeGuest:
    """A guest as an exec server needs it; its commands are found in ``path`` first."""

    def __init__(self, path=None):
        self.path = path
        self.state = "up"
        self.directory = "/nowhere"
        self.control_socket = Path("/nowhere/control")
        self.console = "its console\n"
        self.log_files = {"console": Path("/nowhere/console.log")}
        self.server_failure = None
        self.boots = []

    def __enter__(self):
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-c", INSIDE, str(theirs.fileno())]
            command += [self.path] if self.path is not None else []
            self.process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        self.channel = GuestChannel(ours, 30.0)
        self.kernel_release = self.channel.wait_ready(30.0)
        return self

    def __exit__(self, *_):
        self.channel.close()
        self.process.kill()
        self.process.wait()

    def popen(self, command, *, has_input=False, environ=None, sink=None):
        if self.directory is not None:
            command = ["env", f"--chdir={self.directory}", *command]
        return self.channel.start("it", command, environ or {}, has_input=has_input, sink=sink)

    def wait(self, job, timeout=None):
        return job.wait(timeout)

    def await_boot(self):
        pass

    def reboot(self, *, hard=False):
        self.boots.append("hard" if hard else "soft")

    def dump(self, path):
        path.write_bytes(b"memory")

    def mark_clock(self):
        self.channel.mark_clock()
