"""Selective repeat: what a requester learns of its peer from ACKs."""

from emu.device.engine.rc.packets.selective import MAX_MISSES, SelectiveRepeat
from layouts.wire.bth import PSN_MASK

LOST, END = PSN_MASK, 9
AFTER = 0
"""The PSN after the lost one."""


def lose(selective, una):
    """One loss, and the ACK for what was sent again."""
    assert selective.is_worth_trying
    selective.repeated(LOST, END)
    return selective.was_in_vain(una)


def test_progress_without_a_loss_says_nothing():
    assert not SelectiveRepeat().was_in_vain(5)


def test_a_peer_that_keeps_packets_needs_no_more():
    selective = SelectiveRepeat()
    for una in (1, END - 1, END):
        assert not lose(selective, una)


def test_a_peer_that_keeps_none_gets_all_again_and_is_tried_a_few_times_only():
    selective = SelectiveRepeat()
    for _ in range(MAX_MISSES):
        assert lose(selective, AFTER)
    assert not selective.is_worth_trying


def test_the_newest_packet_says_nothing_of_the_peer():
    selective = SelectiveRepeat()
    selective.repeated(LOST, AFTER)
    assert not selective.was_in_vain(AFTER)
    assert lose(selective, AFTER)


def test_packets_lost_in_a_row_are_sent_again_one_by_one_but_not_for_long():
    selective = SelectiveRepeat()
    assert not lose(selective, END)
    found = [lose(selective, AFTER) for _ in range(MAX_MISSES)]
    assert found == [False] * (MAX_MISSES - 1) + [True]
    assert selective.is_worth_trying  # it has kept packets before


def test_one_answer_is_looked_at_once():
    selective = SelectiveRepeat()
    assert lose(selective, AFTER)
    assert not selective.was_in_vain(1)


def test_after_going_back_the_answer_says_nothing():
    selective = SelectiveRepeat()
    selective.repeated(LOST, END)
    selective.forget()
    assert not selective.was_in_vain(AFTER)
