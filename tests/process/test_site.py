"""The guide builds as a site without a warning, with a reference of the importable Python."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def build(source: Path, target: Path) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-E",
        "-c", str(ROOT / "share/site"), str(source), str(target),
    ]  # fmt: skip
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_site_has_every_page_and_the_reference(tmp_path):
    done = build(ROOT / "share/guide", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    pages = {path.stem for path in tmp_path.glob("*.html")}
    assert {path.stem for path in ROOT.glob("share/guide/*.md")} <= pages
    reference = (tmp_path / "python.html").read_text()
    for name in ("emu.guests.Guest.run", "emu.server.control.client.Client.load_plan"):
        assert f'id="{name}"' in reference


@pytest.mark.parametrize(
    "text", ["# Page\n\n[a](none.md)\n", "# Page\n\n<!-- autoclass emu.guests.None -->\n"]
)
def test_dead_link_or_name_fails(tmp_path, text):
    source = tmp_path / "guide"
    source.mkdir()
    source.joinpath("README.md").write_text("# Guide\n")
    source.joinpath("page.md").write_text(text)
    assert build(source, tmp_path / "site").returncode
