"""`python -m beacon_client` is the `beacon` command."""

from beacon_client.cli import main

if __name__ == "__main__":
    main()
