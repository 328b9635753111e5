"""L5: composite functions, plain Python over operators, in torch's function and method forms."""
