"""Adapters with sub-functions: the capabilities of their manager and of each sub-function.

Sub-functions are an option of an adapter with an embedded switch, see :func:`with_sub_functions`.
``emu/device/adapter/README.md`` describes the driver's use of them.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from emu.device.models.adapters import LINKS
from emu.device.models.model import Capabilities, Model
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
        **model.general,
        "sf": 1,
        "max_num_sf": limit,
        "log_max_sf": (limit - 1).bit_length(),
        "sf_base_id": FIRST_NUMBER,
        "log_min_sf_size": LOG_BYTES - _LOG_PAGE,
        "vhca_state": 1,
        **{f"event_on_vhca_state_{state}": 1 for state in _EVENTS},
    }
    return replace(
        model, general=MappingProxyType(general), general_2=_with_event_queues(model, {})
    )


def _with_event_queues(model: Model, values: Capabilities) -> Capabilities:
    """Return group GENERAL_2 with ``values`` and with max_num_eqs_24b equal to max_num_eqs.

    A manager sets this limit for its sub-functions (max_io_eqs).
    """
    limit = {"max_num_eqs_24b": model.general["max_num_eqs"]}
    return MappingProxyType({**model.general_2, **limit, **values})


def sub_function_of(model: Model) -> Model:
    """Return the model of an adapter's sub-functions, with the capabilities of a virtual function.

    A sub-function has no device memory, because its slot of BAR 2 has none. Raises KeyError for a
    model without a virtual function.
    """
    vf = LINKS[f"{model.name}-vf"][model.port_type]
    return replace(
        vf,
        name=f"{model.name}-sf",
        title=f"{model.title} SF",
        general=MappingProxyType({**vf.general, "device_memory": 0}),
        general_2=_with_event_queues(vf, {"sf_eq_usage": 1}),
        device_memory=MappingProxyType({}),
        bar0_size=1 << LOG_BYTES,
    )
