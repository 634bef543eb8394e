"""What --net says, and every mistake in it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emu.server.net.eth.spec import NetSpec, NetSpecError, parse


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("user", NetSpec("user")),
        ("stream=/tmp/a=b", NetSpec("stream", "/tmp/a=b")),
        ("tap=tap0,segment=3", NetSpec("tap", "tap0", 3)),
        ("user,mtu=9000,segment=255", NetSpec("user", segment=255, mtu=9000)),
    ],
)
def test_links(text, spec):
    assert parse(text) == spec


def test_what_passt_is_told():
    options = parse(
        "user,forward=tcp:8080:80,forward=udp:10.0.0.1/53:53,forward=tcp:[::1]/22:22"
    ).passt_options
    assert options == [
        "--mtu", "1500",
        "--tcp-ports", "127.0.0.1/8080:80",
        "--udp-ports", "10.0.0.1/53:53",
        "--tcp-ports", "::1/22:22",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "user, stream=PATH or tap=NAME"),
        ("user=x", "user, stream=PATH or tap=NAME"),
        ("stream", "user, stream=PATH or tap=NAME"),
        ("tap=", "user, stream=PATH or tap=NAME"),
        ("slirp", "user, stream=PATH or tap=NAME"),
        ("tap=a/b", "a name has 1 to 15 bytes"),
        ("tap=sixteen-letters!", "a name has 1 to 15 bytes"),
        ("user,segment=256", "0 to 255"),
        ("user,segment=-1", "0 to 255"),
        ("user,segment=99999999999999999999", "0 to 255"),
        ("user,mtu=68", "1280 to 65520"),
        ("tap=a,mtu=1500", "none of segment"),
        ("user,colour=red", "none of segment, mtu and forward"),
        ("user,forward=tcp:80", "use forward=tcp:"),
        ("user,forward=tcp:0:80", "use forward=tcp:"),
        ("user,forward=tcp:80:65536", "use forward=tcp:"),
        ("user,forward=sctp:80:80", "use forward=tcp:"),
        ("user,forward=tcp:--help/80:80", "use forward=tcp:"),
    ],
)
def test_mistakes(text, why):
    with pytest.raises(NetSpecError, match=why):
        parse(text)


@pytest.mark.hostile
@given(st.text(max_size=60))
def test_any_text_is_a_link_or_a_clear_error(text):
    for said in (text, f"user,{text}", f"user,forward={text}"):
        try:
            spec = parse(said)
        except NetSpecError:
            pass
        else:
            assert not any(word.startswith("--") for word in spec.passt_options[1::2])
