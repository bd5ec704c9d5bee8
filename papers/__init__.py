"""The papers' tables: grids of runs, claims, estimates, reported figures and their report."""
