"""Byte layouts: the structures of the PRM, declared once. The package imports no other of ours."""
