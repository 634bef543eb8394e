"""`mlx5emu cp`, with a child process as the guest: what goes in, what comes out, what may not."""

import io
import os
import re
import socket
import sys
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner
from helpers.guest.named_guests import FakeGuest

from emu.cli.main import main
from emu.guests import LabError
from emu.guests.named import copying, daemon, packing, running, unpacking
from emu.guests.named.copying import copy_in, copy_out


@pytest.fixture
def runtime(tmp_path_factory, monkeypatch):
    path = tmp_path_factory.mktemp("r")
    path.chmod(0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(path))


@pytest.fixture
def programs(tmp_path):
    """Where the guest finds its programs first."""
    path = tmp_path / "programs"
    path.mkdir()
    (path / "python3").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (path / "python3").chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def guest(programs, runtime):
    with (
        FakeGuest(str(programs)) as one,
        running.NameClaim("one") as claim,
        daemon.open_exec_servers(claim, {"suite": "x"}, {"one": one}),
    ):
        yield one


@pytest.fixture
def two_guests(guest, tmp_path):
    """A lab of two guests; both have the host's files, and the second counts its copies."""
    own = tmp_path / "programs-of-h2"
    own.mkdir()
    (own / "tar").write_text(f'#!/bin/sh\necho >> {own}/copies; exec /bin/tar "$@"\n')
    (own / "tar").chmod(0o755)
    with (
        FakeGuest(str(own)) as other,
        running.NameClaim("two") as claim,
        daemon.open_exec_servers(claim, {"lab": True, "suite": "x"}, {"h1": guest, "h2": other}),
    ):
        yield own / "copies"


@pytest.fixture
def tree(tmp_path):
    """A directory with all that is copied."""
    path = tmp_path / "tree"
    (path / "below" / "empty").mkdir(parents=True)
    (path / "data").write_bytes(os.urandom(1_500_000))
    (path / "below" / "run").write_text("#!/bin/sh")
    (path / "below" / "run").chmod(0o750)
    (path / "below" / "link").symlink_to("../data")
    os.link(path / "data", path / "same")
    return path


def shown(path):
    """What is below ``path``: names with contents, modes or targets."""
    return {
        str(one.relative_to(path)): os.readlink(one)
        if one.is_symlink()
        else (one.is_file() and one.read_bytes(), one.stat().st_mode)
        for one in sorted(path.rglob("*"))
    }


