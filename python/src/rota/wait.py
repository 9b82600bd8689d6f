"""Awaiting a ticket."""

import asyncio
from typing import Any

from ._rota import Ticket


async def await_ticket(ticket: Ticket) -> dict[str, Any]:
    """The ticket's result, once it has ended; the event loop goes on meanwhile."""
    if not ticket.done():
        loop = asyncio.get_running_loop()
        ended = loop.create_future()

        def end() -> None:
            if not ended.done():
                ended.set_result(None)

        def wake(_: Ticket) -> None:
            try:
                loop.call_soon_threadsafe(end)
            except RuntimeError:  # the loop was closed: nobody awaits any more
                pass

        ticket.add_done_callback(wake)
        await ended
    return ticket.result()
