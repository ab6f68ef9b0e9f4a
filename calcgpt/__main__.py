"""`python -m calcgpt` is the command `calcgpt`."""

from calcgpt.cli import cli

if __name__ == "__main__":
    cli()
