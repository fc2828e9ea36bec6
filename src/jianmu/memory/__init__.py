"""The memory of an agent."""
