"""Finite games of partial monitoring: losses and feedback, rates, and certificates that prove them."""
