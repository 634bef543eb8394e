"""Recipes for the tools that people have: what stands in examples/tools is what they need."""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from helpers.files.recipes import ROOT, TOOLS, Dockerfile, action_steps, commands_of, pack

from emu.cli.main import main
from emu.guests.machine import qemu
from emu.guests.machine.qmp import Qmp
from emu.host.process_identity import module_command
from emu.server.control import Client

UNIT = TOOLS / "mlx5emu@.service"


def serve(*words):
    """A server that is ready."""
    process = subprocess.Popen(
        [*module_command("emu"), "serve", *words], stdout=subprocess.PIPE, text=True
    )
    while (line := process.stdout.readline()) and line.strip() != "ready":
        pass
    return process


def end(process):
    process.send_signal(signal.SIGTERM)
    process.stdout.read()
    process.stdout.close()
    return process.wait(30)


def test_the_units_command_serves(tmp_path):
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str
    unit.read(UNIT)
    service = unit["Service"]
    assert service["RuntimeDirectory"] == "mlx5emu-%i"
    (tmp_path / "mlx5emu-connectx6").mkdir()
    line = service["ExecStart"].replace("%i", "connectx6").replace("%t", str(tmp_path))
    program, command, *words = line.split()
    assert (program, command) == ("%h/mlx5emu/.venv/bin/mlx5emu", "serve")
    process = serve(*words)
    try:
        with Client(tmp_path / "mlx5emu-connectx6" / "control") as control:
            assert control.status()["functions"][0]["model"] == "connectx6"
        assert (tmp_path / "mlx5emu-connectx6" / "function").is_socket()
    finally:
        status = end(process)
    assert status == 0


def test_systemd_takes_the_unit(tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    text = UNIT.read_text().replace("%h/mlx5emu/.venv/bin/mlx5emu", "/bin/true")
    copy = tmp_path / "mlx5emu@connectx6.service"
    copy.write_text(text)
    environ = os.environ | {"XDG_RUNTIME_DIR": str(tmp_path)}
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", copy],
        capture_output=True, text=True, check=False, env=environ,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert copy.name not in done.stderr


def realized(program, words, tmp_path, devices=("mlx5",), properties=("type", "realized")):
    """What QEMU makes of the words' device ``mlx5``, whose socket is ``function``.

    Of several ``devices`` it is the properties of all, whose sockets have their names.
    """
    names = ("function",) if devices == ("mlx5",) else devices
    sockets = [word for name in names for word in ("--socket", str(tmp_path / name))]
    server = serve(*["--device", "connectx6dx"] * len(names), *sockets)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "qmp"))
        listener.listen()
        listener.settimeout(60)
        command = [
            *program.command, "-S", "-nodefaults", "-no-user-config", "-display", "none",
            "-machine", "q35", "-accel", "tcg", "-qmp", f"unix:{tmp_path}/qmp,server=off", *words,
        ]  # fmt: skip
        process = subprocess.Popen(command)
        try:
            control = Qmp(listener.accept()[0])
            found = [
                control.execute("qom-get", path=f"/machine/peripheral/{device}", property=name)
                for device in devices
                for name in properties
            ]
            control.close()
        finally:
            process.kill()
            process.wait()
            end(server)
    return found


def test_qemu_takes_what_libvirt_gives_it(program, tmp_path):
    root = ElementTree.parse(TOOLS / "libvirt.xml").getroot()
    backing = root.find("memoryBacking")
    assert backing.find("source").get("type") == "memfd"
    assert backing.find("access").get("mode") == "shared"
    name = "{http://libvirt.org/schemas/domain/qemu/1.0}"
    values = [one.get("value") for one in root.iter(f"{name}arg")]
    path = str(tmp_path / "function")
    words = [one.replace("/run/mlx5emu/function", path) for one in values]
    assert path in json.loads(words[-1])["socket"]["path"]
    memory = ["-object", "memory-backend-memfd,id=ram,size=64M,share=on", "-m", "64M"]
    assert realized(
        program, [*memory, "-machine", "memory-backend=ram", *words], tmp_path
    ) == ["vfio-user-pci", True]  # fmt: skip


