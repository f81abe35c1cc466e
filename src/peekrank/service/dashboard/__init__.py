"""The dashboard: pages about a service and its slots, rendered on the server."""
