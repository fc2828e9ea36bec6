"""A function becomes a tool; its schema comes from its signature and docstring."""

import asyncio
import json
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from jianmu.errors import ToolArgumentsError
from jianmu.tools import tool


class Address(BaseModel):
    """Where someone lives."""

    city: str
    street: str = ""


@tool(effect="write", timeout=10)
async def ship(
    parcel: str,
    to: Address,
    speed: Literal["slow", "fast"] = "slow",
    copies: Annotated[int, Field(ge=1, le=9)] = 1,
) -> str:
    """Ship a parcel.

    Args:
        parcel: what is in it.
        to: where it goes.
        speed: fast costs more.
        copies: how many.
    """
    return f"{copies} x {parcel} to {to.city}, {speed}"


async def main() -> None:
    print(ship.name, "-", ship.description)
    print(json.dumps(ship.input_schema, indent=2))

    # What a model sends is JSON; the function gets Python values.
    print(await ship.invoke({"parcel": "tea", "to": {"city": "上海"}, "speed": "fast"}))

    # What does not fit is told by path.
    try:
        await ship.invoke({"parcel": "tea", "to": {}, "copies": 0})
    except ToolArgumentsError as error:
        for problem in error.problems:
            print(problem)


asyncio.run(main())
