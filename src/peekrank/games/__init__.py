"""Theory as software: finite games of partial monitoring, their classes, and proofs of them."""
