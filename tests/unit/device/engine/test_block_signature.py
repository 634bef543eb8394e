"""BSFs: what they may say, and which blocks are not checked."""

import pytest

from emu.device.engine.mr.block_signature import (
    BlockSignature,
    BsfError,
    Domain,
    Escape,
    Form,
    Syndrome,
)
from emu.device.objects.domains import Pd
from emu.device.objects.memory.psv import Psv
from layouts.rings.wqe import bsf

VALID, SAME, WITH_INLINE = 1 << 15, 1 << 4, 2 << 6
CRC32, CRC64 = 0x20 << 24, 0x50 << 24
PSV = Psv(Pd())


def parse(basic, mem=None, wire=None, psv=PSV):
    raw = bytes(
        bsf.new(basic={"bsf_size_sbs": WITH_INLINE} | basic, m_inl=mem or {}, w_inl=wire or {})
    )
    return BlockSignature.parse(raw, lambda number: psv)


def test_a_domain_without_blocks_is_plain_data():
    found = parse({"mem": 1, "m_bfs_psv": CRC32})
    assert (found.mem.form, found.mem.block, found.wire) == (Form.CRC32, 512, None)


@pytest.mark.parametrize(
    ("basic", "psv"),
    [
        ({"bsf_size_sbs": 1 << 6}, PSV),
        ({"mem": 5, "m_bfs_psv": CRC32}, PSV),
        ({"mem": 1, "m_bfs_psv": 0x30 << 24}, PSV),
        ({"mem": 1, "m_bfs_psv": CRC32}, None),
    ],
    ids=["without inline parts", "no such block size", "no such format", "no such PSV"],
)
def test_what_is_not_supported(basic, psv):
    with pytest.raises(BsfError):
        parse(basic, psv=psv)


@pytest.mark.parametrize(("flags", "kind"), [(0, 1), (VALID, 0), (VALID, 3), (0, 0)])
def test_tags_without_their_description(flags, kind):
    good = {"vld_refresh": VALID, "sig_type": 1}
    assert parse({"mem": 1}, mem=good).mem.form is Form.T10_CRC
    with pytest.raises(BsfError, match="without its inline segment"):
        parse({"mem": 1}, mem=good | {"vld_refresh": flags, "sig_type": kind})


@pytest.mark.parametrize(
    ("m_bfs_psv", "w_bfs_psv", "block"), [(CRC32, CRC64, 1), (CRC64, CRC32, 1), (CRC32, CRC32, 0)]
)
def test_the_same_structure_has_signatures_of_one_size(m_bfs_psv, w_bfs_psv, block):
    same = {"bsf_size_sbs": WITH_INLINE | SAME, "mem": 1, "m_bfs_psv": CRC32, "w_bfs_psv": CRC32}
    assert parse(same).wire.size == 4
    wrong = {"mem": block, "m_bfs_psv": m_bfs_psv, "w_bfs_psv": w_bfs_psv}
    with pytest.raises(BsfError, match="same structure"):
        parse(same | wrong)


@pytest.mark.parametrize(
    ("escape", "app_tag", "ref_tag", "is_checked"),
    [
        (None, 0xFFFF, 0xFFFFFFFF, True),
        (Escape.APP, 0xFFFF, 5, False),
        (Escape.APP, 0xFFFE, 0xFFFFFFFF, True),
        (Escape.APP_AND_REF, 0xFFFF, 0xFFFFFFFF, False),
        (Escape.APP_AND_REF, 0xFFFF, 5, True),
        (Escape.APP_AND_REF, 7, 0xFFFFFFFF, True),
    ],
)
def test_tags_that_exempt_a_block(escape, app_tag, ref_tag, is_checked):
    domain = Domain(Form.T10_CRC, 512, PSV, escape=escape)
    found = 0xBAD << 48 | app_tag << 32 | ref_tag
    wrong = domain.compare(found, 0x600D << 48 | app_tag << 32 | ref_tag, (1 << 64) - 1)
    assert wrong == (Syndrome.GUARD if is_checked else 0)
