"""Chooses the package archive: the one that this machine's own apt uses.

Formats: sources.list(5), both the one-line style and deb822. The entry for the machine's own Debian
suite is preferred; all Debian suites are on the same archive.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from emu.guests.errors import LabError

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")  # debian-archive-keyring

_SUITES = frozenset(
    {
        *("bookworm", "trixie", "forky", "duke", "sid"),
        *("oldoldstable", "oldstable", "stable", "testing", "unstable"),
    }
)
_URI = re.compile(r"[a-z+]+:/")
_ONE_LINE = re.compile(
    r"deb\s+(?:\[(?P<options>[^\]]*)\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)(?P<rest>.*)"
)


@dataclass(frozen=True)
class AptSource:
    """One binary package source: an archive, one suite of it, its components."""

    uri: str
    suite: str
    components: tuple[str, ...]
    signed_by: str = ""


def parse_one_line(text: str) -> Iterator[AptSource]:
    """Yield the ``deb`` lines of a file in one-line style; skip all other lines."""
    for raw in text.splitlines():
        match = _ONE_LINE.fullmatch(raw.partition("#")[0].strip())
        if match is None:
            continue
        options = dict(
            word.split("=", 1) for word in (match["options"] or "").split() if "=" in word
        )
        signed_by = options.get("signed-by", "")
        yield AptSource(match["uri"], match["suite"], tuple(match["rest"].split()), signed_by)


def parse_deb822(text: str) -> Iterator[AptSource]:
    """Yield the enabled binary sources of a deb822 file, one for each archive and suite."""
    for stanza in re.split(r"\n\s*\n", text):
        fields = _fields(stanza)
        if "deb" not in fields.get("types", "").split():
            continue
        if fields.get("enabled", "yes").strip().lower() in {"no", "false", "0"}:
            continue
        components = tuple(fields.get("components", "").split())
        for uri in fields.get("uris", "").split():
            for suite in fields.get("suites", "").split():
                yield AptSource(uri, suite, components, fields.get("signed-by", "").strip())


def _fields(stanza: str) -> dict[str, str]:
    """Return the fields of a stanza by lower-case name; continuation lines are joined by newlines.

    Comments and lines without a colon are left out.
    """
    fields: dict[str, str] = {}
    name = ""
    for line in stanza.splitlines():
        if line.startswith("#"):
            continue
        if line[:1].isspace():
            if name:
                fields[name] += "\n" + line.strip()
            continue
        name, colon, value = line.partition(":")
        name = name.strip().lower() if colon else ""
        if name:
            fields[name] = value.strip()
    return fields


def read_sources(apt_dir: Path) -> list[AptSource]:
    """Return every source that apt would read below ``apt_dir`` (``/etc/apt``), in apt's order.

    A file that is missing or cannot be read counts as empty.
    """
    sources: list[AptSource] = []
    parts = apt_dir / "sources.list.d"
    for path in [apt_dir / "sources.list", *sorted(parts.glob("*.list"))]:
        sources += parse_one_line(_text(path))
    for path in sorted(parts.glob("*.sources")):
        sources += parse_deb822(_text(path))
    return sources


def _text(path: Path) -> str:
    """Return a file's text, with invalid bytes replaced; empty if it cannot be read."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def choose(sources: list[AptSource], codename: str) -> str | None:
    """Return the URI of the Debian archive among ``sources``; None when none qualifies.

    ``codename`` is the machine's own suite, whose entry is preferred. Third-party archives use
    Debian's suite names too, so an entry signed by a key other than Debian's is ignored. An entry
    whose URI ends in ``debian`` is preferred. Entries without the component main, and CD-ROMs, do
    not qualify.
    """
    candidates = [
        source
        for source in sources
        if (source.suite == codename or source.suite in _SUITES)
        and "main" in source.components
        and not source.uri.startswith("cdrom:")
        and (not source.signed_by or "debian-archive" in source.signed_by)
    ]

    def rank(source: AptSource) -> tuple[bool, bool]:
        return (source.suite != codename, not source.uri.rstrip("/").endswith("debian"))

    return min(candidates, key=rank).uri if candidates else None


def source_line(suite: str, etc: Path = Path("/etc"), keyring: Path = KEYRING) -> str:
    """Return the sources.list line for a suite's main component.

    The line names Debian's keyring if that file exists, so the keys that the machine itself trusts
    do not matter. Raises :class:`LabError` when no archive is known (:func:`debian_mirror`).
    """
    signed = f"[signed-by={keyring}] " if keyring.exists() else ""
    return f"deb {signed}{debian_mirror(etc)} {suite} main"


def debian_mirror(etc: Path = Path("/etc"), environ: Mapping[str, str] = os.environ) -> str:
    """Return the URI of the Debian archive: ``MLX5EMU_MIRROR``, else from apt's configuration.

    Raises :class:`LabError` when neither names one, and for a variable that is no URI. The archive
    is not contacted.
    """
    if named := environ.get("MLX5EMU_MIRROR"):
        if not _URI.match(named):
            raise LabError(
                f"MLX5EMU_MIRROR={named} is no URI, such as http://deb.debian.org/debian"
            )
        return named
    match = re.search(r'^VERSION_CODENAME="?(\w+)', _text(etc / "os-release"), re.MULTILINE)
    uri = choose(read_sources(etc / "apt"), match[1] if match else "")
    if uri is None:
        raise LabError(
            "apt's configuration names no Debian archive: set MLX5EMU_MIRROR to the URI of one"
        )
    return uri
