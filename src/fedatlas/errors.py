"""The one exception that users see."""


class FedatlasError(Exception):
    """A failure that the user can act on.

    The message names the file, the key and the value at fault and says what to do; the command
    line prints it without a traceback and exits with status 1.
    """