def test_qemu_takes_what_syzkaller_gives_it(program, tmp_path):
    """At the slots, 8 functions each, where its executor looks for a devlink instance and a VF."""
    vm = json.loads((TOOLS / "syzkaller.cfg").read_text())["vm"]
    # As syzkaller splits them, and with each machine's number.
    words = [one.replace("{{INDEX}}", "1") for one in vm["qemu_args"].split(" ")]
    assert f"size={vm['mem']}M" in words[words.index("-object") + 1]
    for name in ("-accel", "-cpu"):  # there may be no KVM
        del words[words.index(name) : words.index(name) + 2]
    words = [one.replace("/run/mlx5emu/1.", f"{tmp_path}/") for one in words]
    words = [*(one.replace("2048M", "64M") for one in words), "-m", "64M"]
    devices = ("devlink", "vf")
    found = realized(program, words, tmp_path, devices, ("addr", "realized"))
    assert found == [0x10 << 3, True, 0x11 << 3, True]


def test_syzkaller_s_machines_have_functions(tmp_path):
    """While its manager runs; it gets our QEMU by the PATH, and says how it ends."""
    manager = 'ls "$DIRECTORY"; printf "%s\n" "$@"; which qemu-system-x86_64; exit 7'
    ours = f'[ "$1" != qemu ] || exec echo {tmp_path}/bin/qemu-system-x86_64\n'
    programs = {"syz-manager": manager, "mlx5emu": f'{ours}exec {sys.executable} -m emu "$@"'}
    environ = with_programs(tmp_path / "bin", programs | {"qemu-system-x86_64": "exit 1"})
    environ["DIRECTORY"] = str(tmp_path / "sockets")
    config = TOOLS / "syzkaller.cfg"
    done = subprocess.run(
        ["sh", TOOLS / "syzkaller.sh", config, "-debug"],
        env=environ, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 7, done.stderr
    assert done.stdout.splitlines() == [
        *("0.devlink", "0.vf", "1.devlink", "1.vf", "-config", str(config), "-debug"),
        f"{tmp_path}/bin/qemu-system-x86_64",
    ]
    assert list((tmp_path / "sockets").iterdir()) == []


def with_programs(directory, scripts):
    """An environment in which these programs come first."""
    directory.mkdir()
    for name, text in scripts.items():
        (directory / name).write_text(f"#!/bin/sh\n{text}\n")
        (directory / name).chmod(0o755)
    return os.environ | {"PATH": f"{directory}:{os.environ['PATH']}"}


def virtme(directory, vng, *words):
    """The recipe with that ``vng``, and ``mlx5emu`` of this tree."""
    programs = {"vng": vng, "mlx5emu": f'exec {sys.executable} -m emu "$@"'}
    environ = with_programs(directory, programs) | {"MEMORY": "64M"}
    command = ["sh", str(TOOLS / "virtme-ng.sh"), "bzImage", *words]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)


def test_qemu_takes_what_virtme_ng_gives_it(program, tmp_path):
    done = virtme(tmp_path / "bin", 'printf "%s\\n" "$@"; exit 7', "--", "uname")
    lines = done.stdout.splitlines()
    assert (done.returncode, lines[:2], lines[-1]) == (7, ["--run", "bzImage"], "uname")
    assert lines[lines.index("--qemu") + 1] == str(qemu.program_path(program))
    options = [line.removeprefix("--qemu-opts=") for line in lines if "--qemu-opts" in line]
    words = ["-m", lines[lines.index("--memory") + 1], *shlex.split(" ".join(options))]
    path = json.loads(words[-1])["socket"]["path"]
    assert not Path(path).exists()  # the server has ended with vng
    words[-1] = words[-1].replace(path, str(tmp_path / "function"))
    assert realized(program, words, tmp_path) == ["vfio-user-pci", True]


def test_a_server_that_does_not_start_ends_the_recipe(tmp_path, monkeypatch):
    monkeypatch.setenv("DEVICE", "nosuch")
    done = virtme(tmp_path / "bin", "echo it ran")
    assert done.returncode != 0
    assert "nosuch" in done.stderr
    assert done.stdout == ""


def own_options(command, words):
    options = {name for one in command.params for name in one.opts}
    given = words[2 : words.index("--") if "--" in words else None]
    return {word.partition("=")[0] for word in given if word.startswith("--")} - options


