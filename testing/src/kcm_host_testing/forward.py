"""Carries requests to the real server and its answers back, through the faults that apply."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import UTC, datetime

import aiohttp
from aiohttp import web
from yarl import URL

from kcm_host_testing.faults import (
    ActiveRule,
    AfterLines,
    Answer,
    Cut,
    Delay,
    Point,
    Request,
    Rewrite,
    Stall,
)

# These belong to one connection and not to the message; the two libraries write their own.
_HOP_BY_HOP = frozenset(
    {"connection", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
)

# Without these the client library writes values of its own where the client sent none.
_OWN_HEADERS = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")


class Exchange:
    """One request on its way: what is known of it and which rules it has met."""

    def __init__(self, seen: Request, request: web.Request, rules: list[ActiveRule]) -> None:
        self.seen = seen
        self.request = request
        # With each rule the number of lines that went out before it came.
        self.rules = [(rule, 0) for rule in rules]
        # Whether the body is taken apart into lines; otherwise it passes as it comes.
        self.by_line = bool(rules) or seen.watch

    def join(self, rule: ActiveRule) -> None:
        """Put an open exchange under a rule that came later; a cut happens at once."""
        self.rules.append((rule, self.seen.lines))
        match rule.fault:
            case Cut(at=Point()) | Cut(at=AfterLines(lines=0)):
                if self.request.transport is not None:
                    self.request.transport.abort()

    async def cut(self, *, flush: bool = False) -> None:
        """Close the client's connection; never returns, for the loss ends the handler."""
        transport = self.request.transport
        if transport is not None and flush:
            transport.close()
        elif transport is not None:
            transport.abort()
        await asyncio.Event().wait()

    async def pass_point(self, point: Point) -> None:
        """Meet the rules for a moment before the answer."""
        for rule, _ in self.rules:
            match rule.fault:
                case Delay(seconds=seconds) if point is Point.REQUEST:
                    await asyncio.sleep(seconds)
                case Cut(at=at) if at is point and not rule.released.is_set():
                    await self.cut()
                case Stall(at=at) if at is point:
                    await rule.released.wait()

    async def pass_lines(self) -> None:
        """Meet the rules that wait for as many lines as there are now."""
        for rule, before in self.rules:
            match rule.fault:
                case Cut(at=AfterLines(lines=lines)) if self._due(rule, before + lines):
                    await self.cut(flush=True)
                case Stall(at=AfterLines(lines=lines)) if self._due(rule, before + lines):
                    await rule.released.wait()
                case Stall(at=Point()):
                    await rule.released.wait()

    def _due(self, rule: ActiveRule, lines: int) -> bool:
        return self.seen.lines >= lines and not rule.released.is_set()

    def rewritten(self, line: bytes) -> bytes | None:
        """What goes to the client instead of this line."""
        text, end = (line[:-1], b"\n") if line.endswith(b"\n") else (line, b"")
        for rule, _ in self.rules:
            if isinstance(rule.fault, Rewrite) and not rule.released.is_set():
                changed = rule.fault.line(text)
                if changed is None:
                    return None
                text = changed
        return text + end


