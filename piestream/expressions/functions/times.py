"""The parts of dates and timestamps: EXTRACT(part FROM time)."""

from __future__ import annotations

from piestream.expressions.functions.record import EXTRACT, Function, Inline, Operand, Order
from piestream.expressions.types import INT

__all__ = ["TIME_FUNCTIONS"]

TIME_FUNCTIONS = (
    Function(
        name=EXTRACT + "YEAR",
        node="Year",
        meaning="the year",
        takes=(Operand.DATE_OR_TIMESTAMP,),
        gives=INT,
        order=Order.ANY,
        polars=lambda time: time.dt.year(),
        python=Inline(lambda time: f"{time}.year"),
        spark=lambda time: f"year({time})",
    ),
    Function(
        name=EXTRACT + "MONTH",
        node="Month",
        meaning="the month, from 1 to 12",
        takes=(Operand.DATE_OR_TIMESTAMP,),
        gives=INT,
        order=Order.ANY,
        polars=lambda time: time.dt.month(),
        python=Inline(lambda time: f"{time}.month"),
        spark=lambda time: f"month({time})",
    ),
    Function(
        name=EXTRACT + "DAY",
        node="Day",
        meaning="the day of the month, from 1 on",
        takes=(Operand.DATE_OR_TIMESTAMP,),
        gives=INT,
        order=Order.ANY,
        polars=lambda time: time.dt.day(),
        python=Inline(lambda time: f"{time}.day"),
        spark=lambda time: f"day({time})",
    ),
    Function(
        name=EXTRACT + "HOUR",
        node="Hour",
        meaning="the hour, from 0 to 23",
        takes=(Operand.TIMESTAMP,),
        gives=INT,
        order=Order.ANY,
        polars=lambda time: time.dt.hour(),
        python=Inline(lambda time: f"{time}.hour"),
        spark=lambda time: f"hour({time})",
    ),
    Function(
        name=EXTRACT + "MINUTE",
        node="Minute",
        meaning="the minute, from 0 to 59",
        takes=(Operand.TIMESTAMP,),
        gives=INT,
        order=Order.ANY,
        polars=lambda time: time.dt.minute(),
        python=Inline(lambda time: f"{time}.minute"),
        spark=lambda time: f"minute({time})",
    ),
    Function(
        name=EXTRACT + "SECOND",
        node="Second",
        meaning="the whole second, from 0 to 59",
        takes=(Operand.TIMESTAMP,),
        gives=INT,
        order=Order.ANY,
        polars=lambda time: time.dt.second(),
        python=Inline(lambda time: f"{time}.second"),
        spark=lambda time: f"second({time})",
    ),
    Function(
        name=EXTRACT + "DOW",
        node=None,
        meaning="the day of the week, from 0 for Sunday to 6",
        takes=(Operand.DATE_OR_TIMESTAMP,),
        gives=INT,
        order=Order.ANY,
        polars=lambda time: time.dt.weekday() % 7,
        python=Inline(lambda time: f"({time}.isoweekday() % 7)"),
        spark=lambda time: f"(dayofweek({time}) - 1)",
    ),
)
