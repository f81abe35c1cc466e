"""Long work that can be interrupted and resumed: executors on threads and Ray, and the results folder."""
