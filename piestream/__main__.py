"""``python -m piestream`` is the command line."""

from piestream.cli import main

if __name__ == "__main__":
    main()
