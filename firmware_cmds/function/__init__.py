"""Commands on a function: bring-up, capabilities, pages, vPorts and GIDs."""
