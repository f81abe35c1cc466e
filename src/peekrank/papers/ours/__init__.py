"""Claims of this project that go beyond the papers."""
