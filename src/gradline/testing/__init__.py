"""What every line search must do, as a check that anyone's search can be run through.

`check_line_search` drives a search over a zoo of one-dimensional functions and says in a sentence which rule it breaks.
`ZOO` and `Function` are that zoo, and the other checks are conditions on a finished search, for tests of your own.
Nothing here needs torch.

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
