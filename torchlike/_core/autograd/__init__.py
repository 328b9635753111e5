"""The graph of nodes, what they save, and the engine that runs it."""
