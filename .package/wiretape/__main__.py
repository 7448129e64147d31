"""`python -m wiretape`: the command line."""

from wiretape.viewer.cli import main

if __name__ == "__main__":
    main()
