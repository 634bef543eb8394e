"""Which models can have virtual functions, and what those are."""

import pytest

from emu.device.models import LINKS
from emu.device.models.switching import can_switch
from emu.device.models.virtual_functions import (
    VF_BAR_BYTES,
    virtual_function_of,
    with_virtual_functions,
)
from layouts.enums.caps import PortType

LINKED = [(name, link) for name, links in LINKS.items() for link in links]


@pytest.mark.parametrize(("name", "link"), LINKED)
def test_physical_functions_with_a_switch_or_infiniband_can_have_some(name, link):
    model = LINKS[name][link]
    assert model.total_vfs == 0
    if model.identity.is_vf or not (can_switch(model) or link is PortType.IB):
        with pytest.raises(ValueError, match=name):
            with_virtual_functions(model, 4)
        return
    made = with_virtual_functions(model, 4)
    assert made.total_vfs == 4
    assert made.general["vport_group_manager"]
    assert bool(made.general.get("eswitch_manager")) == (link is PortType.ETH)
    vf = virtual_function_of(made)
    assert (vf.identity.is_vf, vf.port_type) == (True, link)
    assert vf.identity.device_id != made.identity.device_id
    assert vf.bar0_size == VF_BAR_BYTES < made.bar0_size
    if vf.device_memory:
        memory = vf.device_memory
        assert memory["memic_bar_start_addr"] + memory["memic_bar_size"] == VF_BAR_BYTES
