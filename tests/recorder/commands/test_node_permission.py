"""`wiretape run` of Node with its permission model, which may read no file that is not named. Only where it has one."""

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.relay import DONE, chunk, finish, kept, on_loop, wiretape
from wiretape.recorder.demo.upstream import ScriptedUpstream, answer

NODE = shutil.which("node")


def has_option(flag: str) -> bool:
    return NODE is not None and subprocess.run([NODE, flag, "-v"], capture_output=True).returncode == 0


FLAG = next(filter(has_option, ("--permission", "--experimental-permission")), "")
CALL = """
fetch(process.argv[2] + "/v1/chat/completions", { method: "POST", body: "{}" }).then((answer) => answer.text())
  .then((text) => console.log(text.includes("[DONE]"), process.permission.has("fs.read", "/")));
"""
PARENT = """
const children = require("node:child_process");
const [flag, reads, program, url] = process.argv.slice(2);
const words = [flag, reads, program, url];
const line = [process.execPath, ...words].join(" ");
const told = (way, output) => console.log(way, String(output).trim());
told("spawnSync", children.spawnSync(process.execPath, words, { stdio: ["ignore", "pipe", "ignore"] }).stdout);
told("execFileSync", children.execFileSync(process.execPath, words, { stdio: ["ignore", "pipe", "ignore"] }));
told("execSync", children.execSync(line, { stdio: ["ignore", "pipe", "ignore"] }));
children.execFile(process.execPath, words, (_, output) => {
  told("execFile", output);
  children.exec(line, (_, output) => {
    told("exec", output);
    const NODE_OPTIONS = `${process.env.NODE_OPTIONS} ${flag} ${reads}`;
    children.execFile(process.execPath, [program, url], { env: { ...process.env, NODE_OPTIONS } }, (_, output) => {
      told("NODE_OPTIONS", output);
    });
  });
});
"""
STREAM = answer([(0.0, chunk("a", finish="stop")), (0.0, DONE)])
pytestmark = pytest.mark.skipif(not FLAG, reason="there is no Node with a permission model")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "call.js"
    path.write_text(CALL)
    return path


@pytest.mark.parametrize("place", ["command", "NODE_OPTIONS", "shell"])
@on_loop
async def test_node_with_permissions_is_recorded_if_options_are_known(
    tmp_path: Path, program: Path, place: str
) -> None:
    options = [FLAG, f"--allow-fs-read={program}"]
    async with ScriptedUpstream(lambda _: STREAM) as upstream:
        command = [str(NODE), *(() if place == "NODE_OPTIONS" else options), str(program), upstream.url]
        if place == "shell":
            command = ["sh", "-c", f"{shlex.join(command)}; true"]
        env = {"NODE_OPTIONS": " ".join(options) if place == "NODE_OPTIONS" else ""}
        async with wiretape("run", "--db", tmp_path / "tape.db", "--", *command, env=env) as process:
            code, out, err = await finish(process)
    assert (code, out) == (0, "true false\n")
    if place == "shell":
        assert "Node asks for permission in this command: of Node before 24 nothing is recorded" in err
    else:
        assert kept(tmp_path / "tape.db", "/v1/chat/completions") is not None


@on_loop
async def test_programs_of_node_that_ask_for_permission_start(tmp_path: Path, program: Path) -> None:
    (tmp_path / "parent.js").write_text(PARENT)
    async with ScriptedUpstream(lambda _: STREAM) as upstream:
        words = (NODE, tmp_path / "parent.js", FLAG, f"--allow-fs-read={program}", program, upstream.url)
        async with wiretape("run", "--db", tmp_path / "tape.db", "--", *words) as process:
            _, out, _ = await finish(process)
    functions = ("spawnSync", "execFileSync", "execSync", "execFile", "exec", "NODE_OPTIONS")
    assert out.splitlines() == [f"{function} true false" for function in functions]
