"""Doorbells: the words that a driver writes to a UAR page.

Source: PRM "UAR page format"; cq.h (``mlx5_cq_arm``), core/eq.c (``eq_update_ci``) and hw/wr.c
(``mlx5r_ring_db``, which rings with the first 8 bytes of the WQE's control segment) of Linux 6.12.
"""

from __future__ import annotations

from layouts.prm import Prm, bits, rsvd

# fmt: off

class eq_doorbell(Prm): eqn = bits(8); ci = bits(24)

class cq_doorbell(Prm):
    _ = rsvd(2); sn = bits(2); _ = rsvd(3); solicited_only = bits(1); ci = bits(24)
    _ = rsvd(8); cqn = bits(24)

class send_doorbell(Prm):
    opmod = bits(8); wqe_index = bits(16); opcode = bits(8)
    qpn = bits(24); _ = rsvd(2); ds = bits(6)
