"""Suites and tools for tests of code that uses or extends Jianmu."""
