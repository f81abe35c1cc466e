"""Figures, tables and claims of Chaudhuri & Tewari 2016."""
