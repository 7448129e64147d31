"""The command `wiretape demo`: records scripted streams through the real proxy, and shows the tape.

No key, no network: upstream is `wiretape.recorder.demo.upstream` on loopback, with the answers of
`wiretape.recorder.demo.agent` and `wiretape.recorder.demo.scenes`.
"""

import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from wiretape.recorder.commands.options import tape_path
from wiretape.recorder.sanitize import safe

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import httpx

    from wiretape.recorder.decode.values import JsonObject
    from wiretape.recorder.demo.agent import AgentStep


@click.command()
@click.option(
    "--db",
    type=click.Path(path_type=Path),
    help="The tape to record to. [default: demo.db beside the default tape]",
)
def demo(db: Path | None) -> None:
    """Record scripted streams of several APIs, and list them.

    Some are good, some broken; five are an agent's session. The demo needs no key and no network, and takes about
    seven seconds.
    """
    from wiretape.recorder.clock import SYSTEM
    from wiretape.recorder.demo import agent, scenes
    from wiretape.recorder.relay import loop
    from wiretape.viewer.commands import output
    from wiretape.viewer.commands.ls import ls
    from wiretape.viewer.commands.stats import stats

    path, began = db or tape_path(None).with_name("demo.db"), SYSTEM.wall()
    steps = list(agent.steps(f"demo-{SYSTEM.wall_ns() // 10**9}"))
    code = loop.run(lambda: _record(path, steps))
    arguments = ["--format", "table", "--db", str(path), "--since", began]
    ls.main([*arguments, "-n", str(len(steps) + len(scenes.SCENES))], standalone_mode=False)
    click.echo()
    stats.main(arguments, standalone_mode=False)

    program = "wiretape" if shutil.which("wiretape") else shlex.quote(sys.argv[0])
    tape = f"--db {shlex.quote(safe(str(path)))}"
    advice = {
        f"view {tape}": "look at them: enter opens one, ? shows all keys",
        f"view @ {tape}": "the newest, to step through and to play",
        f"ls {tape}": "this list again",
        f"show @ {tape}": "the newest, as a summary",
        f"show @s {tape}": "where the time of the agent's session went",
        f"show @ --part events {tape}": "every event with its timestamp",
        f"export --table exchanges -o demo.csv {tape}": "one row per exchange",
        "run -- python your_program.py": "record your own",
    }
    width = max(map(len, advice))
    lines = [f"  {program} {step:<{width}}  {meaning}" for step, meaning in advice.items()]
    if (screen := output.width()) is not None and max(map(len, lines)) > screen:
        lines = [f"  {program} {step}\n    {meaning}" for step, meaning in advice.items()]
    click.echo("\n".join(["", "try next:", *lines]))
    sys.exit(code)


async def _record(path: Path, steps: "Sequence[AgentStep]") -> int:
    import asyncio

    import httpx

    from wiretape.recorder.demo import agent, scenes
    from wiretape.recorder.demo.upstream import ScriptedUpstream
    from wiretape.recorder.relay import providers
    from wiretape.recorder.relay.outward import Proxies
    from wiretape.recorder.relay.service import Observer, Recorder, RecorderOptions

    count = len(steps) + len(scenes.SCENES)
    async with ScriptedUpstream(agent.choose) as upstream:
        upstreams = [providers.make("", upstream.url)]
        options = RecorderOptions(path, upstreams, labels={"run": "demo"}, purpose="wiretape demo", proxies=Proxies())
        recorder = Recorder(options, Observer(trouble=lambda message: click.echo(f"wiretape: {message}", err=True)))
        await recorder.start()
        click.echo(f"recording {count} scripted streams through {recorder.base} to {path} …\n", err=True)
        try:
            async with httpx.AsyncClient(base_url=recorder.base, timeout=30, trust_env=False) as client:
                await _work(client, steps[: agent.STALLED])
                # The scenes come after the agent's stall has begun: the last stall, and the last error, are of scenes.
                requests = [asyncio.create_task(_work(client, steps[agent.STALLED :]))]
                for name in scenes.SCENES:
                    await asyncio.sleep(0.01)  # so that the list has the scenes' order
                    requests.append(asyncio.create_task(_ask(client, *scenes.request(name))))
                await asyncio.gather(*requests)
        finally:
            unstored = await recorder.stop()
    return 1 if unstored else 0


async def _work(client: "httpx.AsyncClient", steps: "Sequence[AgentStep]") -> None:
    import asyncio

    from wiretape.recorder.demo import agent

    for step in steps:
        await _ask(client, agent.PATH, step.body, step.headers)
        await asyncio.sleep(step.pause_seconds)


async def _ask(
    client: "httpx.AsyncClient", path: str, request: "JsonObject", headers: "Mapping[str, str] | None" = None
) -> None:
    """Read a stream to its end, complete or broken, as a client does."""
    import httpx

    sent = {"authorization": "Bearer sk-demo-this-key-is-never-stored", **(headers or {})}
    try:
        async with client.stream("POST", path, json=request, headers=sent) as response:
            async for _ in response.aiter_raw():
                pass
    except httpx.HTTPError:
        return  # a broken stream is part of the programme: the tape says how it broke
