"""The way of an operator call: public fronts, layers, and the forms of calls."""