def mlx5emu(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


def test_a_directory_goes_in_and_comes_out(tree, tmp_path):
    inside = tmp_path / "inside"
    assert mlx5emu("cp", tree, f"one:{inside}").exit_code == 0
    assert shown(inside) == shown(tree)
    assert mlx5emu("cp", f"one:{inside}", tmp_path / "back").exit_code == 0
    assert shown(tmp_path / "back") == shown(tree)


def test_what_is_copied_to_a_directory_goes_into_it(tree, tmp_path):
    for name in ("inside", "back"):
        (tmp_path / name).mkdir()
    copy_in("one", tree / "data", str(tmp_path / "inside"), pytest.fail)
    copy_in("one", tree / "below", f"{tmp_path}/inside/", pytest.fail)
    copy_out("one", f"{tmp_path}/inside/below/", tmp_path / "back", pytest.fail)
    assert (tmp_path / "inside" / "data").read_bytes() == (tree / "data").read_bytes()
    assert shown(tmp_path / "back" / "below") == shown(tree / "below")


def test_a_file_gets_the_name_that_is_said(tree, tmp_path):
    copy_in("one", tree / "below" / "run", f"{tmp_path}/program", pytest.fail)
    copy_out("one", f"{tmp_path}/program", tmp_path / "again", pytest.fail)
    assert (tmp_path / "again").read_text() == "#!/bin/sh"
    assert (tmp_path / "again").stat().st_mode & 0o777 == 0o750


def test_the_directory_itself_is_a_source(tree, tmp_path):
    copy_out("one", f"{tree}/below/..", tmp_path / "all", pytest.fail)
    assert shown(tmp_path / "all") == shown(tree)


def test_a_named_link_is_followed(tree, tmp_path):
    """In the guest, not on the host; the copy has the link's name, either way."""
    place = tmp_path / "place"
    for name in ("", "inside", "back"):
        (place / name).mkdir(parents=True)
    (place / "release").symlink_to("../tree/below/run")
    (place / "all").symlink_to(tree)
    for name in ("release", "all"):
        copy_out("one", f"{place}/{name}", place / "back", pytest.fail)
        copy_in("one", place / name, f"{place}/inside", pytest.fail)
    for folder in (place / "back", place / "inside"):
        assert not (folder / "release").is_symlink()
        assert (folder / "release").read_text() == "#!/bin/sh"
        assert not (folder / "all").is_symlink()
        assert shown(folder / "all") == shown(tree)


def test_a_named_link_without_a_target(tmp_path):
    for target in (f"{tmp_path}/no/such", "nosuch", "link"):
        (tmp_path / "link").unlink(missing_ok=True)
        (tmp_path / "link").symlink_to(target)
        said = mlx5emu("cp", f"one:{tmp_path}/link", tmp_path / "copy")
        assert (said.exit_code, "missing" in said.output or "No such" in said.output) == (1, True)
        assert not os.path.lexists(tmp_path / "copy")


@pytest.mark.parametrize("answer", ["", "tree", "/tr\\000ee", "/" + "x" * 5000])
def test_an_invalid_path_of_a_guest(answer, programs, tmp_path):
    (programs / "sh").write_text(f"#!/bin/sh\nprintf '{answer}'")
    (programs / "sh").chmod(0o755)
    with pytest.raises(LabError, match="sent an invalid path"):
        copy_out("one", "/etc/hostname", tmp_path / "target", pytest.fail)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["here", "there"], "exactly one of the two must be in a guest"),
        (["one:here", "one:there"], "exactly one of the two must be in a guest"),
        (["./one:here", "there"], "exactly one of the two must be in a guest"),
        (["one:/no/such", "there"], "one:/no: No such file or directory"),
        (["one:/nosuch", "there"], "one:/nosuch: No such file or directory"),
        (["one:/etc/hostname/x", "there"], "one:/etc/hostname: Not a directory"),
        (["two:/etc/hostname", "there"], "two"),
        (["/etc/hostnam", "one:/tmp"], "no file or directory /etc/hostnam; near it: hostname"),
        (["/etc/hostname", "one:/no/such/"], "one has no directory /no/such/"),
        (["/etc/hostname", "one:/no/such"], "one has no directory /no"),
        (["/etc/hostname", "one:/proc/such"], "one:/proc/such: No such file or directory"),
        (["one:/etc/hostname", "/no/such/there"], "no directory /no/such"),
        (["one:/etc/hostname", "/etc/hostname/x"], "/etc/hostname is not a directory"),
    ],
)
def test_what_is_wrong_is_said(words, reason):
    result = mlx5emu("cp", *words)
    assert result.exit_code in (1, 2)
    last = result.output.splitlines()[-1]
    assert reason in last
    assert result.exit_code == 2 or result.output == f"{last}\n"
    assert "tar" not in last


@pytest.mark.parametrize("words", [("SECRET", "one:/tmp"), ("one:/etc/hostname", "SECRET/x")])
def test_a_place_of_ours_without_permission_is_told_before(words, tmp_path, monkeypatch):
    def attach(*_):
        raise AssertionError("the guest is asked")

    secret = tmp_path / "secret"
    secret.mkdir()
    # Root may do anything: what access(2) says to others is said here.
    monkeypatch.setattr(os, "access", lambda path, _: path != secret)
    monkeypatch.setattr(copying, "at_command", attach)
    result = mlx5emu("cp", *(word.replace("SECRET", str(secret)) for word in words))
    assert result.exit_code == 1
    assert re.fullmatch(f"mlx5emu: {secret} is not (readable|writable)\n", result.output)


def test_files_to_each_guest_of_a_lab(two_guests, tree, tmp_path):
    (tmp_path / "inside").mkdir()
    assert mlx5emu("lab", "cp", tree / "data", tree / "below", f":{tmp_path}/inside").exit_code == 0
    assert sorted(path.name for path in (tmp_path / "inside").iterdir()) == ["below", "data"]
    assert mlx5emu("lab", "cp", "--lab", "two", tree / "data", f":{tmp_path}/new").exit_code == 0
    assert (tmp_path / "new").read_bytes() == (tree / "data").read_bytes()
    assert two_guests.read_text() == "\n" * 3
    wrong = mlx5emu("lab", "cp", tree / "data", tree / "same", f":{tmp_path}/new")
    assert (wrong.exit_code, "two/h1 has no directory" in wrong.output) == (1, True)


