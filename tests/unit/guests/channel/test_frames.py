"""The messages between host and guest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emu.guests.channel import frames

HELLO = frames.encode(frames.HELLO, 0, frames.MARK + b"6.12.0")
WORDS = st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8")), max_size=5)
FRAMES = st.lists(
    st.tuples(st.integers(2, 255), st.integers(0, 0xFFFF), st.binary(max_size=40)), max_size=8
)


def decoded(decoder, data, cuts=()):
    found = []
    for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        found += decoder.feed(data[begin:end])
    return [(frame.kind, frame.job, frame.payload) for frame in found]


@given(FRAMES, st.data())
def test_frames_survive_being_cut_anywhere(messages, data):
    stream = HELLO + b"".join(frames.encode(*message) for message in messages)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    assert decoded(frames.FrameDecoder(), stream, cuts)[1:] == messages


@pytest.mark.hostile
@given(st.binary(max_size=200), st.data())
def test_whatever_comes_before_hello_is_dropped(noise, data):
    stream = noise + HELLO + frames.encode(frames.PONG)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    found = decoded(frames.FrameDecoder(), stream, cuts)
    assert [kind for kind, _, _ in found] == [frames.HELLO, frames.PONG]


def test_after_a_reboot_a_frame_that_was_cut_short_does_no_harm():
    decoder = frames.FrameDecoder()
    begun = frames.encode(frames.STDOUT, 1, bytes(1000))[:500]
    assert len(decoder.feed(HELLO + begun)) == 1
    decoder.hunt()
    assert [frame.kind for frame in decoder.feed(HELLO)] == [frames.HELLO]


def test_a_mark_inside_another_message_is_no_hello():
    stream = frames.encode(frames.STDOUT, 1, frames.MARK) + HELLO
    assert [kind for kind, _, _ in decoded(frames.FrameDecoder(), stream)] == [frames.HELLO]


def test_the_mark_is_not_in_the_programs_text():
    """A guest that prints this file must not look like one that boots."""
    with open(frames.__file__, "rb") as file:
        assert frames.MARK not in file.read()


def test_a_length_that_no_frame_has_is_refused():
    decoder = frames.FrameDecoder()
    with pytest.raises(frames.ChannelFrameError, match="4294967295"):
        decoder.feed(HELLO + frames.HEADER.pack(frames.STDOUT, 1, 0xFFFFFFFF))
    with pytest.raises(frames.ChannelFrameError):
        frames.encode(frames.RUN, 1, bytes(frames.MAX_PAYLOAD + 1))


@given(WORDS, WORDS, st.booleans())
def test_a_command_survives(argv, environ, has_input):
    payload = frames.encode_command(argv, environ, has_input)
    assert frames.decode_command(payload) == (argv, environ, has_input)


def test_a_word_need_not_be_text():
    word = b"\xff\xfe".decode("utf-8", "surrogateescape")
    assert frames.decode_command(frames.encode_command([word], [], False))[0] == [word]


@pytest.mark.hostile
@given(st.binary(max_size=60))
def test_bytes_that_are_no_command_are_refused(data):
    try:
        argv, environ, has_input = frames.decode_command(data)
    except frames.ChannelFrameError:
        return
    assert frames.encode_command(argv, environ, has_input)[1:] == data[1:]


def test_counts():
    assert frames.decode_count(frames.encode_count(70_000)) == 70_000
    with pytest.raises(frames.ChannelFrameError):
        frames.decode_count(b"abc")
