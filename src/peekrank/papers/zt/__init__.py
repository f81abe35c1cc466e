"""Zhang & Tewari."""
