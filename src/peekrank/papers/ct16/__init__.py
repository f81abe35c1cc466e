"""Chaudhuri & Tewari 2016."""
