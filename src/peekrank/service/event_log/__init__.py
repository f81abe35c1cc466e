"""The log of a service: its records, what a store must do, and the stores there are."""
