"""From a syndrome back to the sentence: every refusal in the sources, and no two alike."""

from collections import Counter, defaultdict

import pytest
from click.testing import CliRunner

import emu
import firmware_cmds
from emu.cli.commands.explain import commands_of
from emu.cli.main import main
from emu.cmdif.reasons import Reason, ReasonError, collect, kinds, reasons_in
from emu.errors import syndrome_of


@pytest.fixture(scope="module")
def reasons():
    return collect(emu, firmware_cmds)


@pytest.fixture
def explain():
    return lambda *words: CliRunner().invoke(main, ["explain", *words])


def test_no_two_reasons_share_a_syndrome(reasons):
    texts = defaultdict(set)
    for reason in reasons:
        texts[reason.syndrome].add(reason.text)
    assert [found for found in texts.values() if len(found) > 1] == []
    assert len(texts) > 50


def test_every_status_is_one(reasons):
    from layouts.enums import Status

    assert {reason.status for reason in reasons} <= set(Status.__members__)


def test_kinds_are_those_of_the_tables(reasons):
    assert {"pd", "cq", "qp", "mkey", "counter set"} <= set(kinds())
    texts = {reason.text for reason in reasons}
    for kind in kinds():
        assert {f"no such {kind}", f"out of {kind} handles", f"{kind} is still in use"} <= texts


class TestSources:
    def test_constant_string_and_place(self):
        source = (
            "class Table:\n"
            "    def need(self):\n"
            "        raise CmdError(Status.BAD_RES_ERR, 'gone', f'{1}')\n"
        )
        assert list(reasons_in(source, "emu.x")) == [
            Reason("gone", "BAD_RES_ERR", "emu.x", 3, "Table.need")
        ]

    def test_constant_of_the_module_and_qualified_call(self):
        source = "WHY = 'not ours'\ndef f():\n    return errors.CmdError(Status.LIM_ERR, WHY)\n"
        (reason,) = reasons_in(source, "emu.x")
        assert (reason.text, reason.status, reason.function) == ("not ours", "LIM_ERR", "f")

    def test_kinds_fill_in(self):
        source = "def f(self):\n    raise CmdError(Status.LIM_ERR, f'{self.kind} is odd')\n"
        assert [reason.text for reason in reasons_in(source, "m")] == [
            f"{kind} is odd" for kind in kinds()
        ]

    @pytest.mark.parametrize(
        "call",
        ["CmdError(S.X, f'{n} of {m}')", "CmdError(S.X, why)", "CmdError(S.X, reason='named')"],
    )
    def test_reason_that_is_no_fixed_text(self, call):
        with pytest.raises(ReasonError, match=r"emu\.x, line 2"):
            list(reasons_in(f"\n{call}\n", "emu.x"))


class TestCommands:
    def test_of_the_handler_itself(self, reasons):
        (reason,) = (one for one in reasons if one.text == "log_eq_size above log_max_eq_sz")
        assert commands_of(reason) == ["CREATE_EQ"]

    def test_of_the_file_for_its_other_functions(self, reasons):
        (reason,) = (
            one for one in reasons if one.text == "list of translations is longer than the key"
        )
        assert "CREATE_MKEY" in commands_of(reason)

    def test_none_for_the_core(self, reasons):
        assert not commands_of(next(one for one in reasons if one.text == "no such pd"))


class TestCommandLine:
    @pytest.mark.parametrize("form", ["{:#x}", "{:x}", "({:#x}),", "0X{:X}"])
    def test_explains(self, explain, form):
        result = explain(form.format(syndrome_of("log_eq_size above log_max_eq_sz")))
        assert result.exit_code == 0
        head, place = result.output.splitlines()
        assert head.endswith(" LIM_ERR: log_eq_size above log_max_eq_sz")
        assert place.startswith("  firmware_cmds/eq.py:")
        assert place.endswith(" create_eq: CREATE_EQ")

    def test_every_place_of_a_reason(self, explain, reasons):
        [(text, _)] = Counter(reason.text for reason in reasons).most_common(1)
        places = [reason for reason in reasons if reason.text == text]
        result = explain(hex(syndrome_of(text)))
        assert len(result.output.splitlines()) == 1 + len(places) > 2

    def test_core_says_so(self, explain):
        result = explain(hex(syndrome_of("no such pd")))
        assert "emu/objects/table.py" in result.output
        assert "any command that gets there" in result.output

    def test_unknown(self, explain):
        result = explain("0xffffffff")
        assert result.exit_code == 1
        assert result.output.startswith("mlx5emu: 0xffffffff is no syndrome of this version")

    def test_of_another_version(self, explain):
        """A reason that has been reworded since: its old syndrome means nothing any more."""
        result = explain(hex(syndrome_of("flow group by criteria only")))
        assert result.exit_code == 1
        assert "the log comes from another version, or from a real adapter" in result.output

    @pytest.mark.parametrize("word", ["pd", "0", "0x", "-1", "1" * 40])
    def test_no_number(self, explain, word):
        result = explain("--", word)
        assert result.exit_code == 2
        assert "is no syndrome, such as" in result.output
