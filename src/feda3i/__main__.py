"""``python -m feda3i`` is the command ``feda3i``."""

from feda3i.cli import main

if __name__ == "__main__":
    try:
        main()
    finally:
        # If a Ctrl-C passed through exec() of a string, which every dataclass makes at import,
        # CPython 3.11 started with -m dies of the signal and drops our exit code, although the
        # exception was caught. The next exec() makes it forget.
        exec("")
