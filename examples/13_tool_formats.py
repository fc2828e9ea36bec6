"""One schema, described as each provider wants it."""

import json

from jianmu.tools import ToolSet, to_anthropic, to_gemini, to_mcp, to_openai, tool


@tool
def weather(city: str, days: int | None = None) -> str:
    """Tell the weather.

    :param city: the name of a city.
    :param days: how many days ahead; today when omitted.
    """
    return f"fine in {city} for {days or 1} days"


tools = ToolSet([weather])
for name, described in {
    "OpenAI": to_openai(tools),
    "OpenAI, strict": to_openai(tools, strict=True),
    "Anthropic": to_anthropic(tools),
    "Gemini": to_gemini(tools),
    "MCP": to_mcp(tools),
}.items():
    print(f"{name}: {json.dumps(described[0], ensure_ascii=False)}\n")
