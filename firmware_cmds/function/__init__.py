"""Commands on a function as a whole: its life, capabilities, pages, vPorts and GIDs."""
