"""Pages for browsers: exchanges as one HTML file each, with all that it needs inside, or served live."""

from wiretape.viewer.contracts import Export, Options, Wing

WING = Wing(
    options=(
        Options(
            "export", "page", f"{__name__}.export:page",
            "--with-text, --with-bodies, --base and --new are for pages: add --html",
        ),
        Options("view", "pages", f"{__name__}.serving:pages"),
    ),
    exports=(
        Export(
            "html", f"{__name__}.export:write", "byte", "a page of any number of exchanges",
            suffix=".html", options="page", is_masked=True, has_operations=True,
            flag="The same as --format html: a page for browsers, of one or many exchanges, in one file.",
            unprintable="a page is for browsers: name its file with -o FILE",
        ),
    ),
)  # fmt: skip
