"""What goes beyond the papers."""
