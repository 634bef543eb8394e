"""Configuration of Sphinx: the guide as a site, with a reference of the Python that users import.

Build with ``sphinx-build -W -c share/site share/guide build/site``.
"""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

from sphinx.application import Sphinx

project = "mlx5emu"
release = metadata.version("mlx5emu")
extensions = ["myst_parser", "sphinx.ext.autodoc"]
root_doc = "README"
html_theme_options = {"page_width": "75em", "description": "An emulated mlx5 RDMA adapter"}
html_sidebars = {"**": ["about.html", "navigation.html", "searchbox.html"]}
html_show_copyright = False
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "description"

_OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+([\w./-]+)(?:#[\w-]+)?\)")
_AUTODOC = re.compile(r"<!-- (auto\w+) ([\w.]+)((?: \w+)*) -->")


def _adapt(app: Sphinx, name: str, content: list[str]) -> None:
    """Adapt a page: files outside the guide as text, autodoc comments, a table of contents."""
    content[0] = _AUTODOC.sub(_directive, _OUTSIDE.sub(r"\1 (`\2`)", content[0]))
    if name == root_doc:
        pages = sorted(path.stem for path in Path(app.srcdir).glob("*.md") if path.stem != name)
        content[0] += "\n".join(["", "```{toctree}", ":hidden:", *pages, "```", ""])


def _directive(comment: re.Match[str]) -> str:
    """Return autodoc's directive for ``<!-- autoclass NAME MEMBER... -->``."""
    kind, name, members = comment.groups()
    options = f"   :members: {', '.join(members.split())}\n" if kind == "autoclass" else ""
    return f"```{{eval-rst}}\n.. {kind}:: {name}\n{options}```"


def setup(app: Sphinx) -> None:
    """Register the hook that adapts each page."""
    app.connect("source-read", _adapt)
