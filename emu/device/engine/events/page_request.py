"""Request of firmware pages at the driver that gives them (PRM "Page Request Event").

A physical function's driver gives the pages of its virtual functions, too.

Source: core/pagealloc.c: req_pages_handler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.engine.events import eq as eq_engine
from layouts.enums.eqe import EventType
from layouts.rings.eqe import eqe_page_req

if TYPE_CHECKING:
    from emu.device.adapter.adapter import Vhca
    from emu.device.state.hca import Hca


def request(vhca: Vhca[Hca], count: int) -> bool:
    """Request ``count`` pages for a function, or the return of its pages if negative.

    Return False if the driver that gives the pages cannot be asked: its function has failed, or has
    no event queue for PAGE_REQUEST.
    """
    function_id = vhca.vport_number if vhca.is_virtual else 0
    data = eqe_page_req.new(func_id=function_id, num_pages=count & 0xFFFFFFFF)
    giver = vhca.adapter.manager.node if vhca.is_virtual else vhca.node
    assert giver is not None  # both have power
    return eq_engine.raise_event(giver.events, EventType.PAGE_REQUEST, bytes(data))
