"""``--net`` of ``serve``, the same as that of commands that boot a guest."""

from __future__ import annotations

from emu.cli.options.declared import offered
from emu.guests.options import option_named

net_option = offered(option_named("nets"))
