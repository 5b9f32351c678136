"""`python -m onlooker`."""

from onlooker.cli import main

if __name__ == "__main__":
    main()
