"""NeighborhoodWatch2, for locally observable games."""
