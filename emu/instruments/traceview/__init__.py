"""Views of a stored trace: Perfetto's JSON, and a page for any browser."""
