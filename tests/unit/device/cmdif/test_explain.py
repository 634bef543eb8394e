"""From a syndrome back to the sentence: every refusal in the sources, and no two alike."""

from collections import Counter, defaultdict

import pytest
from click.testing import CliRunner

import emu
import firmware_cmds
from emu.cli.commands.functions.explain import commands_of
from emu.cli.main import main
from emu.device.cmdif.reasons import Reason, ReasonError, collect, kinds, reasons_in
from emu.device.errors import syndrome_of
from emu.device.models import MODELS
from emu.device.state.tables import ObjectTables
from layouts.enums.cmd import Status


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
    fixed = [reason for reason in reasons if reason.text != "fault injected"]
    assert {reason.status for reason in fixed} <= set(Status.__members__)


def test_no_res_err_is_for_pages_and_places_alone(reasons):
    """A table that is full is a limit (LIM_ERR, ENOMEM); NO_RES_ERR is EAGAIN to the driver."""
    found = {reason.text for reason in reasons if reason.status == Status.NO_RES_ERR.name}
    assert found == {
        "firmware has too few pages", "device memory is not free", "software ICM is not free",
        "physical function has no pages for this function",
    }  # fmt: skip


def test_kinds_are_those_of_the_tables(reasons):
    tables = ObjectTables(MODELS["connectx6dx"]).tables
    assert {table.kind for table in tables} <= set(kinds())
    assert {"pd", "modify header context"} <= set(kinds())
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

    def test_the_status_of_most_refusals(self):
        source = "def f():\n    raise BadParamError('odd', f'{1}')\n"
        assert list(reasons_in(source, "emu.x")) == [
            Reason("odd", "BAD_PARAM_ERR", "emu.x", 2, "f")
        ]

    def test_constant_of_the_module_and_qualified_call(self):
        source = "WHY = 'not ours'\ndef f():\n    return errors.CmdError(Status.LIM_ERR, WHY)\n"
        (reason,) = reasons_in(source, "emu.x")
        assert (reason.text, reason.status, reason.function) == ("not ours", "LIM_ERR", "f")

    def test_what_a_class_of_refusals_says(self):
        source = (
            "class Injected(errors.CmdError):\n"
            "    def __init__(self, status):\n"
            "        super().__init__(status, 'injected')\n"
        )
        (reason,) = reasons_in(source, "emu.x")
        assert (reason.text, reason.status, reason.function) == ("injected", "", "Injected")

    def test_kinds_fill_in(self):
        source = "def f(self):\n    raise CmdError(Status.LIM_ERR, f'{self.kind} is odd')\n"
        assert [reason.text for reason in reasons_in(source, "m")] == [
            f"{kind} is odd" for kind in kinds()
        ]

    @pytest.mark.parametrize(
        "call",
        [
            "CmdError(S.X, f'{n} of {m}')",
            "CmdError(S.X, why)",
            "CmdError(S.X, reason='named')",
            "BadParamError(why)",
        ],
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
        assert place.startswith("  firmware_cmds/objects/eq.py:")
        assert place.endswith(" create_eq: CREATE_EQ")

    def test_every_place_of_a_reason(self, explain, reasons):
        [(text, _)] = Counter(reason.text for reason in reasons).most_common(1)
        places = [reason for reason in reasons if reason.text == text]
        result = explain(hex(syndrome_of(text)))
        assert len(result.output.splitlines()) == 1 + len(places) > 2

    def test_core_says_so(self, explain):
        result = explain(hex(syndrome_of("no such pd")))
        assert "emu/device/objects/table.py" in result.output
        assert "any command that calls it" in result.output

    def test_unknown(self, explain):
        result = explain("0xffffffff")
        assert result.exit_code == 1
        assert result.output.startswith("mlx5emu: 0xffffffff is unknown to this version")

    def test_of_another_version(self, explain):
        """A reason that has been reworded since: its old syndrome means nothing any more."""
        result = explain(hex(syndrome_of("flow group by criteria only")))
        assert result.exit_code == 1
        assert "the log is from another version or a real adapter" in result.output

    @pytest.mark.parametrize("text", ["no such modify header context", "fault injected"])
    def test_reasons_that_handlers_do_not_write(self, explain, text):
        result = explain(hex(syndrome_of(text)))
        assert result.exit_code == 0
        assert text in result.output

    @pytest.mark.parametrize("word", ["pd", "0", "0x", "-1", "1" * 40])
    def test_no_number(self, explain, word):
        result = explain("--", word)
        assert result.exit_code == 2
        assert "has no syndrome, such as" in result.output


LINE = (
    "[   12.3] mlx5_core 0000:01:00.0: mlx5_cmd_out_err:803:(pid 17): {}(0x{:x}) op_mod(0x0)"
    " failed, status {}(0x{:x}), syndrome (0x{:x}), err(-22)"
)


class TestLine:
    """What the driver prints (core/cmd.c: mlx5_cmd_out_err), as dmesg shows it."""

    def test_names_the_line_s_command_alone(self, explain):
        synd = syndrome_of("no such pd")
        result = explain(LINE.format("CREATE_MKEY", 0x200, "bad resource", 5, synd))
        assert result.exit_code == 0
        head, *places = result.output.splitlines()
        assert head.endswith("BAD_RES_ERR: no such pd")
        assert places
        assert all(place.endswith(": CREATE_MKEY") for place in places)

    def test_words_of_a_shell_that_split_it(self, explain):
        synd = syndrome_of("log_eq_size above log_max_eq_sz")
        result = explain(*LINE.format("CREATE_EQ", 0x301, "limits exceeded", 8, synd).split())
        assert result.output.splitlines()[1].endswith(" create_eq: CREATE_EQ")

    def test_status_that_does_not_fit(self, explain):
        synd = syndrome_of("no such pd")
        result = explain(LINE.format("CREATE_MKEY", 0x200, "bad parameter", 3, synd))
        assert result.exit_code == 1
        assert "never has status BAD_PARAM_ERR in this version" in result.output

    def test_status_of_a_kind_s_own(self, explain, reasons):
        for reason in (one for one in reasons if one.text.endswith("is still in use")):
            status = Status[reason.status]
            result = explain(LINE.format("DESTROY_CQ", 0x401, "x", status, reason.syndrome))
            assert f"{reason.status}: {reason.text}" in result.output

    def test_injected_with_any_status(self, explain):
        synd = syndrome_of("fault injected")
        result = explain(LINE.format("CREATE_CQ", 0x400, "bad packet", 0x30, synd))
        assert "any status: fault injected" in result.output

    @pytest.mark.parametrize(
        ("synd", "said"), [(0xBADD00DE, "is set by the driver"), (0, "no check of the adapter")]
    )
    def test_not_of_the_adapter(self, explain, synd, said):
        result = explain(LINE.format("CREATE_CQ", 0x400, "internal error", 1, synd))
        assert result.exit_code == 1
        assert said in result.output

    def test_line_without_syndrome(self, explain):
        assert explain("mlx5_core 0000:01:00.0: firmware version: 20.43.2000").exit_code == 2


class TestErrors:
    """Vendor and hardware syndromes, in what logs print of them."""

    @pytest.mark.parametrize(
        ("line", "said"),
        [
            (
                "[ 1.2] rocep2s0/1: QP 137 error: unrecognized status (0x22 0x0 0x95)",
                "vendor syndrome 0x22, hardware syndrome 0/149: WQ_ACCESS_ERROR of a queue pair: a"
                " request names remote memory that its key does not grant (public logs of real"
                " adapters have it)",
            ),
            (
                "mlx5_0/1: QP 5 error: unrecognized status (0x41 0x0 0x0)",
                "vendor syndrome 0x41, hardware syndrome 0/0: WQ_CATAS_ERROR of a queue pair: its"
                " completion queue is full and takes no completions (public logs of real adapters"
                " have it)",
            ),
            (
                "Local protection on mlx5_0:1/IB (synd 0x4 vend 0x52 hw_synd 0/146)",
                "vendor syndrome 0x52, hardware syndrome 0/146: LOCAL_PROT_ERR of a requester: data"
                " to send: no such key (public logs of real adapters have it)",
            ),
            (
                "00000030: 00 00 00 00 60 10 68 01 0a 00 1d bb 00 0f 9f d2",
                "vendor syndrome 0x68, hardware syndrome 1/96: LOCAL_LENGTH_ERR of a requester: the"
                " request is too long, or lacks its headers (public logs of real adapters"
                " have it)",
            ),
            (
                "00000000 00008716 0a001f8e 000027d2",
                "vendor syndrome 0x87, hardware syndrome 0/0: RNR_RETRY_EXC_ERR of a requester: the"
                " peer has no receive request, and no retry left (public logs of real adapters"
                " have it)",
            ),
            (
                "NET/IB: Got completion with error 12, opcode 0, len 0, vendor err 129",
                "vendor syndrome 0x81: TRANSPORT_RETRY_EXC_ERR of a requester: no response, and no"
                " retry left (public logs of real adapters have it)",
            ),
            (
                "0x83",
                "vendor syndrome 0x83: BAD_RESP_ERR of a requester: the peer's response is wrong (a"
                " guess)",
            ),
        ],
    )  # fmt: skip
    def test_line(self, explain, line, said):
        result = explain(line)
        assert (result.exit_code, result.output.splitlines()) == (0, [said])

    @pytest.mark.parametrize(
        ("line", "errors"),
        [
            ("Failed status 4: wr_id 0 syndrom 0x51",
             ["LOCAL_PROT_ERR of a requester", "LOCAL_PROT_ERR of a requester",
              "WQ_CATAS_ERROR of a queue pair"]),
            ("Error cqe on cqn 0x817, ci 0x8, qn 0x1dbb, opcode 0xd, syndrome 0x1,"
             " vendor syndrome 0x68",
             ["LOCAL_LENGTH_ERR of a requester", "LOCAL_QP_OP_ERR of a requester"]),
            ("vendor_err 0x32, hw unknown", ["LOCAL_PROT_ERR of a requester"] * 3
             + ["LOCAL_PROT_ERR of a responder"] * 4 + ["LOCAL_ACCESS_ERR of a responder"]),
        ],
    )  # fmt: skip
    def test_several(self, explain, line, errors):
        result = explain(line)
        assert [said.split(": ")[1] for said in result.output.splitlines()] == errors

    def test_codes_that_do_not_go_together(self, explain):
        """As of another firmware: what each of them stands for."""
        result = explain("Local protection on mlx5_0:1/IB (synd 0x4 vend 0x53 hw_synd 0/169)")
        first, *others = result.output.splitlines()
        assert first.startswith("vendor syndrome 0x53: LOCAL_PROT_ERR")
        assert others
        assert all(line.startswith("hardware syndrome 0/169: ") for line in others)

    def test_unknown(self, explain):
        result = explain("QP 1 error: unrecognized status (0xee 0x0 0xee)")
        assert result.exit_code == 1
        assert (
            "vendor syndrome 0xee, hardware syndrome 0/238: mlx5emu does not use these codes"
            in result.output
        )

    def test_no_command_has_a_syndrome_of_one_byte(self, reasons):
        assert min(reason.syndrome for reason in reasons) > 0xFF
