"""Which archive the lab takes from apt's configuration."""

from __future__ import annotations

import pytest

from emu.guests.archive import mirror
from emu.guests.archive.mirror import AptSource
from emu.guests.errors import LabError

DEB822 = """\
# a comment
Types: deb deb-src
URIs: http://packages.example/debian
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Enabled: no
Types: deb
URIs: http://disabled.example/debian
Suites: bookworm
Components: main

Types: deb-src
URIs: http://source.example/debian
Suites: bookworm
Components: main

Types: deb
URIs: http://other.example/debian
Suites: bookworm
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 -----END PGP PUBLIC KEY BLOCK-----
"""


@pytest.fixture
def etc(tmp_path):
    (tmp_path / "apt" / "sources.list.d").mkdir(parents=True)
    (tmp_path / "os-release").write_text('ID=debian\nVERSION_CODENAME="bookworm"\n')
    return tmp_path


def test_deb822_gives_enabled_binary_sources():
    found = list(mirror.parse_deb822(DEB822))
    assert [(source.uri, source.suite) for source in found] == [
        ("http://packages.example/debian", "bookworm"),
        ("http://packages.example/debian", "bookworm-updates"),
        ("http://other.example/debian", "bookworm"),
    ]
    assert found[0].components == ("main", "contrib")
    assert "BEGIN PGP" in found[2].signed_by


@pytest.mark.parametrize(
    ("line", "source"),
    [
        ("deb http://m/debian trixie main", AptSource("http://m/debian", "trixie", ("main",))),
        (
            "  deb [arch=amd64 signed-by=/k.gpg]  https://m/d sid main contrib # why",
            AptSource("https://m/d", "sid", ("main", "contrib"), "/k.gpg"),
        ),
        ("deb http://m/flat ./", AptSource("http://m/flat", "./", ())),
        ("deb-src http://m/debian trixie main", None),
        ("# deb http://m/debian trixie main", None),
        ("deb", None),
        ("", None),
    ],
)
def test_one_line_style(line, source):
    assert list(mirror.parse_one_line(line)) == ([] if source is None else [source])


def source(uri, suite="bookworm", components=("main",), signed_by=""):
    return AptSource(uri, suite, components, signed_by)


@pytest.mark.parametrize(
    ("sources", "uri"),
    [
        ([], None),
        ([source("http://security/debian-security", "bookworm-security")], None),
        ([source("cdrom:[Debian]/")], None),
        ([source("http://a/debian", components=("contrib",))], None),
        # Others publish for Debian's suites, with keys of their own or under another path.
        ([source("http://x/apt", signed_by="/x.gpg"), source("http://a/pub")], "http://a/pub"),
        ([source("http://x/apt"), source("http://a/debian/")], "http://a/debian/"),
        # The machine's own suite goes before another one.
        ([source("http://sid/debian", "sid"), source("http://a/debian")], "http://a/debian"),
        ([source("http://a/debian", "unstable")], "http://a/debian"),
    ],
)
def test_the_archive_of_the_machines_suite_is_chosen(sources, uri):
    assert mirror.choose(sources, "bookworm") == uri


def test_only_files_that_apt_reads_count(etc):
    parts = etc / "apt" / "sources.list.d"
    (etc / "apt" / "sources.list").write_text("deb http://list.example/debian sid main\n")
    (parts / "a.sources.disabled").write_text(DEB822)
    (parts / "b.sources").write_text(DEB822)
    assert mirror.debian_mirror(etc, {}) == "http://packages.example/debian"
    (parts / "b.sources").unlink()
    assert mirror.debian_mirror(etc, {}) == "http://list.example/debian"


def test_the_environment_goes_first_and_nothing_is_guessed(etc):
    assert mirror.debian_mirror(etc, {"MLX5EMU_MIRROR": "http://mine/d"}) == "http://mine/d"
    with pytest.raises(LabError, match="MLX5EMU_MIRROR=mine is no URI"):
        mirror.debian_mirror(etc, {"MLX5EMU_MIRROR": "mine"})
    with pytest.raises(LabError, match="MLX5EMU_MIRROR"):
        mirror.debian_mirror(etc, {})


def test_a_source_line_names_debians_keys_where_they_are(etc, tmp_path, monkeypatch):
    monkeypatch.setenv("MLX5EMU_MIRROR", "http://m/debian")
    keyring = tmp_path / "keys.gpg"
    assert mirror.source_line("sid", etc, keyring) == "deb http://m/debian sid main"
    keyring.touch()
    line = f"deb [signed-by={keyring}] http://m/debian sid main"
    assert mirror.source_line("sid", etc, keyring) == line
