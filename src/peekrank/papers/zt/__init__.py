"""Tables and claims of Zhang & Tewari."""
