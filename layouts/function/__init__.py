"""A function as a whole: initialization segment, capabilities, pages, vPorts, GIDs."""