class Forwarder:
    """The handler of the proxy: all requests, open and done, and the rules for new ones."""

    def __init__(
        self, target: str, session: aiohttp.ClientSession, changed: Callable[[], None]
    ) -> None:
        self._target = target
        self._session = session
        self._changed = changed
        self.rules: list[ActiveRule] = []
        self.exchanges: list[Exchange] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one request as the real server does, but for the faults."""
        seen = await _seen(request)
        exchange = Exchange(seen, request, self._rules_for(seen))
        self.exchanges.append(exchange)
        self._changed()
        try:
            return await self._answer(exchange)
        except aiohttp.ClientError:
            # The server is gone or closed in mid-answer: the client sees just that.
            await exchange.cut()
            raise
        finally:
            self._note(exchange, replace(exchange.seen, open=False))

    def _rules_for(self, seen: Request) -> list[ActiveRule]:
        taken: list[ActiveRule] = []
        for rule in self.rules:
            if rule.takes(seen):
                taken.append(rule)
                if isinstance(rule.fault, Answer | Cut):
                    break
        return taken

    def add(self, rule: ActiveRule, *, also_open: bool) -> None:
        """Put new requests under a rule, and open exchanges too if asked."""
        self.rules.append(rule)
        for exchange in self.exchanges:
            if also_open and exchange.seen.open and rule.takes(exchange.seen):
                exchange.join(rule)
        self._changed()

    def remove(self, rule: ActiveRule) -> None:
        """End a rule and release what it stalls."""
        rule.released.set()
        if rule in self.rules:
            self.rules.remove(rule)

    def _note(self, exchange: Exchange, now: Request) -> None:
        exchange.seen = now
        self._changed()

    async def _answer(self, exchange: Exchange) -> web.StreamResponse:
        await exchange.pass_point(Point.REQUEST)
        for rule, _ in exchange.rules:
            if isinstance(rule.fault, Answer):
                self._note(exchange, replace(exchange.seen, status=rule.fault.status))
                return web.Response(
                    status=rule.fault.status, body=rule.fault.body, headers=rule.fault.headers
                )
        async with self._session.request(
            exchange.seen.method,
            URL(self._target + exchange.request.raw_path, encoded=True),
            headers=_request_headers(exchange),
            skip_auto_headers=_OWN_HEADERS,
            data=exchange.seen.body or None,
            allow_redirects=False,
        ) as answer:
            try:
                await exchange.pass_point(Point.ANSWER)
                return await self._carry(exchange, answer)
            except BaseException:
                # A polite end of TLS would go on in the background after the proxy has stopped.
                if answer.connection is not None and answer.connection.transport is not None:
                    answer.connection.transport.abort()
                raise

    async def _carry(
        self, exchange: Exchange, answer: aiohttp.ClientResponse
    ) -> web.StreamResponse:
        response = web.StreamResponse(status=answer.status, reason=answer.reason)
        for name, value in answer.headers.items():
            if name.lower() not in _HOP_BY_HOP:
                response.headers.add(name, value)
        if exchange.by_line:
            response.headers.pop("Content-Length", None)
        await response.prepare(exchange.request)
        self._note(exchange, replace(exchange.seen, status=answer.status))
        await exchange.pass_lines()
        async for part in _parts(answer.content, by_line=exchange.by_line):
            await self._send(exchange, response, part)
        await exchange.pass_lines()
        await response.write_eof()
        return response

    async def _send(self, exchange: Exchange, response: web.StreamResponse, part: bytes) -> None:
        await exchange.pass_lines()
        if not exchange.by_line:
            await response.write(part)
            return
        changed = exchange.rewritten(part)
        if changed is None:
            return
        # Counted first: who has read a line finds it in the record.
        self._note(exchange, replace(exchange.seen, lines=exchange.seen.lines + 1))
        await response.write(changed)
        await exchange.pass_lines()


async def _seen(request: web.Request) -> Request:
    return Request(
        method=request.method,
        path=request.path,
        query=dict(request.query),
        headers={name.lower(): value for name, value in request.headers.items()},
        body=await request.read(),
        time=datetime.now(UTC),
    )


def _request_headers(exchange: Exchange) -> dict[str, str]:
    dropped = _HOP_BY_HOP | {"content-length"}
    if exchange.by_line:
        dropped |= {"accept-encoding"}  # lines cannot be seen in a compressed body
    return {n: v for n, v in exchange.request.headers.items() if n.lower() not in dropped}


async def _parts(content: aiohttp.StreamReader, *, by_line: bool) -> AsyncIterator[bytes]:
    rest = bytearray()
    async for chunk in content.iter_any():
        if not by_line:
            yield chunk
            continue
        looked = len(rest)
        rest += chunk
        while (end := rest.find(b"\n", looked)) >= 0:
            yield bytes(rest[: end + 1])
            del rest[: end + 1]
            looked = 0
    if rest:
        yield bytes(rest)
