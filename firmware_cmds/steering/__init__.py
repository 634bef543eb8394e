"""Commands on flow tables and on the objects that their entries use."""
