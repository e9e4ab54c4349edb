"""The one exception for mistakes that a user can make and mend."""


class InputError(ValueError):
    """A mistake in what the user gave: the message says what was seen, what was expected and what to do.

    The command line prints the message without a traceback and exits with code 2.
    """