def test_files_of_each_guest_of_a_lab(two_guests, tree, tmp_path):
    sources = (f":{tree}/data", f":{tree}/below")
    assert mlx5emu("lab", "cp", *sources, tmp_path / "made" / "out").exit_code == 0
    for name in ("h1", "h2"):
        folder = tmp_path / "made" / "out" / name
        assert (folder / "data").read_bytes() == (tree / "data").read_bytes()
        assert shown(folder / "below") == shown(tree / "below")


def test_a_copy_that_fails_leaves_no_empty_folder(two_guests, tree, tmp_path):
    (tmp_path / "kept").mkdir()
    for target in ("logs", "made/logs", "kept"):
        assert mlx5emu("lab", "cp", f":{tmp_path}/nope", tmp_path / target).exit_code == 1
    assert sorted(path.name for path in tmp_path.iterdir() if "programs" not in path.name) == [
        "kept", "tree",
    ]  # fmt: skip
    assert not [*(tmp_path / "kept").iterdir()]
    sources = (f":{tree}/data", f":{tmp_path}/nope")
    assert mlx5emu("lab", "cp", *sources, tmp_path / "logs").exit_code == 1
    assert [path.name for path in (tmp_path / "logs" / "h1").iterdir()] == ["data"]


@pytest.mark.parametrize(
    "words", [["here", "there"], [":here", ":there"], ["here", ":here", ":there"], [":here"]]
)
def test_a_lab_s_copy_goes_one_way(words, two_guests):
    assert mlx5emu("lab", "cp", *words).exit_code == 2


def test_a_socket_is_left_out(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "kept").write_text("kept")
    os.mkfifo(tmp_path / "run" / "pipe")
    told = []
    with socket.socket(socket.AF_UNIX) as end:
        end.bind(str(tmp_path / "run" / "end"))
        copy_out("one", f"{tmp_path}/run", tmp_path / "back", told.append)
    assert [path.name for path in (tmp_path / "back").iterdir()] == ["kept"]
    assert told == ["run/pipe is left out: not a file, directory or symbolic link"]


def test_what_is_no_file_of_ours_is_left_out(tmp_path):
    (tmp_path / "run" / "below").mkdir(parents=True)
    (tmp_path / "run" / "kept").write_text("kept")
    os.mkfifo(tmp_path / "run" / "below" / "pipe")
    told = []
    with socket.socket(socket.AF_UNIX) as end:
        end.bind(str(tmp_path / "run" / "end"))
        copy_in("one", tmp_path / "run", f"{tmp_path}/inside", told.append)
    assert sorted(path.name for path in (tmp_path / "inside").rglob("*")) == ["below", "kept"]
    assert told == [
        f"inside/{name} is left out: not a file, directory or symbolic link"
        for name in ("below/pipe", "end")
    ]


@pytest.mark.parametrize("source", ["/proc/version", "/sys/kernel/mm/transparent_hugepage/enabled"])
def test_a_file_without_a_true_size(source, tmp_path):
    """Files of proc announce 0 bytes, those of sysfs a page."""
    content = Path(source).read_bytes()
    (tmp_path / "inside").mkdir()
    copy_out("one", source, tmp_path / "out", pytest.fail)
    copy_in("one", Path(source), f"{tmp_path}/inside/in", pytest.fail)
    assert (tmp_path / "out").read_bytes() == content
    assert (tmp_path / "inside" / "in").read_bytes() == content
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o644


def test_a_directory_of_files_without_a_true_size(tmp_path):
    """Links stay links."""
    copy_out("one", "/proc/self/net/", tmp_path / "net", lambda _: None)
    assert b"Inter-" in (tmp_path / "net" / "dev").read_bytes()
    copy_out("one", "/proc/self/ns", tmp_path / "ns", pytest.fail)
    assert os.readlink(tmp_path / "ns" / "uts").startswith("uts:[")


@pytest.mark.parametrize("to_guest", [True, False])
def test_a_file_that_cannot_be_read_is_left_out(to_guest, tmp_path, monkeypatch):
    told = []
    if to_guest:
        monkeypatch.setattr(packing, "_MAX_UNSIZED", 3)
        (tmp_path / "tree").mkdir()
        (tmp_path / "tree" / "a").write_bytes(b"1234")
        (tmp_path / "tree" / "b").write_bytes(b"123")
        monkeypatch.setattr(packing, "_has_no_size", lambda _: True)
        copy_in("one", tmp_path / "tree", f"{tmp_path}/inside", told.append)
        assert [path.name for path in (tmp_path / "inside").iterdir()] == ["b"]
        assert told == ["inside/a is left out: File too large"]
    else:
        copy_out("one", "/proc/self/task", tmp_path / "task", told.append)
        assert [line for line in told if line.endswith("/mem is left out: Input/output error")]
        assert (tmp_path / "task").is_dir()


