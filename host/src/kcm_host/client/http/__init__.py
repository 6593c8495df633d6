"""HTTP/1.1 over asyncio: messages, connections, how they are opened, and which are reused."""
