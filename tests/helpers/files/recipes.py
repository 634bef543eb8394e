"""What the recipes for other people's tools say: the workflow's and the Dockerfile's commands."""

from __future__ import annotations

import fnmatch
import json
import re
import tarfile
from pathlib import Path

import emu

ROOT = Path(emu.__file__).parents[1]
TOOLS = ROOT / "examples" / "tools"


def workflow_steps():
    """The commands of the workflow for GitHub, line by line."""
    text = (TOOLS / "github-workflow.yml").read_text()
    blocks = re.split(r"^ +- (?:name|uses): .*$", text, flags=re.MULTILINE)
    for block in blocks:
        _, _, script = block.partition("run: ")
        yield from (line.strip() for line in script.removeprefix("|").splitlines() if line.strip())


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
