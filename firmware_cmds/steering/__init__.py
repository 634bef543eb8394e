"""Commands on flow tables and on what their entries refer to."""
