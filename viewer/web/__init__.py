"""The pages of `wiretape.viewer.page` served live to browsers on the same machine, while their tape is recorded."""
