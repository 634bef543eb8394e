"""What the recipes for other people's tools say: the action's steps, jobs, the Dockerfile."""

from __future__ import annotations

import fnmatch
import json
import re
import shlex
import tarfile
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[3]
TOOLS = ROOT / "examples" / "tools"


def action_steps():
    """The steps of GitHub's action that are scripts."""
    steps = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
    return [step for step in steps if "run" in step]


def commands_of(*files):
    """The lines of jobs in ``examples/tools`` that are ours, as words; each variable is ``sid``."""
    text = "".join((TOOLS / name).read_text() for name in files).replace("$MLX5EMU ", "mlx5emu ")
    text = re.sub(r"\$\{\{.*?\}\}|\$\w+", "sid", text)
    return [shlex.split(line) for line in re.findall(r"(?m)^ +(?:- |run: )(mlx5emu .*)$", text)]


class Dockerfile:
    """Its instructions, as far as ours uses any: each is a word and the rest of its line."""

    def __init__(self, text):
        lines = re.sub(r"\\\n *", "", text).splitlines()
        self._lines = [line.split(" ", 1) for line in lines if line and not line.startswith("#")]
        known = {"FROM", "ENV", "RUN", "WORKDIR", "COPY", "ENTRYPOINT", "CMD"}
        assert {word for word, _ in self._lines} <= known
        (self.image,), (self.entrypoint,) = (
            self.all("FROM"),
            map(json.loads, self.all("ENTRYPOINT")),
        )

    def all(self, word):
        """What stands behind each of these instructions."""
        return [rest for known, rest in self._lines if known == word]

    def script(self):
        """What a build does after it has the image and, at COPY, our files; for a shell."""
        words = {
            "ENV": "export {}",
            "RUN": "({}) || exit 1",
            "WORKDIR": "mkdir -p {0}; cd {0}",
            "COPY": "tar xf /copy.tar",
        }
        return "\n".join(words[word].format(rest) for word, rest in self._lines if word in words)


def pack(target):
    """What COPY gives a build: our files without those that .dockerignore names."""
    ignored = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line]

    def keep(member):
        parts = Path(member.name).parts
        for pattern in ignored:
            anywhere = pattern.startswith("**/")
            names = parts if anywhere else parts[:1]
            if any(fnmatch.fnmatch(name, pattern.removeprefix("**/")) for name in names):
                return None
        member.uid = member.gid = 0
        return member

    with tarfile.open(target, "w") as tar:
        tar.add(ROOT, ".", filter=keep)
