"""NeighborhoodWatch2, for locally observable finite games."""
