"""The event log of a service: its records, the interface of a store, SQLite and PostgreSQL."""
