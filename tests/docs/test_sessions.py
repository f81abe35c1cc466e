"""Sessions on a page: the copy button copies the input alone."""

from __future__ import annotations

import html
import re

import markdown
from mkdocs.config import load_config

from helpers.scripts import ROOT, load_script

SOURCE = """\
```python
>>> f(x) < 3
True
```

```console
$ peekrank list
learners
```

```sh
make demo
```
"""


def test_the_copy_button_of_a_session_copies_the_input_alone() -> None:
    hooks, config = load_script("pages"), load_config(str(ROOT / "mkdocs.yml"))
    converter = markdown.Markdown(extensions=config.markdown_extensions, extension_configs=config.mdx_configs)
    made = converter.convert(hooks.on_page_markdown(SOURCE, None, None, None))
    page = hooks.on_page_content(made, None, None, None)
    assert [html.unescape(text) for text in re.findall('data-copy="(.*?)"', page)] == ["f(x) < 3", "peekrank list"]
