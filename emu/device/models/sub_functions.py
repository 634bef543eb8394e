"""Adapters with sub-functions: the capabilities of their manager and of each sub-function.

Sub-functions are an option of an adapter with an embedded switch, see :func:`with_sub_functions`.
``emu/device/adapter/README.md`` describes the driver's use of them.
"""

from __future__ import annotations

from dataclasses import replace

from emu.device.models.adapters import LINKS
from emu.device.models.model import Capabilities, Model, group
from emu.device.models.switching import with_switch

MAX_SUB_FUNCTIONS = 256
FIRST_NUMBER = 0x8000
"""vPort number of the first sub-function (sf_base_id)."""
LOG_BYTES = 20
"""Log size of each BAR 2 slot, in bytes: an initialization segment and 254 UAR pages."""
_LOG_PAGE = 12

_EVENTS = ("allocated", "active", "in_use", "teardown_request")


def with_sub_functions(model: Model, limit: int) -> Model:
    """Return the model with a switch and up to ``limit`` sub-functions, 1 to MAX_SUB_FUNCTIONS.

    Raises ValueError for a model that can have no switch; ``limit`` is not checked.
    """
    model = with_switch(model)
    general = {
        "sf": 1,
        "max_num_sf": limit,
        "log_max_sf": (limit - 1).bit_length(),
        "sf_base_id": FIRST_NUMBER,
        "log_min_sf_size": LOG_BYTES - _LOG_PAGE,
        "vhca_state": 1,
        **{f"event_on_vhca_state_{state}": 1 for state in _EVENTS},
    }
    return model.extended(general=general, general_2=_event_queues(model))


def _event_queues(model: Model) -> Capabilities:
    """Return max_num_eqs_24b, the limit that a manager sets for its sub-functions (max_io_eqs)."""
    return {"max_num_eqs_24b": model.general["max_num_eqs"]}


def sub_function_of(model: Model) -> Model:
    """Return the model of an adapter's sub-functions, with the capabilities of a virtual function.

    A sub-function has no device memory, because its slot of BAR 2 has none. Raises KeyError for a
    model without a virtual function.
    """
    vf = LINKS[f"{model.name}-vf"][model.port_type]
    return replace(
        vf.extended(
            general={"device_memory": 0}, general_2=group(_event_queues(vf), sf_eq_usage=1)
        ),
        name=f"{model.name}-sf",
        title=f"{model.title} SF",
        device_memory=group(),
        bar0_size=1 << LOG_BYTES,
    )
