"""Several columns joined to one of states."""

from typing import TYPE_CHECKING

from bayesmdp.data._censoring import Coding
from bayesmdp.data._columns import PART
from bayesmdp.data._queries import fetch_one, how_many, worded
from bayesmdp.errors import CountsError

if TYPE_CHECKING:
    from bayesmdp.data._queries import Frame


def with_joint_state(
    frame: "Frame", found: dict[str, str], origin: str, coding: Coding
) -> tuple["Frame", dict[str, str]]:
    """Join the parts of a state, if it has any: 3 and f are 3/f."""
    import narwhals as nw

    parts = [role for role in found if role.startswith(PART)]
    if not parts:
        return frame, found
    with worded(origin):
        schema = frame.collect_schema()
        texts = []
        for part in parts:
            x, text = nw.col(part), nw.col(part).cast(nw.String)
            if schema[part].is_float():  # tables with gaps hold floats
                whole = x.cast(nw.Int64).cast(nw.String)
                text = nw.when(x == x.floor()).then(whole).otherwise(text)
            gone = ["", *coding.missing]
            texts.append(nw.when(~text.is_in(gone)).then(text).alias(part))
        frame = frame.with_columns(*texts)
        slashed = [how_many(nw.col(x).str.contains("/", literal=True)) for x in parts]
        asked = [n.alias(part) for n, part in zip(slashed, parts, strict=True)]
        for part, n in fetch_one(frame.select(*asked), origin).items():
            if n:
                raise CountsError(
                    f"Column `{found[part]}` of {origin} has the sign / in {int(n)} of "
                    "its rows, which joins columns to states: replace it there."
                )
        state = nw.concat_str(*parts, separator="/").alias("state")
        frame = frame.with_columns(state).drop(parts)
    joint = "/".join(found[x] for x in parts)
    others = {role: name for role, name in found.items() if role not in parts}
    return frame, {"state": joint, **others}
