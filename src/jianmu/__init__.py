"""Jianmu: the memory system, and the runtime it lives in, for LLM agents that run as behaviour trees."""