def test_jobs_say_what_there_is():
    """They are run by machines with a network; our commands have to exist, with options."""
    jobs = commands_of("github-workflow.yml", "gitlab-ci.yml")
    assert [words[1] for words in jobs] == ["rdma-tests", "doctor", "run", "rdma-tests"]
    for words in jobs:
        assert not own_options(main.get_command(None, words[1]), words)


RUN = {
    "COMMAND": "./my test.sh",
    "SUITE": "sid",
    "DEVICES": "connectx6 connectx6dx,bf=1",
    "CHAOS": "",
    "OPTIONS": "--kernel-arg 'a b' --network",
    "FAIL_ON": "warning",
    "CHECK_LEAKS": "true",
    "RESULTS": "results",
}


def run_action(tmp_path, **inputs):
    """The last step of the action, with a program that shows its words in place of ours."""
    script = action_steps()[-1]["run"]
    (tmp_path / "mlx5emu").write_text('#!/bin/sh\nprintf "%s\\n" "$@"; exit 122')
    (tmp_path / "mlx5emu").chmod(0o755)
    environ = {**os.environ, **RUN, **inputs, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        env=environ, capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 122
    return ["mlx5emu", *done.stdout.splitlines()]


def test_the_action_runs_the_command(tmp_path):
    words = run_action(tmp_path)
    assert words[-4:] == ["--", "sh", "-c", "./my test.sh"]
    assert words[words.index("--kernel-arg") + 1] == "a b"
    assert [words[n + 1] for n, word in enumerate(words) if word == "--device"] == [
        "connectx6",
        "connectx6dx,bf=1",
    ]
    assert "--check-leaks" in words
    assert not own_options(main.get_command(None, "run"), words)
    plain = run_action(tmp_path, DEVICES="", FAIL_ON="", CHECK_LEAKS="false")
    assert plain[plain.index("--device") + 1] == "connectx6"
    assert plain[plain.index("--fail-on") + 1] == "warning"
    assert "--check-leaks" not in plain
    assert "--fail-on" not in run_action(tmp_path, CHAOS="@verbs", FAIL_ON="")


def test_the_action_runs_the_command_for_each_failure(tmp_path):
    words = run_action(tmp_path, CHAOS="@verbs my.toml", DEVICES="", FAIL_ON="crash,hang")
    assert words[:4] == ["mlx5emu", "chaos", "@verbs", "my.toml"]
    assert words[-4:] == ["--", "sh", "-c", "./my test.sh"]
    assert words[words.index("--results") + 1] == "results/chaos"
    assert words[words.index("--fail-on") + 1] == "crash,hang"
    assert {"--device", "--out", "--check-leaks"}.isdisjoint(words)
    assert not own_options(main.get_command(None, "chaos"), words)


def test_the_action_knows_its_inputs():
    """Each is used, and each value that a script takes from the outside is one."""
    text = (ROOT / "action.yml").read_text()
    action = yaml.safe_load(text)
    used = set(re.findall(r"inputs\.([a-z-]+)", text))
    assert used == set(action["inputs"])
    assert all(one["description"] for one in action["inputs"].values())
    assert set(action_steps()[-1]["env"]) == set(RUN)
    workflow = yaml.safe_load((TOOLS / "github-workflow.yml").read_text())
    steps = workflow["jobs"]["guest"]["steps"]
    (step,) = (one for one in steps if "mlx5emu@" in one.get("uses", ""))
    assert set(step["with"]) <= set(action["inputs"])


def test_the_container_image_has_what_its_steps_need(tmp_path):
    """The steps themselves are run by tests/guest/probe/test_containers.py."""
    pack(tmp_path / "copy.tar")
    with tarfile.open(tmp_path / "copy.tar") as tar:
        names = {name.removeprefix("./") for name in tar.getnames()}
    recipe = Dockerfile((ROOT / "Dockerfile").read_text())
    (project,) = recipe.all("WORKDIR")
    assert recipe.entrypoint == [f"{project}/.venv/bin/mlx5emu"]
    assert any(step.startswith("scripts/setup") for step in recipe.all("RUN"))
    assert {"scripts/setup", "pyproject.toml", "README.md", "emu/guests/inside/init.sh"} <= names
    assert not any(
        part in (".git", ".venv", "__pycache__") for name in names for part in name.split("/")
    )
