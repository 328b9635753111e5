"""An interpreter of Python's bytecode, which runs a function while it is captured and watches what it reads."""
