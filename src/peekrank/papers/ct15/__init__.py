"""Chaudhuri & Tewari 2015."""
