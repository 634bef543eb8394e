"""One PCI function, as the bus sees it: configuration space, BAR 0 and the device behind them."""
