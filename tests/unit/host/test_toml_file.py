"""TOML files of users, whatever they contain."""

import pytest
from pydantic import BaseModel

from emu.host.toml_file import TomlFile
from emu.host.user_error import WRONG_USE, UserError


class Model(BaseModel):
    """A file with one number, a path, and a list of lists."""

    size: int = 0
    path: str = ""
    rows: list[list[int]] = []


@pytest.mark.hostile
@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        (f"size = {'9' * 5000}", 1, "invalid TOML: Exceeds the limit"),
        (f"size = 0x{'f' * 5000}", 1, "size: an integer of TOML has 64 bits"),
        (f"size = 1\nrows = [[1], [0x{'f' * 5000}]]", 2, "rows: an integer of TOML has 64 bits"),
        (f"rows = {'[' * 5000}", 1, "invalid TOML: "),
        ('size = 1\npath = "a\\u0000b"', 2, "path: a string without NUL is needed"),
    ],
)
def test_values_that_are_of_no_use(tmp_path, text, line, why):
    path = tmp_path / "file.toml"
    path.write_text(text)
    with pytest.raises(UserError) as caught:
        TomlFile(path, Model, {})
    assert str(caught.value).startswith(f"{path}:{line}: {why}")
    assert caught.value.status == WRONG_USE


def test_the_largest_integers(tmp_path):
    path = tmp_path / "file.toml"
    path.write_text(f"size = {(1 << 64) - 1}\nrows = [[{-(1 << 63)}]]")
    content = TomlFile(path, Model, {}).content
    assert (content.size, content.rows) == ((1 << 64) - 1, [[-(1 << 63)]])
