"""An exchange that has ended, as dashboards and traces take it: three chunks of a chat, 20 ms apart."""

from wiretape.recorder.decode.decoder import decode
from wiretape.recorder.decode.exchange import Exchange, Read
from wiretape.viewer.stats.dashboard import Ended
from wiretape.viewer.stats.tools.request import Judged

MS = 1_000_000
CHUNKS = [b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'] * 3
FACTS = Exchange(200, "text/event-stream", None, "end", None, None, 500 * MS, framing="chunked")


def body(facts=FACTS, pieces=CHUNKS, at=None):
    reads = at or [
        Read(seq, (10 + 20 * seq) * MS, None, seq * len(CHUNKS[0]), len(data)) for seq, data in enumerate(pieces)
    ]
    return decode(facts, reads, b"".join(pieces))


ONE = Ended(
    operation="chat", api="openai.chat", upstream="https://api.example.com/v1", request_model="m",
    response_model="m-2", exchange=FACTS, judged=Judged("complete", None, 500 * MS), body=body(), flags=["stall"],
    input_tokens=7, output_tokens=None,
)  # fmt: skip
