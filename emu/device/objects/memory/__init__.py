"""Guest memory from the device's side: pages, views, keys."""
