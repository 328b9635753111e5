"""L3: Storage, Tensor, views, nodes, the engine and dispatch."""
