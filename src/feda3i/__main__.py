"""``python -m feda3i`` is the command ``feda3i``."""

from feda3i.cli import main

if __name__ == "__main__":
    main()
