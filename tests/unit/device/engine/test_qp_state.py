"""The transition table of queue pairs by itself, against the modify commands' own layouts."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.device.engine.qp.transitions import TRANSITIONS, apply, selection
from emu.device.errors import CmdError
from layouts.enums.cmd import Op
from layouts.enums.qp import QpState
from layouts.objects.qp import ads, qpc

MODIFY = [op for op, row in TRANSITIONS.items() if row.required or row.sources == {row.target}]
NESTED = {"primary_address_path", "secondary_address_path"}
QPC_FIELDS = {field.name for field in qpc.fields} - NESTED
PATH_FIELDS = {field.name for field in ads.fields}
HANDLES = {"pd", "cqn_snd", "cqn_rcv", "uar_page", "srqn_rmpn_xrqn", "xrcd", "dbr_addr", "st"}


def ones(prm):
    """A structure with every bit of every named field set."""
    view = prm.new()
    for field in prm.fields:
        if field.name in NESTED:
            setattr(view, field.name, bytes(ones(ads)))
        elif prm is ads and field.name == "rgid_rip":
            view.rgid_rip = b"\xff" * 16
        else:
            setattr(view, field.name, (1 << field.width) - 1)
    return view


def selectable(op):
    """The mask of all bits that a transition has."""
    mask = 0
    for bit in range(32):
        try:
            selection(op, 1 << bit)
        except CmdError:
            continue
        mask |= 1 << bit
    return mask


SELECTABLE = {op: selectable(op) for op in MODIFY}


def changed(before, after):
    """Names of the fields that differ, those of the path with a prefix."""
    names = {name for name in QPC_FIELDS if getattr(before, name) != getattr(after, name)}
    old, new = before.primary_address_path, after.primary_address_path
    return names | {f"path.{n}" for n in PATH_FIELDS if getattr(old, n) != getattr(new, n)}


@pytest.mark.parametrize("op", TRANSITIONS, ids=lambda op: op.name)
def test_rows_name_fields_that_exist(op):
    row = TRANSITIONS[op]
    assert set(row.required) <= QPC_FIELDS
    assert set(row.path) <= PATH_FIELDS
    assert row.sources <= set(QpState)


@pytest.mark.parametrize("op", MODIFY, ids=lambda op: op.name)
def test_only_what_is_required_changes(op):
    row, ctx = TRANSITIONS[op], qpc.new()
    apply(ctx, ones(qpc), selection(op, 0))
    wanted = set(row.required) | {f"path.{name}" for name in row.path}
    assert changed(qpc.new(), ctx) == wanted


@given(mask=st.integers(0, 0xFFFFFFFF), op=st.sampled_from(MODIFY))
@settings(deadline=None)
def test_no_mask_reaches_what_create_has_fixed(mask, op):
    ctx = qpc.new()
    apply(ctx, ones(qpc), selection(op, mask & SELECTABLE[op]))
    assert not changed(qpc.new(), ctx) & HANDLES


@given(one=st.integers(0, 0xFFFFFFFF), other=st.integers(0, 0xFFFFFFFF))
@settings(deadline=None)
def test_options_add_up(one, other):
    """Each bit selects its own fields, whatever else is selected."""

    def fields(mask):
        ctx = qpc.new()
        apply(ctx, ones(qpc), selection(Op.RTS2RTS_QP, mask & SELECTABLE[Op.RTS2RTS_QP]))
        return changed(qpc.new(), ctx)

    assert fields(one | other) == fields(one) | fields(other)


@pytest.mark.parametrize("name", ["mtu", "log_msg_max"])
def test_zero_mtu_means_as_before(name):
    ctx = qpc.new(**{name: 3})
    apply(ctx, qpc.new(), selection(Op.INIT2RTR_QP, 0))
    assert getattr(ctx, name) == 3
