"""Tests for line searches, including your own. Does not need torch.

`check_line_search` runs a search on a collection of one-dimensional functions, `ZOO`, and raises an `AssertionError`
that names the rule it violates. The other checks test conditions on a finished search.

```python
from gradline.searches import GolsI
from gradline.testing import check_line_search

check_line_search(GolsI(growth=1.5))
```
"""

from gradline.testing.conditions import check_decrease, check_sign_change, check_strong_wolfe
from gradline.testing.conformance import check_line_search
from gradline.testing.functions import ZOO, Function

__all__ = ["ZOO", "Function", "check_decrease", "check_line_search", "check_sign_change", "check_strong_wolfe"]
