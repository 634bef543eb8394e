"""Files that the user has us write, where others may have put a symbolic link."""

import errno
from pathlib import Path

import pytest

from emu.host.userfiles import open_outfile, write_outfile

pytestmark = pytest.mark.hostile


@pytest.fixture(params=[0o1777, 0o777])
def shared(request, tmp_path):
    directory = tmp_path / "shared"
    directory.mkdir()
    directory.chmod(request.param)
    return directory


def test_a_link_that_somebody_may_have_put_there(shared, tmp_path):
    target = tmp_path / "precious"
    target.write_text("precious")
    (shared / "trace").symlink_to(target)
    with pytest.raises(OSError, match="symbolic links") as error:
        write_outfile(shared / "trace", "ours")
    assert error.value.errno == errno.ELOOP
    assert error.value.filename == str(shared / "trace")
    assert target.read_text() == "precious"


def test_a_link_to_nothing_makes_nothing(shared, tmp_path):
    (shared / "trace").symlink_to(tmp_path / "new")
    with pytest.raises(OSError, match="symbolic links"):
        open_outfile(shared / "trace")
    assert not (tmp_path / "new").exists()


def test_links_of_the_users_own(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write_outfile(tmp_path / "link", "longer than it")
    write_outfile(tmp_path / "link", "this")
    assert (tmp_path / "file").read_text() == "this"


def test_standard_output_is_a_file_too(capfd):
    write_outfile(Path("/dev/stdout"), "text")
    assert capfd.readouterr().out == "text"


def test_an_ordinary_file(shared):
    write_outfile(shared / "trace", "text")
    assert (shared / "trace").read_text() == "text"
