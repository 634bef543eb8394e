"""A guest's options in the record of its faults, from which a replay restores the guest."""

from __future__ import annotations

from collections.abc import Mapping

from emu.guests.options.guest import GuestOptions, options
from emu.model_words import first_in_words


def recorded(chosen: GuestOptions) -> dict[str, object]:
    """Return the recorded options of a guest, by their keys."""
    fields = vars(chosen)
    return {one.word: one.kind.recorded(one.name, fields) for one in options() if one.is_recorded}


def options_of(run: Mapping[str, object]) -> dict[str, object]:
    """Return the options of a record's guest by their names; options without a value are left out.

    Unknown keys of the record are ignored. Raises :class:`ValueError` for invalid values.
    """
    # The checks take a tenth of a second to import; only a replay needs them.
    from pydantic import ValidationError

    from emu.guests.options.tables import OptionTable, with_keys

    words = [one for one in options() if one.is_recorded]
    known = {one.word: run[one.word] for one in words if run.get(one.word) is not None}
    if isinstance(kernel := known.get("kernel"), str):
        known["kernel"] = [kernel]
    try:
        parsed = with_keys(OptionTable, words).model_validate(known)
    except ValidationError as error:
        raise ValueError(first_in_words(error)) from None
    return parsed.given()
