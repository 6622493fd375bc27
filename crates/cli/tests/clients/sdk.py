"""Lists and calls the tools of a Windlass MCP server with the official Python SDK: sdk.py BINARY WORKSPACE STATE."""
import asyncio
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


async def main(binary, workspace, state):
    server = StdioServerParameters(command=binary, args=["mcp", "-C", workspace, "--state", state])
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        tools = (await session.list_tools()).tools
        print(" ".join(tool.name for tool in tools))
        result = await session.call_tool("read", {"path": "a"})
        print(result.content[0].text)
        missing = await session.call_tool("read", {"path": "missing"})
        assert getattr(missing, "isError", None) or getattr(missing, "is_error", None), missing
        many = await asyncio.gather(*(session.call_tool("grep", {"pattern": "hello"}) for _ in range(20)))
        assert all("a:1:hello" in one.content[0].text for one in many)
        print("in flight:", len(many))


asyncio.run(main(*sys.argv[1:]))
