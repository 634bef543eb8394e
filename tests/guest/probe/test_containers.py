"""The container image and the workflow for GitHub, in a Debian of their own."""

from __future__ import annotations

import os
import shlex
import shutil

import pytest
from helpers.files.recipes import ROOT, Dockerfile, action_steps, pack

from emu.guests.archive.bootstrap import bootstrap
from emu.guests.archive.mirror import source_line
from emu.guests.archive.names import DEFAULT_SUITE

pytestmark = [pytest.mark.guest, pytest.mark.slow, pytest.mark.suite(DEFAULT_SUITE)]

CAPABILITIES = (
    "audit_write chown dac_override fowner fsetid kill mknod net_bind_service net_raw setfcap"
    " setgid setpcap setuid sys_chroot"
)
"""What Docker and Podman leave to the root of a container by default, or less than that."""


def test_the_steps_of_both_in_a_container_without_privileges(tmp_path):
    """A chroot has what a container has, with as few capabilities, and no user namespaces."""
    if os.geteuid() != 0 or None in (shutil.which("mmdebstrap"), shutil.which("setpriv")):
        pytest.skip("a chroot is made by root, mmdebstrap and setpriv")
    recipe = Dockerfile((ROOT / "Dockerfile").read_text())
    set_up = action_steps()[0]["run"]
    (project,) = recipe.all("WORKDIR")
    program = shlex.join(recipe.entrypoint)
    script = tmp_path / "script"
    script.write_text(
        f"""set -ex
        exec >&2
        {recipe.script()}
        {program} models
        {program} doctor
        sudo() {{ "$@"; }}
        GITHUB_PATH=/path GITHUB_OUTPUT=/output GITHUB_ACTION_PATH={project}
        cd ..
        {set_up}
        PATH=$PATH:$(cat /path)
        mlx5emu run --help
        : all steps are done
        """
    )
    pack(tmp_path / "copy.tar")
    certificates = os.environ.get("PIP_CERT", "/etc/ssl/certs/ca-certificates.crt")
    given = {script: "/script", tmp_path / "copy.tar": "/copy.tar", certificates: "/certificates"}
    kept = ",".join(f"+{name}" for name in CAPABILITIES.split())
    limits = f"setpriv --bounding-set -all,{kept} --inh-caps -all"
    environ = f"env -i PATH={os.defpath}:/usr/sbin:/sbin HOME=/root PIP_CERT=/certificates"
    distribution, _, suite = recipe.image.partition(":")
    assert distribution == "debian"
    bootstrap(
        [
            *("--mode=root", "--variant=apt", "--format=null", "--dpkgopt=force-unsafe-io"),
            *(f"--customize-hook=upload {shlex.quote(str(a))} {b}" for a, b in given.items()),
            f'--customize-hook={limits} {environ} chroot "$1" bash /script',
            *(suite, "/dev/null", source_line(suite)),
        ],
        what="a container",
        log=tmp_path / "log",
    )
    assert "+ : all steps are done" in (tmp_path / "log").read_text()
