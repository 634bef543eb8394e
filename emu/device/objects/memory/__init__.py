"""Guest memory as the device knows it: pages, views, keys."""
