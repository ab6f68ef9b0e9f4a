"""What can be wrong with what a person gave. Each message is one clear line."""


class UserError(Exception):
    """Something a person gave is wrong; the message says what, in one line."""


class NotationError(UserError):
    """Text that is not in the notation, or a number that the notation cannot hold.

    `position` is the 0-based index of the first offending character: up to there the text is the
    beginning of something valid. It equals the text's length where the text merely ends too early.
    """

    def __init__(self, reason: str, position: int) -> None:
        super().__init__(reason, position)  # both in `args`, so that the error can be pickled
        self.reason = reason
        self.position = position

    def __str__(self) -> str:
        return f"{self.reason} at position {self.position}"


class DatasetError(UserError):
    """A data set that cannot be made, continued or read."""


class ConfigError(UserError):
    """A recipe, an override or a name in a config is not valid."""


class DataError(UserError):
    """A data file cannot be read, or is not what the recipe needs."""
