"""Packets in tunnels: offloads of send WQEs, and inner headers in CQEs."""
