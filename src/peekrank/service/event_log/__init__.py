"""The log of a service: its records, the protocol of a store, and the stores for SQLite and PostgreSQL."""