def test_a_named_file_that_cannot_be_read(tmp_path):
    with pytest.raises(LabError, match=r"one:/proc/[0-9]*/mem: Input/output error"):
        copy_out("one", "/proc/self/mem", tmp_path / "copy", pytest.fail)
    with pytest.raises(OSError, match=r"Input/output error: '/proc/[0-9]*/mem'"):
        copy_in("one", Path("/proc/self/mem"), f"{tmp_path}/copy", pytest.fail)
    assert not (tmp_path / "copy").exists()


def test_a_pipe_of_ours_keeps_its_mode_and_times(tree, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    os.utime(tree / "below" / "run", (1, 1))
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        copy_out("one", f"{tree}/below/run", pipe, pytest.fail)
        assert os.read(reader, 100) == b"#!/bin/sh"
    finally:
        os.close(reader)
    assert pipe.stat().st_mode & 0o777 == 0o600
    assert pipe.stat().st_mtime > 1


DIR, FILE, SYM, HARD = tarfile.DIRTYPE, tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE


def archive(*members):
    """An archive of members ``(name, type, link)``; a file's content is its name."""
    buffer = io.BytesIO()
    with tarfile.open(mode="w", fileobj=buffer) as made:
        for name, kind, link in members:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, link
            info.size = len(name) if kind == FILE else 0
            made.addfile(info, io.BytesIO(name.encode()))
    return buffer.getvalue()


def send(programs, data):
    """The guest's tar is one that sends this."""
    (programs / "archive").write_bytes(data)
    (programs / "tar").write_text(f"#!/bin/sh\ncat {programs}/archive")
    (programs / "tar").chmod(0o755)


OUTSIDE = [
    [("/etc/x", FILE, "")],
    [("../x", FILE, "")],
    [("tree/../../x", FILE, "")],
    [("other", FILE, "")],
    [("tree", DIR, ""), ("tree/../outside/x", FILE, "")],
    [("tree", DIR, ""), ("tree/old/x", FILE, "")],
    [("tree", DIR, ""), ("tree/old", DIR, "")],
    [("tree", DIR, ""), ("tree/file", FILE, "")],
]


@pytest.mark.parametrize("members", OUTSIDE)
def test_nothing_is_written_outside(members, programs, tmp_path):
    """Links are those that an earlier copy has brought."""
    outside, target = tmp_path / "outside", tmp_path / "target" / "tree"
    outside.mkdir()
    (outside / "file").write_text("ours")
    target.mkdir(parents=True)
    (target / "old").symlink_to(outside)
    (target / "file").symlink_to(outside / "file")
    send(programs, archive(*members))
    with pytest.raises(LabError, match=r"was not requested|is a symbolic link"):
        copy_out("one", "/tree", target.parent, pytest.fail)
    assert [path.name for path in outside.iterdir()] == ["file"]
    assert (outside / "file").read_text() == "ours"


def test_links_are_made_at_the_end(programs, tmp_path):
    """What is sent behind a link is not written through it."""
    (tmp_path / "outside").mkdir()
    members = [("t", DIR, ""), ("t/a", SYM, str(tmp_path / "outside")), ("t/a/x", FILE, "")]
    send(programs, archive(*members))
    with pytest.raises(FileNotFoundError, match="target/a/x"):
        copy_out("one", "/t", tmp_path / "target", pytest.fail)
    assert not list((tmp_path / "outside").iterdir())


@pytest.mark.parametrize("sent", [b"", b"nonsense" * 200])
def test_what_is_no_archive(sent, programs, tmp_path):
    send(programs, sent)
    with pytest.raises(LabError, match="sent an invalid archive"):
        copy_out("one", "/t", tmp_path / "target", pytest.fail)


def test_a_hard_link_that_a_guest_sends_is_left_out(programs, tmp_path):
    members = [("t", DIR, ""), ("t/x", HARD, "/etc/passwd"), ("t/y", FILE, "")]
    send(programs, archive(*members))
    told = []
    copy_out("one", "/t", tmp_path / "target", told.append)
    assert (len(told), [path.name for path in (tmp_path / "target").iterdir()]) == (1, ["y"])


@pytest.mark.parametrize("behind", ["cat /dev/zero", "echo warning >&2; yes nonsense"])
@pytest.mark.parametrize("members", [[("t", FILE, "")], []])
def test_a_guest_that_sends_on_and_on(members, behind, programs, tmp_path):
    """Whether it is an archive or not: it ends, and is no success."""
    send(programs, archive(*members) if members else b"nonsense" * 200)
    (programs / "tar").write_text(f"#!/bin/sh\ncat {programs}/archive; {behind}")
    with pytest.raises(LabError):
        copy_out("one", "/t", tmp_path / "target", pytest.fail)


def test_no_archive_and_a_good_status(programs, tmp_path):
    """What its tar says does not make a success of it."""
    send(programs, b"nonsense" * 200)
    (programs / "tar").write_text(f"#!/bin/sh\necho it warns >&2; cat {programs}/archive")
    with pytest.raises(LabError, match="it warns"):
        copy_out("one", "/t", tmp_path / "target", pytest.fail)


def test_no_link_is_made_through_another(programs, tmp_path):
    """Of one archive: where the second would go is elsewhere by the time it is made."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("ours")
    members = [("t", DIR, ""), ("t/a", SYM, str(outside)), ("t/a/file", SYM, "/dev/null")]
    send(programs, archive(*members))
    with pytest.raises(LabError, match="is a symbolic link"):
        copy_out("one", "/t", tmp_path / "target", pytest.fail)
    assert (outside / "file").read_text() == "ours"
    assert not (outside / "file").is_symlink()


def with_headers(name, **headers):
    """An archive of a file with extended headers."""
    buffer = io.BytesIO()
    with tarfile.open(mode="w", fileobj=buffer, format=tarfile.PAX_FORMAT) as made:
        info = tarfile.TarInfo(name)
        info.pax_headers = headers
        made.addfile(info)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "headers",
    [{"mtime": "1e300"}, {"mtime": "nan"}, {"mtime": "-1e300"}, {"path": "t\0x"},
     {"GNU.sparse.map": "x", "GNU.sparse.size": "y"}],
)  # fmt: skip
def test_headers_of_nonsense(headers, programs, tmp_path):
    send(programs, with_headers("t", **headers))
    with pytest.raises(LabError, match=r"invalid archive|was not requested"):
        copy_out("one", "/t", tmp_path / "target", pytest.fail)


def header(kind, size, name="t"):
    """The header of a member, without what follows it."""
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_header_without_end(kind, programs, tmp_path):
    """It is refused before it is read."""
    send(programs, header(kind, 6 << 30))
    (programs / "tar").write_text(f"#!/bin/sh\ncat {programs}/archive /dev/zero")
    with pytest.raises(LabError, match="an extended header of 6442450944 bytes"):
        copy_out("one", "/t", tmp_path / "target", pytest.fail)


def old_sparse(size):
    """A member of GNU's old format: its only segment, of one byte, is the end of ``size`` bytes."""
    made = bytearray(header(tarfile.GNUTYPE_SPARSE, 512))
    made[386:410] = b"\x80" + (size - 512).to_bytes(11, "big") + b"00000001000\0"
    made[483:495] = b"\x80" + size.to_bytes(11, "big")
    made[148:156] = b" " * 8
    made[148:156] = b"%06o\0 " % sum(made)
    return bytes(made) + bytes(512)


@pytest.mark.parametrize(
    "headers",
    [
        {"GNU.sparse.size": "8796093022208", "GNU.sparse.map": "8796093022207,1"},
        {"GNU.sparse.size": "8796093022208", "GNU.sparse.offset": "0", "GNU.sparse.numbytes": "1"},
        {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "8796093022208"},
        None,
    ],
)
def test_a_sparse_member_is_refused(headers, programs, tmp_path):
    """8 TiB, announced in a few bytes."""
    send(programs, old_sparse(8 << 40) if headers is None else with_headers("t", **headers))
    with pytest.raises(LabError, match="a sparse member"):
        copy_out("one", "/t", tmp_path / "target", pytest.fail)
    assert not (tmp_path / "target").exists()


def test_global_headers_are_refused(programs, tmp_path):
    """Global headers may go on without end, and tarfile keeps them all."""
    content = b"12 path=tt\n\0".ljust(512, b"\0")
    send(programs, header(tarfile.XGLTYPE, 512) + content + archive(("t", FILE, "")))
    with pytest.raises(LabError, match="a global header"):
        copy_out("one", "/t", tmp_path / "target", pytest.fail)


def test_a_copy_larger_than_allowed(programs, tmp_path):
    """The member that exceeds the limit is not written at all."""
    send(programs, archive(("t", DIR, ""), ("t/a", FILE, ""))[:1536] + header(FILE, 1 << 20, "t/b"))
    with pytest.raises(LabError, match="t/b exceeds the 1 MiB of --max-size"):
        copy_out("one", "/t", tmp_path / "target", pytest.fail, 1 << 20)
    assert [path.name for path in (tmp_path / "target").iterdir()] == ["a"]


def test_many_empty_files_are_larger_than_allowed(programs, tmp_path):
    send(programs, archive(*[("t", DIR, "")] * 257))
    with pytest.raises(LabError, match="t exceeds the 1 MiB of --max-size"):
        copy_out("one", "/t", tmp_path / "target", pytest.fail, 1 << 20)


def test_a_limit_of_size_is_an_option(tmp_path):
    (tmp_path / "file").write_bytes(bytes(1 << 20))
    said = mlx5emu("cp", "--max-size", 1, f"one:{tmp_path}/file", tmp_path / "same")
    assert said.exit_code == 0, said.output
    (tmp_path / "file").write_bytes(bytes((1 << 20) + 1))
    said = mlx5emu("cp", "--max-size", 1, f"one:{tmp_path}/file", tmp_path / "larger")
    assert (said.exit_code, "--max-size" in said.output) == (125, True)
    assert not (tmp_path / "larger").exists()


def test_a_member_of_negative_size(programs, tmp_path):
    send(programs, header(FILE, -512))
    with pytest.raises(LabError):
        copy_out("one", "/t", tmp_path / "target", pytest.fail)


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_headers_of_headers(kind, programs, tmp_path):
    content = (b"12 path=tt\n\0" if kind == tarfile.XHDTYPE else b"t").ljust(512, b"\0")
    send(programs, (header(kind, 512) + content) * 3000 + archive(("t", FILE, "")))
    with pytest.raises(LabError, match="invalid archive"):
        copy_out("one", "/t", tmp_path / "target", pytest.fail)


def test_links_without_end(programs, tmp_path, monkeypatch):
    monkeypatch.setattr(unpacking, "_MAX_LINK_BYTES", 4 * unpacking._LINK_SIZE)
    members = [("t", DIR, ""), *((f"t/{number}", SYM, "x") for number in range(3))]
    send(programs, archive(*members))
    with pytest.raises(LabError, match="symbolic links and directories exceed"):
        copy_out("one", "/t", tmp_path / "target", pytest.fail)
    assert not list((tmp_path / "target").iterdir())


def test_directories_keep_their_modes(tree, tmp_path):
    """A directory that exists keeps its own mode."""
    (tree / "below").chmod(0o500)
    (tree / "below" / "empty").chmod(0o2711)
    tree.chmod(0o700)
    back = tmp_path / "back"
    copy_out("one", f"{tree}/below", back, pytest.fail)
    assert back.stat().st_mode & 0o7777 == 0o500
    assert (back / "empty").stat().st_mode & 0o7777 == 0o711
    kept = tmp_path / "kept" / "tree"
    kept.mkdir(parents=True)
    mode = kept.stat().st_mode
    copy_out("one", str(tree), kept.parent, pytest.fail)
    assert (kept.stat().st_mode, (kept / "data").exists()) == (mode, True)


def test_many_members_take_no_room(programs, tmp_path, monkeypatch):
    """What has been made is forgotten."""
    send(programs, archive(*[("t", DIR, "")] * 50))
    kept = []
    place = unpacking._path_of
    opened = tarfile.open

    def open_(*args, **options):
        kept.append(opened(*args, **options))
        return kept[-1]

    monkeypatch.setattr(tarfile, "open", open_)
    monkeypatch.setattr(
        unpacking,
        "_path_of",
        lambda *args: (kept.append(len(vars(kept[0])["members"])), place(*args))[1],
    )
    copy_out("one", "/t", tmp_path / "target", pytest.fail)
    assert kept[1:] == [0] * 50
