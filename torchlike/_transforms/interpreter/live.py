"""Numbers that change from call to call: they enter a program as inputs, not as constants."""


class Live:
    """The part of the interpreter that knows which numbers change."""

    def live(self, value, kind, holder, key):
        """A value that was just read, as a number that later calls read anew if it has changed before."""
        return value

    def plain(self, x):
        """A number as a constant of the program."""
        return x

    def numbers_of(self, f, args, kwargs):
        """The arguments of something that is not interpreted."""
        return args, kwargs
