"""The decoded context of a key, compared with the fields of its layout."""

from helpers.device.snapshot import slots
from helpers.random.examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.device.objects.memory.key_context import KeyContext
from layouts.memory.mkey import mkc

RENAMED = {
    "start": "start_addr", "length": "len", "octwords": "translations_octword_size",
    "bsf_octwords": "bsf_octword_size", "variant": "mkey_7_0",
}  # fmt: skip
RIGHTS = ("lr", "lw", "rr", "rw", "a")


@settings(max_examples=examples(100))
@given(st.binary(min_size=mkc.size, max_size=mkc.size), st.integers(0, 8))
def test_each_value_is_that_of_its_field(data, before):
    ctx = mkc.view(bytes(before) + data, before)
    decoded = KeyContext(ctx.buf, ctx.base)
    plain = set(slots(KeyContext)) - {"mode", "rights"}
    assert {name: getattr(decoded, name) for name in plain} == {
        name: getattr(ctx, RENAMED.get(name, name)) for name in plain
    }
    assert decoded.mode == ctx.access_mode_4_2 << 2 | ctx.access_mode_1_0
    assert decoded.rights == sum(getattr(ctx, name) << bit for bit, name in enumerate(RIGHTS))
