"""What wiretape can do besides its core: `wiretape.viewer.contracts`."""
