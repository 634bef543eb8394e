"""What the bytes look like: the structures of the PRM, declared once. Imports nothing of ours."""
