"""Commands on queue pairs (PRM "Queue pairs"; hw/qp.c)."""
