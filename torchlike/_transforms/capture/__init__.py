"""A function traced once: what it reads and writes, its guards, its program."""
