"""Jianmu inside other frameworks."""
