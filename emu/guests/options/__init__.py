"""The options of a guest: one table for every use of guests.

:class:`GuestOptions` is the table. Its bases, a module for each group of help, have a field for
each option, with its default, its kind, its help, its names and the uses that refuse it. Command
line, lab files, campaign files, the pytest plugin, records and the page README.md are generated
from it.
"""

from emu.guests.options.declare import Option
from emu.guests.options.devices import DEFAULT_DEVICE
from emu.guests.options.guest import GuestOptions, OptionError, option_named, options, server_words
from emu.guests.options.uses import Use

__all__ = [
    "DEFAULT_DEVICE",
    "GuestOptions",
    "Option",
    "OptionError",
    "Use",
    "option_named",
    "options",
    "server_words",
]
