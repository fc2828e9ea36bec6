"""The parts of the demo: the shop with its tools, the agent's process, the scripted clerk, the screen."""
