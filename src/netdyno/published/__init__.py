"""Figures of published papers, beside what the same question gives today."""
