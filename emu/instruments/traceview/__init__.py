"""A stored trace in forms that are looked at: Perfetto's, and a page for any browser."""
