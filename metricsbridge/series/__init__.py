"""The benchmarked core: columns, decoding, alignment. Pure and synchronous; no asyncio, no HTTP."""
