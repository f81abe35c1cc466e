"""The dashboard: the page that shows people a running service."""
