"""Recorded requests, sent again to their API or to another one."""

from wiretape.viewer.contracts import Command, Wing

WING = Wing((
    Command(
        "resend", f"{__name__}.command:resend", "Replay", "serve", "Send recorded requests again, to compare answers.",
        ("resend @ --dry-run", "resend @s -n 3 --rate 2 --dry-run",
         "resend -f is:ok --to http://127.0.0.1:8000 --max-requests 100 --dry-run"),
    ),
))  # fmt: skip
