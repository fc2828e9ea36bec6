"""What the model sees: prompts built from state, tools and memory within a token budget."""
