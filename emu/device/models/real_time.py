"""Adapters with a real-time clock: time stamps with the time of day, and pins for pulses (PPS)."""

from __future__ import annotations

from emu.device.models.model import Model

_BOTH_FORMATS = 2
"""Both time stamp formats (MLX5_TIMESTAMP_FORMAT_CAP_FREE_RUNNING_AND_REAL_TIME)."""


def with_real_time(model: Model, stamps: int, pps: int) -> Model:
    """Return the model with real-time time stamps, PPS pins, or both; a VF never gets pins.

    Raises ValueError for a model without a real-time clock.
    """
    if not model.has_real_time:
        raise ValueError(f"{model.name} has no such clock")
    if stamps:
        general = {"sq_ts_format": _BOTH_FORMATS, "rq_ts_format": _BOTH_FORMATS}
        model = model.extended(general=general, roce={"qp_ts_format": _BOTH_FORMATS})
    if pps and not model.identity.is_vf:
        model = model.extended(general={"pps": 1, "pps_modify": 1})
    return model
