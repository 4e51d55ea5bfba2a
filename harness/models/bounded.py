"""An HTTP client that reads no answer without end: a server that is not ours may send more than memory holds.

Loaded by the first call alone, since it needs the client's HTTP library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from httpx2 import AsyncByteStream, Response
from pydantic_ai.models import create_async_httpx2_client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from httpx2 import AsyncClient

LONGEST_ANSWER_BYTES = 16 * 2**20


class TooLongError(Exception):
    """An answer that is longer than any of a model's, or packed so that nobody knows how long it is."""


class Bounded(AsyncByteStream):
    """The bytes of an answer, up to a length."""

    def __init__(self, stream: AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield what comes.

        Raises:
            TooLongError: more came than is read.
        """
        got = 0
        async for part in self._stream:
            got += len(part)
            if got > LONGEST_ANSWER_BYTES:
                raise TooLongError(f"the answer is longer than {LONGEST_ANSWER_BYTES // 2**20} MiB")
            yield part

    async def aclose(self) -> None:
        """Close the connection's stream."""
        await self._stream.aclose()


def bounded_client() -> AsyncClient:
    """Return an HTTP client that asks for plain bytes and counts them; whoever takes it closes it."""
    client = create_async_httpx2_client()
    client.headers["accept-encoding"] = "identity"
    client.event_hooks = {**client.event_hooks, "response": [_bound]}
    return client


async def _bound(response: Response) -> None:
    if response.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise TooLongError("the answer is packed, though plain bytes were asked for")
    if isinstance(response.stream, AsyncByteStream):
        response.stream = Bounded(response.stream)
