"""The upstream from which the tapes of this suite are recorded: the demo's, which limits the rate of one prompt.

Run as `python -m tests.sdk_suite.upstream`; it serves until it is stopped.
"""

import asyncio

from wiretape.recorder.demo import scenes
from wiretape.recorder.demo.upstream import ReceivedRequest, Scene, ScriptedUpstream, answer

LIMITED = b"Try again."
HOW = """\
export OPENAI_BASE_URL={url}/v1 ANTHROPIC_BASE_URL={url} OPENAI_API_KEY=x ANTHROPIC_API_KEY=x
rm tests/sdk_suite/tapes/{{openai,anthropic}}.jsonl  # a failure never replaces a whole answer
pytest -n0 tests/sdk_suite/test_openai.py tests/sdk_suite/test_anthropic.py --wiretape-record=all"""


class _Choice:
    def __init__(self) -> None:
        self._count = 0

    def __call__(self, request: ReceivedRequest) -> Scene:
        self._count += LIMITED in request.body
        if LIMITED not in request.body or self._count % 2 == 0:
            return scenes.choose(request)
        body = b'{"error": {"message": "Rate limit reached", "type": "requests", "code": "rate_limit_exceeded"}}'
        headers = [("retry-after-ms", "10")]
        return answer([(0.0, body)], status=429, content_type="application/json", framing="length", headers=headers)


async def main() -> None:
    async with ScriptedUpstream(_Choice()) as upstream:
        print(HOW.format(url=upstream.url), flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
