"""An adapter: the board behind one or several PCI functions."""
