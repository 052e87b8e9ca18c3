"""The only place that knows asyncio, anyio and aiohttp: connections, retries, limits, credentials, fan-out."""
