"""Runs a behaviour tree, saves it, and resumes it."""
