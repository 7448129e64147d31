"""An agent of the A2A SDK that answers in an artifact, or in messages on the way; its argument is the port."""

import sys

import uvicorn
from a2a.helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, Part
from starlette.applications import Starlette


class Birds(AgentExecutor):
    """Counts birds."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        task = context.current_task or new_task_from_user_message(context.message)
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work(updater.new_agent_message([Part(text="Counting.")]))
        if "artifact" in context.get_user_input():
            await updater.add_artifact([Part(text="Two swans.")])
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError


port = int(sys.argv[1])
card = AgentCard(
    name="birds",
    description="Counts birds.",
    version="1",
    capabilities=AgentCapabilities(streaming=True),
    default_input_modes=["text"],
    default_output_modes=["text"],
    supported_interfaces=[AgentInterface(protocol_binding="JSONRPC", url=f"http://127.0.0.1:{port}/")],
)
handler = DefaultRequestHandler(Birds(), InMemoryTaskStore(), card)
uvicorn.run(Starlette(routes=create_jsonrpc_routes(handler, "/")), host="127.0.0.1", port=port, log_level="warning")
