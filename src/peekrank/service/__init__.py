"""The ranking service: configuration, event log, slots that learn, the HTTP API, clients and the dashboard."""
