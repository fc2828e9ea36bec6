"""Leaves and loops of an agent's tree."""
