"""Run the code of pictures.md, and keep its two figures beside this file."""

import re
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
names: dict[str, Any] = {}
for code in re.findall(
    r"```python\n(.*?)```", (HERE.parent / "pictures.md").read_text(), re.S
):
    exec(compile(code, "pictures.md", "exec"), names)
names["policies_figure"].savefig(HERE / "policies.png", dpi=110)
names["sizes_ax"].figure.savefig(HERE / "sizes.png", dpi=130)
