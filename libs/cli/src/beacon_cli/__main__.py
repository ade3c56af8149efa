"""`python -m beacon_cli` is the `beacon` command."""

from beacon_cli import main

if __name__ == "__main__":
    main()
